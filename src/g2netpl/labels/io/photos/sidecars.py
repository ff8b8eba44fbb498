"""Labels as keywords in sidecars: which sidecars change, and how.

A keyword is added if a label is positive and the photo does not have it yet, and removed from the
sidecar if a label is negative. All changes are tried before the first one is written. A sidecar is
read again directly before it is written; a new one is created exclusively, and one that another
program changes meanwhile is read again. The folder is locked: two commands exclude each other.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

import numpy as np
import numpy.typing as npt

from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.photos import xmp
from g2netpl.labels.io.photos.library import (
    Library,
    Tags,
    longest,
    places_of_words,
    reason,
    tags_in,
)
from g2netpl.labels.names import normalize_name
from g2netpl.labels.paths import RAW_SUFFIXES, SUFFIXES, find, list_images
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable
from g2netpl.utils.errors import InputError, counted, listed
from g2netpl.utils.files import atomic_write, remove_temporary, write_exclusively
from g2netpl.utils.locks import locked_without_file

_SHOWN = 5  # changes in the notes of a dry run
_TRIES = 5  # to write a sidecar that another program changes at the same time
_INSIDE = (".jpg", ".jpeg", ".tif", ".tiff", ".png", ".dng")  # Lightroom reads no sidecar of these


@dataclass(frozen=True)
class _Change:
    """What becomes of a sidecar, in keywords."""

    image: str
    sidecar: str  # relative to the folder of the photos
    is_new: bool
    added: list[str]
    removed: list[str]
    confirmed: list[str]  # that were predicted and are known labels now
    kept: list[str]  # negative labels with a keyword in the photo or in another sidecar

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.confirmed)

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
        plan = _Plan(table, path, predicted, by_stem)
        if not dry_run:
            plan.carry_out()
    notes = plan.notes() + (plan.preview() if dry_run else [])
    negatives = int((table.values == NEGATIVE).sum())
    if negatives:
        notes.append(f"{counted(negatives, 'negative label')} not kept: a keyword is a positive")
    return notes


class _Plan:
    """The changes that bring the labels of a table into sidecars."""

    def __init__(
        self,
        table: LabelTable,
        folder: Path,
        predicted: npt.NDArray[np.bool_] | None,
        by_stem: bool,
    ) -> None:
        self.table, self.library, self._by_stem = table, Library(folder), by_stem
        self._predicted = np.zeros(table.values.shape, bool) if predicted is None else predicted
        self._photos = [self.library.photo(name) for name in table.images]
        self._places = places_of_words(photo.tags().paths for photo in self._photos)
        shared = (
            sidecar for name in table.images for sidecar in self.library.shared_sidecars(name)
        )
        self._shared = list(dict.fromkeys(shared))
        problems, changes = Issues(), dict[int, _Change]()
        for row, name in enumerate(table.images):
            try:
                changes[row] = self._change(row, self._sidecar(name))[0]
            except (OSError, ValueError) as problem:
                where = os.path.join(self.library.root, self._sidecar(name))
                what = f"nothing is written: {reason(problem)}; fix this sidecar or move it away"
                problems.add(where, "sidecar", what)
        problems.raise_any()
        self._kept = sum(len(change.kept) for change in changes.values())
        self.changes = {row: change for row, change in changes.items() if change}

    def carry_out(self) -> None:
        """Write the sidecars, each whole or not at all."""
        for folder in {os.path.dirname(change.sidecar) for change in self.changes.values()}:
            remove_temporary(Path(self.library.root, folder), ".xmp")
        made = {row: self._write(row, change.sidecar) for row, change in self.changes.items()}
        self.changes = {row: change for row, change in made.items() if change}

    def notes(self) -> list[str]:
        """The numbers of changes, what was not changed, and how Lightroom gets the keywords."""
        changes = self.changes.values()
        added, removed, confirmed = (
            sum(len(getattr(change, kind)) for change in changes)
            for kind in ("added", "removed", "confirmed")
        )
        notes = [
            f"{counted(len(changes), 'sidecar')} ({sum(each.is_new for each in changes):,} new): "
            f"{counted(added, 'keyword')} added, {removed:,} removed"
            + (f", {confirmed:,} confirmed by people" if confirmed else "")
        ]
        if self._kept:
            what = counted(self._kept, "negative label")
            notes.append(f"{what} against a keyword in the photo or a second sidecar: it stays")
        if self._shared:
            notes.append(
                f"{counted(len(self._shared), 'shared sidecar')} not changed (a raw file or "
                f"another photo has the same name): {listed(self._shared, _SHOWN)}"
            )
        inside = [each for each in changes if each.image.lower().endswith(_INSIDE)]
        if inside:
            endings = sorted({os.path.splitext(each.image)[1][1:].lower() for each in inside})
            by_stem = sum(each.sidecar != f"{each.image}.xmp" for each in inside)
            source = "%d%f.xmp" if 2 * by_stem > len(inside) else "%d%f.%e.xmp"
            lists = "-XMP-dc:Subject -XMP-lr:HierarchicalSubject"
            kinds = " ".join(f"-ext {ending}" for ending in endings)
            notes.append(
                "Lightroom reads the keywords of JPEG, TIFF, PNG and DNG from the file, not from a "
                f"sidecar; copy them with: exiftool -r {kinds} -tagsFromFile @ {lists} "
                f"-addTagsFromFile {source} {lists} -api NoDups=1 {quote(self.library.root)}"
            )
        return notes

    def preview(self) -> list[str]:
        """How often each keyword is added, and the first changes."""
        changes = list(self.changes.values())
        more = len(changes) - _SHOWN
        counts = Counter(name for change in changes for name in change.added).most_common()
        keywords = listed((f"{name} {count:,} times" for name, count in counts), _SHOWN)
        shown = [f"added: {keywords}"] if more > 0 and counts else []
        shown += map(str, changes[:_SHOWN])
        return [*shown, *([f"and {more:,} more"] if more > 0 else [])]

    def _sidecar(self, name: str) -> str:
        """The sidecar that is there, or the name of a new one."""
        shared = self.library.shared_sidecars(name)
        own = [sidecar for sidecar in self.library.sidecars(name) if sidecar not in shared]
        by_stem = self._by_stem and not self.library.shares_stem(name)
        return own[0] if own else f"{os.path.splitext(name)[0] if by_stem else name}.xmp"

    def _change(self, row: int, sidecar: str) -> tuple[_Change, bytes | None, bytes]:
        """The change of a sidecar as it is now, and its content before and after."""
        before = self.library.content_to_replace(sidecar)
        packet = xmp.Packet(before or xmp.EMPTY)
        inside, elsewhere = tags_in(packet), self._photos[row].tags(without=sidecar)
        labels, is_predicted = self.table.values[row], self._predicted[row]
        positive = self._classes(labels == POSITIVE)
        negative = self._classes(labels == NEGATIVE)
        known = self._classes((labels == POSITIVE) & ~is_predicted)
        words = {normalize_name(word) for path in (inside | elsewhere).paths for word in path}
        marked = set(map(normalize_name, packet.keywords(xmp.ADDED)))
        change = _Change(
            self.table.images[row],
            sidecar,
            before is None,
            added=[name for name in positive if normalize_name(name) not in words],
            removed=_among(negative, inside.last_levels),
            confirmed=_among(known, marked),
            kept=_among(negative, elsewhere.last_levels),
        )
        lists = self._new_keywords(
            packet, change, elsewhere if before is None else inside, negative
        )
        removed = set(map(normalize_name, change.removed))
        for property in xmp.KEYWORDS:
            packet.edit(property, lists.get(property, ()), removed)
        unmarked = removed.union(map(normalize_name, change.confirmed))
        packet.edit(xmp.ADDED, [name for name in change.added if name not in known], unmarked)
        return change, before, packet.to_bytes()

    def _new_keywords(
        self, packet: xmp.Packet, change: _Change, tags: Tags, negative: Sequence[str]
    ) -> dict[xmp.Property, Sequence[str]]:
        """What goes to the end of each list; a new sidecar also gets the tags of the photo.

        Programs that find a list with levels read no other, so that one has to hold all keywords.
        """
        places = [self._places.get(normalize_name(name), []) for name in change.added]
        words = zip(change.added, places, strict=True)
        new = [found[0] if len(found) == 1 else (name,) for name, found in words]
        gone = set(map(normalize_name, negative))
        before = frozenset(path for path in tags.paths if normalize_name(path[-1]) not in gone)
        copied = before if change.is_new else frozenset()
        lists: dict[xmp.Property, Sequence[str]] = {
            xmp.SUBJECT: [*sorted({path[-1] for path in copied}), *change.added]
        }
        if packet.has_list(xmp.HIERARCHY):
            lists[xmp.HIERARCHY] = ["|".join(path) for path in new]
        elif any(len(path) > 1 for path in (*new, *copied)):
            lists[xmp.HIERARCHY] = ["|".join(path) for path in (*longest(before), *new)]
        for property in filter(packet.has_list, (xmp.TAGS_LIST, xmp.LAST_KEYWORD)):
            lists[property] = ["/".join(path) for path in new if "/" not in "".join(path)]
        return lists

    def _classes(self, is_chosen: npt.NDArray[np.bool_]) -> list[str]:
        return [self.table.classes[column] for column in np.flatnonzero(is_chosen).tolist()]

    def _write(self, row: int, sidecar: str) -> _Change:
        """Change the sidecar as it is now; returns the change that was made."""
        path = Path(self.library.root, sidecar)
        for _ in range(_TRIES):
            try:
                change, before, content = self._change(row, sidecar)
            except (OSError, ValueError) as problem:
                why = f"{reason(problem)}; fix this sidecar or move it away, then run again"
                raise InputError(f"{path}: not written: {why}") from None
            if not change or self._replace(path, sidecar, before, content):
                return change
        raise InputError(f"{path}: another program keeps changing it; close it, then run again")

    def _replace(self, path: Path, sidecar: str, before: bytes | None, content: bytes) -> bool:
        """Write a sidecar, unless another program created or changed it since it was read."""

        def is_unchanged() -> bool:
            try:
                return self.library.content_to_replace(sidecar) == before
            except (OSError, ValueError):
                return False

        try:
            if before is None:
                write_exclusively(path, content)
            else:
                with atomic_write(path, condition=is_unchanged) as file:
                    file.write(content)
        except FileExistsError:
            return False
        return True


def _among(names: Iterable[str], words: Set[str]) -> list[str]:
    return [name for name in names if normalize_name(name) in words]


def _check(table: LabelTable, folder: Path) -> None:
    """Reject classes that cannot be keywords, and images that are not photos in the folder."""
    if not folder.is_dir():
        raise InputError(f"{folder}: expected the folder of the photos")
    for name in table.classes:
        if name != name.strip() or "|" in name or xmp.NOT_IN_XML.search(name):
            raise InputError(
                f"class {name!r}: cannot be a keyword: it holds '|', spaces at its ends or "
                "characters that XML does not allow"
            )
    missing = find(table.images, folder).missing
    if missing:
        raise InputError(
            f"{folder}: {len(missing):,} of {len(table):,} photos are not there, the first is "
            f"{table.images[missing[0]]!r}; expected the folder that their names are relative to"
        )
    endings = (*SUFFIXES, *RAW_SUFFIXES)
    odd = {
        name
        for name in table.images
        if not name.lower().endswith(endings) or any(part[:1] == "." for part in name.split("/"))
    }
    odd = odd.difference(list_images(folder)) if odd else odd
    if odd:
        raise InputError(
            f"{folder}: image {min(odd)!r}: expected a photo, as a name that ends in .jpg"
        )
