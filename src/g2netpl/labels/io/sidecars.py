"""Labels as keywords in sidecars.

A keyword is added if a label is positive and the photo does not have it yet, and removed from the
sidecar if a label is negative. All changes are tried before the first one is written; a sidecar is
read again directly before it is written. The folder is locked: two commands exclude each other.
"""

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

import numpy as np
import numpy.typing as npt

from g2netpl.labels.io import photos
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.photos import Library, Packet, Property, TagPath, longest, reason, union
from g2netpl.labels.names import normalize_name
from g2netpl.labels.paths import RAW_SUFFIXES, SUFFIXES, find
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable
from g2netpl.utils.errors import InputError, counted, listed
from g2netpl.utils.files import friendly_os_errors, write_bytes
from g2netpl.utils.locks import locked_without_file

_SHOWN = 5  # changes in the notes of a dry run
_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INSIDE = (".jpg", ".jpeg", ".tif", ".tiff", ".png", ".dng")  # Lightroom reads no sidecar of these


@dataclass(frozen=True)
class _Change:
    """What becomes of a sidecar, in keywords."""

    image: str
    sidecar: str  # relative to the folder of the photos
    is_new: bool
    content: bytes
    added: list[str]
    removed: list[str]
    confirmed: list[str]  # that were predicted and are known labels now

    def __str__(self) -> str:
        parts = [f"+ {name}" for name in self.added] + [f"− {name}" for name in self.removed]
        parts += [f"{name} confirmed" for name in self.confirmed]
        return f"{self.sidecar}{' (new)' if self.is_new else ''}: {', '.join(parts)}"


def write(
    table: LabelTable,
    path: Path,
    predicted: npt.NDArray[np.bool_] | None = None,
    by_stem: bool = False,
    dry_run: bool = False,
) -> list[str]:
    """Write labels into sidecars; `predicted` says which nobody gave. Returns notes on changes.

    A new sidecar is called `IMG.JPG.xmp`, or `IMG.xmp` with `by_stem`. A dry run writes nothing,
    and its notes name the first changes.
    """
    _check(table, path)
    with nullcontext() if dry_run else locked_without_file(path):
        plan = _Plan(table, path, predicted)
        issues, changes = Issues(), dict[int, _Change]()
        for row, name in enumerate(table.images):
            sidecar = plan.sidecar(name, by_stem)
            try:
                change = plan.change(row, sidecar)
                if change.added or change.removed or change.confirmed:
                    changes[row] = change
                    if not os.access((path / change.sidecar).parent, os.W_OK):
                        raise ValueError("no permission to write to its folder")
            except (OSError, ValueError) as problem:
                what = f"nothing is written: {reason(problem)}; fix this sidecar or move it away"
                issues.add(os.path.join(path, sidecar), "sidecar", what)
        issues.raise_any()
        for row, change in {} if dry_run else changes.items():
            with friendly_os_errors(path / change.sidecar):
                write_bytes(path / change.sidecar, plan.change(row, change.sidecar).content)
    return [*_notes(list(changes.values()), path, dry_run), *plan.notes()]


def _check(table: LabelTable, folder: Path) -> None:
    """Reject classes that cannot be keywords, and images that are not in the folder."""
    if not folder.is_dir():
        raise InputError(f"{folder}: expected the folder of the photos")
    for name in table.classes:
        if name != name.strip() or "|" in name or _NOT_IN_XML.search(name):
            raise InputError(
                f"class {name!r}: cannot be a keyword: it holds '|', spaces at its ends or "
                "characters that XML does not allow"
            )
    missing = [table.images[row] for row in find(table.images, folder).missing]
    endings = (*SUFFIXES, *RAW_SUFFIXES)
    missing += [name for name in table.images if not name.lower().endswith(endings)]
    missing += [name for name in table.images if "/." in f"/{name}"]
    if missing:
        raise InputError(
            f"{folder}: image {missing[0]!r} is not a photo in this folder (the first of "
            f"{len(missing):,}); expected the folder that the names are relative to"
        )


class _Plan:
    """How the labels of a table come into sidecars."""

    def __init__(
        self, table: LabelTable, folder: Path, predicted: npt.NDArray[np.bool_] | None
    ) -> None:
        self.table, self.library = table, Library(folder)
        self._predicted = np.zeros(table.values.shape, bool) if predicted is None else predicted
        self._tags = [self.library.tags(name) for name in table.images]
        self._places = defaultdict[str, set[TagPath]](set)  # of each word among the levels of tags
        for tags in {path for place in self._tags for path in longest(union(place.values()).paths)}:
            for depth, word in enumerate(tags, start=1):
                self._places[normalize_name(word)].add(tags[:depth])
        self._shared = [  # `IMG.xmp` of a raw file and a JPEG
            sidecar
            for name, place in zip(table.images, self._tags, strict=True)
            for sidecar in place
            if sidecar.lower() not in (name.lower(), f"{name}.xmp".lower())
            and self.library.shares_stem(name)
        ]

    def sidecar(self, name: str, by_stem: bool) -> str:
        """The sidecar that is there, or the name of a new one."""
        free = [item for item in self.library.sidecars(name) if item not in self._shared]
        has_stem = by_stem and not self.library.shares_stem(name)
        return free[0] if free else f"{os.path.splitext(name)[0] if has_stem else name}.xmp"

    def change(self, row: int, sidecar: str) -> _Change:
        """The change of a sidecar as it is now."""
        before = self.library.sidecar(sidecar)
        packet = Packet(before or photos.EMPTY)
        inside = photos.tags_in(packet)
        elsewhere = union(tags for file, tags in self._tags[row].items() if file != sidecar)
        labels, names = self.table.values[row], np.array(self.table.classes, dtype=object)
        positive, negative = names[labels == POSITIVE].tolist(), names[labels == NEGATIVE].tolist()
        known = names[(labels == POSITIVE) & ~self._predicted[row]].tolist()
        words = {normalize_name(word) for path in inside.paths | elsewhere.paths for word in path}
        marked = set(map(normalize_name, packet.keywords(photos.ADDED)))
        there = photos.last_levels(inside)
        added = [name for name in positive if normalize_name(name) not in words]
        removed = [name for name in negative if normalize_name(name) in there]
        confirmed = [name for name in known if normalize_name(name) in marked]
        # a new sidecar also gets the tags of the photo; programs that find a list with levels read
        # no other, so that one has to hold all keywords
        places = [[*self._places.get(normalize_name(name), ())] for name in added]
        pairs = zip(added, places, strict=True)
        new = [where[0] if len(where) == 1 else (name,) for name, where in pairs]
        gone = set(map(normalize_name, negative))
        paths = (elsewhere if before is None else inside).paths
        kept = frozenset(path for path in paths if normalize_name(path[-1]) not in gone)
        copied = kept if before is None else frozenset()
        lists: dict[Property, Sequence[str]] = {
            photos.SUBJECT: [*sorted({path[-1] for path in copied}), *added]
        }
        if packet.lists(photos.HIERARCHY):
            lists[photos.HIERARCHY] = ["|".join(path) for path in new]
        elif any(len(path) > 1 for path in (*new, *copied)):
            lists[photos.HIERARCHY] = ["|".join(path) for path in (*longest(kept), *new)]
        for property in filter(packet.lists, (photos.TAGS_LIST, photos.LAST_KEYWORD)):
            lists[property] = ["/".join(path) for path in new if "/" not in "".join(path)]
        for property in photos.KEYWORDS:
            packet.edit(property, lists.get(property, ()), set(map(normalize_name, removed)))
        unmarked = set(map(normalize_name, (*removed, *confirmed)))
        packet.edit(photos.ADDED, [name for name in added if name not in known], unmarked)
        image, content = self.table.images[row], packet.to_bytes()
        return _Change(image, sidecar, before is None, content, added, removed, confirmed)

    def notes(self) -> list[str]:
        """What does not become a keyword, or is not changed."""
        notes = []
        if self._shared:
            what = counted(len(set(self._shared)), "shared sidecar")
            why = "a raw file or another photo has the same name"
            shown = listed(dict.fromkeys(self._shared), _SHOWN)
            notes.append(f"{what} not changed ({why}): {shown}")
        negatives = int((self.table.values == NEGATIVE).sum())
        if negatives:
            what = counted(negatives, "negative label")
            notes.append(f"{what} not written: a keyword can only be a positive")
        return notes


def _notes(changes: Sequence[_Change], folder: Path, dry_run: bool) -> list[str]:
    """The numbers of changes, and how Lightroom gets the keywords."""
    new, added, removed, confirmed = (
        sum(change.is_new for change in changes),
        sum(len(change.added) for change in changes),
        sum(len(change.removed) for change in changes),
        sum(len(change.confirmed) for change in changes),
    )
    notes = [
        f"{counted(len(changes), 'sidecar')} ({new:,} new): {counted(added, 'keyword')} added, "
        f"{removed:,} removed{f', {confirmed:,} confirmed by people' if confirmed else ''}"
    ]
    inside = [change for change in changes if change.image.lower().endswith(_INSIDE)]
    if inside:
        endings = sorted({os.path.splitext(change.image)[1][1:].lower() for change in inside})
        by_stem = sum(change.sidecar != f"{change.image}.xmp" for change in inside)
        source = "%d%f.xmp" if 2 * by_stem > len(inside) else "%d%f.%e.xmp"
        lists = "-XMP-dc:Subject -XMP-lr:HierarchicalSubject"
        kinds = " ".join(f"-ext {ending}" for ending in endings)
        notes.append(
            "Lightroom reads the keywords of JPEG, TIFF, PNG and DNG from the file, not from a "
            f"sidecar; copy them with: exiftool -r {kinds} -tagsFromFile @ {lists} "
            f"-addTagsFromFile {source} {lists} -api NoDups=1 {quote(str(folder))}"
        )
    if dry_run:
        notes += map(str, changes[:_SHOWN])
        notes += [f"and {len(changes) - _SHOWN:,} more"] if len(changes) > _SHOWN else []
    return notes
