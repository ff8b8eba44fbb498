"""Labels as keywords in sidecars.

A keyword is added if a label is positive and the photo does not have it yet, and removed from the
sidecar if a label is negative. All changes are tried before the first one is written. A sidecar is
read again directly before it is written, and only replaced if no other program has changed it. The
folder is locked: two commands exclude each other.
"""

import os
import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

import numpy as np
import numpy.typing as npt

from g2netpl.labels.io import photos
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.photos import Library, Packet, Property, longest, reason
from g2netpl.labels.names import normalize_name
from g2netpl.labels.paths import RAW_SUFFIXES, SUFFIXES, find
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable
from g2netpl.utils.errors import InputError, counted, listed
from g2netpl.utils.files import remove_temporary, write_bytes
from g2netpl.utils.locks import locked_without_file

_SHOWN = 5  # changes in the notes of a dry run
_TRIES = 5  # to write a sidecar that another program changes at the same time
_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INSIDE = (".jpg", ".jpeg", ".tif", ".tiff", ".png", ".dng")  # Lightroom reads no sidecar of these


@dataclass(frozen=True)
class _Change:
    """What becomes of a sidecar, in keywords."""

    image: str
    sidecar: str  # relative to the folder of the photos
    before: bytes | None  # None: there is none yet
    after: bytes
    added: list[str]
    removed: list[str]
    confirmed: list[str]  # that were predicted and are known labels now
    kept: list[str]  # negative labels with a keyword in the photo or in another sidecar

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.confirmed)

    def __str__(self) -> str:
        parts = [f"+ {name}" for name in self.added] + [f"− {name}" for name in self.removed]
        parts += [f"{name} confirmed" for name in self.confirmed]
        return f"{self.sidecar}{' (new)' if self.before is None else ''}: {', '.join(parts)}"


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
                changes[row] = plan.change(row, sidecar)
            except (OSError, ValueError) as problem:
                what = f"nothing is written: {reason(problem)}; fix this sidecar or move it away"
                issues.add(os.path.join(path, sidecar), "sidecar", what)
        issues.raise_any()
        kept = sum(len(change.kept) for change in changes.values())
        if not dry_run:
            changes = {row: plan.carry_out(row, item) for row, item in changes.items() if item}
    made = [change for change in changes.values() if change]
    notes = _notes(made, path)
    if kept:
        what = counted(kept, "negative label")
        notes.append(f"{what} against a keyword in the photo or a second sidecar: it stays")
    if plan.shared:
        what = counted(len(plan.shared), "shared sidecar")
        why = "a raw file or another photo has the same name"
        notes.append(f"{what} not changed ({why}): {listed(plan.shared, _SHOWN)}")
    if dry_run:
        notes += [str(change) for change in made[:_SHOWN]]
        notes += [f"and {len(made) - _SHOWN:,} more"] if len(made) > _SHOWN else []
    negatives = int((table.values == NEGATIVE).sum())
    if negatives:
        notes.append(f"{counted(negatives, 'negative label')} not kept: a keyword is a positive")
    return notes


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
            f"{folder}: image {missing[0]!r} is not a photo in this folder (nor are "
            f"{len(missing) - 1:,} others); expected the folder that the names are relative to"
        )


class _Plan:
    """How the labels of a table come into sidecars."""

    def __init__(
        self, table: LabelTable, folder: Path, predicted: npt.NDArray[np.bool_] | None
    ) -> None:
        self.table, self.library = table, Library(folder)
        self._predicted = np.zeros(table.values.shape, bool) if predicted is None else predicted
        self._photos = [self.library.photo(name) for name in table.images]
        self._places = photos.places_of_words(photo.tags().paths for photo in self._photos)
        shared = (item for name in table.images for item in self.library.shared_sidecars(name))
        self.shared = list(dict.fromkeys(shared))

    def sidecar(self, name: str, by_stem: bool) -> str:
        """The sidecar that is there, or the name of a new one."""
        free = [item for item in self.library.sidecars(name) if item not in self.shared]
        has_stem = by_stem and not self.library.shares_stem(name)
        return free[0] if free else f"{os.path.splitext(name)[0] if has_stem else name}.xmp"

    def change(self, row: int, sidecar: str) -> _Change:
        """The change of a sidecar as it is now."""
        before = self.library.content_to_replace(sidecar)
        packet = Packet(before or photos.EMPTY)
        inside, elsewhere = photos.tags_in(packet), self._photos[row].tags(without=sidecar)
        labels, names = self.table.values[row], np.array(self.table.classes, dtype=object)
        positive, negative = names[labels == POSITIVE].tolist(), names[labels == NEGATIVE].tolist()
        known = names[(labels == POSITIVE) & ~self._predicted[row]].tolist()
        words = {normalize_name(word) for path in (inside | elsewhere).paths for word in path}
        marked = set(map(normalize_name, packet.keywords(photos.ADDED)))
        added = [name for name in positive if normalize_name(name) not in words]
        removed = [name for name in negative if normalize_name(name) in inside.last_levels]
        confirmed = [name for name in known if normalize_name(name) in marked]
        kept = [name for name in negative if normalize_name(name) in elsewhere.last_levels]
        # a new sidecar also gets the tags of the photo; programs that find a list with levels read
        # no other, so that one has to hold all keywords
        places = [self._places.get(normalize_name(name), []) for name in added]
        pairs = zip(added, places, strict=True)
        new = [where[0] if len(where) == 1 else (name,) for name, where in pairs]
        gone = set(map(normalize_name, negative))
        tags = elsewhere if before is None else inside
        there = frozenset(path for path in tags.paths if normalize_name(path[-1]) not in gone)
        copied = there if before is None else frozenset()
        lists: dict[Property, Sequence[str]] = {
            photos.SUBJECT: [*sorted({path[-1] for path in copied}), *added]
        }
        if packet.has_list(photos.HIERARCHY):
            lists[photos.HIERARCHY] = ["|".join(path) for path in new]
        elif any(len(path) > 1 for path in (*new, *copied)):
            lists[photos.HIERARCHY] = ["|".join(path) for path in (*longest(there), *new)]
        for property in filter(packet.has_list, (photos.TAGS_LIST, photos.LAST_KEYWORD)):
            lists[property] = ["/".join(path) for path in new if "/" not in "".join(path)]
        for property in photos.KEYWORDS:
            packet.edit(property, lists.get(property, ()), set(map(normalize_name, removed)))
        unmarked = set(map(normalize_name, (*removed, *confirmed)))
        packet.edit(photos.ADDED, [name for name in added if name not in known], unmarked)
        after, image = packet.to_bytes(), self.table.images[row]
        return _Change(image, sidecar, before, after, added, removed, confirmed, kept)

    def carry_out(self, row: int, planned: _Change) -> _Change:
        """Write a sidecar, whole or not at all; returns the change that was made."""
        path = Path(self.library.root, planned.sidecar)
        remove_temporary(path.parent, ".xmp")
        for _ in range(_TRIES):
            try:
                change = self.change(row, planned.sidecar)
                if change and not self._is_unchanged(change):
                    continue
                if change:
                    write_bytes(path, change.after)
                return change
            except (OSError, ValueError) as problem:
                why = f"{reason(problem)}; fix this sidecar or move it away, then run again"
                raise InputError(f"{path}: not written: {why}") from None
        raise InputError(f"{path}: another program keeps changing it; close it, then run again")

    def _is_unchanged(self, change: _Change) -> bool:
        try:
            return self.library.content_to_replace(change.sidecar) == change.before
        except (OSError, ValueError):
            return False


def _notes(changes: Sequence[_Change], folder: Path) -> list[str]:
    """The numbers of changes, and how Lightroom gets the keywords."""
    added, removed, confirmed = (
        sum(len(getattr(change, kind)) for change in changes)
        for kind in ("added", "removed", "confirmed")
    )
    notes = [
        f"{counted(len(changes), 'sidecar')} ({sum(item.before is None for item in changes):,} "
        f"new): {counted(added, 'keyword')} added, {removed:,} removed"
        + (f", {confirmed:,} confirmed by people" if confirmed else "")
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
    return notes
