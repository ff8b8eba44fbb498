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
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

import numpy as np
import numpy.typing as npt

from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.photos import xmp
from g2netpl.labels.io.photos.library import (
    Hierarchy,
    Library,
    Photo,
    TagPath,
    Tags,
    longest,
    reason,
    tags_in_xmp,
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
class Change:
    """What becomes of the sidecar of a photo."""

    image: str
    sidecar: str  # relative to the folder of the photos
    photo: Photo
    positive: list[str]
    negative: list[str]
    guessed: list[str]  # the labels that are predicted

    @property
    def tags(self) -> Tags | None:
        """The tags that are in the sidecar; None if there is none yet."""
        return self.photo.sidecars.get(self.sidecar)

    @property
    def added(self) -> list[str]:
        """The keywords to add."""
        there = {normalize_name(word) for path in self.photo.paths for word in path}
        return [name for name in self.positive if normalize_name(name) not in there]

    @property
    def removed(self) -> list[str]:
        """The keywords to remove."""
        return _among(self.negative, _last_levels([self.tags] if self.tags else []))

    @property
    def confirmed(self) -> list[str]:
        """Keywords that were predicted and are known labels now."""
        known = [name for name in self.positive if name not in self.guessed]
        return _among(known, self.tags.predicted) if self.tags else []

    @property
    def kept(self) -> list[str]:
        """Negative labels with a keyword in the photo or in another sidecar."""
        sidecars = self.photo.sidecars.items()
        others = [tags for name, tags in sidecars if name != self.sidecar]
        return _among(self.negative, _last_levels([self.photo.embedded, *others]))

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.confirmed)

    def __str__(self) -> str:
        parts = [f"+ {name}" for name in self.added] + [f"− {name}" for name in self.removed]
        parts += [f"{name} confirmed" for name in self.confirmed]
        return f"{self.sidecar}{'' if self.tags else ' (new)'}: {', '.join(parts)}"

    def reread(self, content: bytes | None) -> "Change":
        """The same with the sidecar as it is now; None if there is none."""
        sidecars = dict(self.photo.sidecars)
        sidecars.pop(self.sidecar, None)
        if content is not None:
            sidecars[self.sidecar] = tags_in_xmp(content)
        return replace(self, photo=replace(self.photo, sidecars=sidecars))

    def content(self, before: bytes | None, hierarchy: Hierarchy) -> bytes:
        """The content of the sidecar after the change."""
        removed = set(map(normalize_name, self.removed))
        predicted = removed.union(map(normalize_name, self.confirmed))

        def is_removed(property: xmp.Property, keyword: str) -> bool:
            levels = property.levels(keyword)
            names = predicted if property is xmp.ADDED else removed
            return bool(levels) and normalize_name(levels[-1]) in names

        return xmp.edit(before or xmp.EMPTY, self._lists(hierarchy), is_removed)

    def _lists(self, hierarchy: Hierarchy) -> dict[xmp.Property, Sequence[str]]:
        """What goes to the end of each list; a new sidecar also gets the keywords of the photo.

        Programs that find a list with levels read no other, so that one has to hold all keywords.
        """
        tags, added = self.tags, self.added
        new = [hierarchy.place(name) for name in added]
        negative = set(map(normalize_name, self.negative))
        before = self.photo.paths if tags is None else tags.paths
        before = frozenset(path for path in before if normalize_name(path[-1]) not in negative)
        copied = before if tags is None else frozenset[TagPath]()
        there = frozenset[xmp.Property]() if tags is None else tags.lists
        lists: dict[xmp.Property, Sequence[str]] = {
            xmp.SUBJECT: [*sorted({path[-1] for path in copied}), *added],
            xmp.ADDED: [name for name in added if name in self.guessed],
        }
        if xmp.HIERARCHY in there:
            lists[xmp.HIERARCHY] = ["|".join(path) for path in new]
        elif any(len(path) > 1 for path in (*new, *copied)):
            lists[xmp.HIERARCHY] = ["|".join(path) for path in (*longest(before), *new)]
        for property in there & {xmp.TAGS_LIST, xmp.LAST_KEYWORD}:
            lists[property] = ["/".join(path) for path in new if "/" not in "".join(path)]
        return lists


def write_sidecars(
    table: LabelTable,
    folder: Path,
    guessed: npt.NDArray[np.bool_] | None = None,
    stem: bool = False,
    dry_run: bool = False,
) -> list[str]:
    """Bring the labels of a table into sidecars; returns notes on what is changed."""
    _check(table, folder)
    with nullcontext() if dry_run else locked_without_file(folder):
        plan = _Plan(table, folder, guessed, stem)
        if not dry_run:
            plan.carry_out()
    return plan.notes() + (plan.preview() if dry_run else [])


class _Plan:
    """The changes that bring the labels of a table into sidecars."""

    def __init__(
        self,
        table: LabelTable,
        folder: Path,
        guessed: npt.NDArray[np.bool_] | None,
        stem: bool,
    ) -> None:
        self.library, self._hierarchy, self._stem = Library(folder), Hierarchy(), stem
        photos = [self.library.photo(name) for name in table.images]
        for photo in photos:
            self._hierarchy.add(photo.paths)
        signs = (table.values == POSITIVE, table.values == NEGATIVE)
        chosen = (*signs, np.zeros_like(signs[0]) if guessed is None else guessed)
        changes = []
        for row, (name, photo) in enumerate(zip(table.images, photos, strict=True)):
            columns = [np.flatnonzero(each[row]).tolist() for each in chosen]
            names = [[table.classes[column] for column in each] for each in columns]
            changes.append(Change(name, self._sidecar(name, photo), photo, *names))
        self.kept = sum(len(change.kept) for change in changes)
        self.changes = [change for change in changes if change]
        shared = map(self.library.shared_sidecars, table.images)
        self.shared = list(dict.fromkeys(sidecar for each in shared for sidecar in each))
        self._try()

    def carry_out(self) -> None:
        """Write the sidecars, each whole or not at all."""
        for folder in {os.path.dirname(change.sidecar) for change in self.changes}:
            remove_temporary(Path(self.library.root, folder), ".xmp")
        self.changes = [change for change in map(self._write, self.changes) if change]

    def notes(self) -> list[str]:
        """The numbers of changes, what was not changed, and how Lightroom gets the keywords."""
        added, removed, confirmed = (
            sum(len(getattr(change, kind)) for change in self.changes)
            for kind in ("added", "removed", "confirmed")
        )
        new = sum(change.tags is None for change in self.changes)
        notes = [
            f"{counted(len(self.changes), 'sidecar')} ({new:,} new): "
            f"{counted(added, 'keyword')} added, {removed:,} removed"
            + (f", {confirmed:,} confirmed by people" if confirmed else "")
        ]
        if self.kept:
            what = counted(self.kept, "negative label")
            notes.append(f"{what} against a keyword in the photo or a second sidecar: it stays")
        if self.shared:
            notes.append(
                f"{counted(len(self.shared), 'shared sidecar')} not changed (a raw file or another "
                f"photo has the same name): {listed(self.shared, _SHOWN)}"
            )
        return [*notes, *self._lightroom_note()]

    def preview(self) -> list[str]:
        """How often each keyword is added, and the first changes."""
        more = len(self.changes) - _SHOWN
        shown = [str(change) for change in self.changes[:_SHOWN]]
        counts = Counter(name for change in self.changes for name in change.added).most_common()
        keywords = listed((f"{name} {count:,} times" for name, count in counts), _SHOWN)
        shown[:0] = [f"added: {keywords}"] if more > 0 and counts else []
        return [*shown, *([f"and {more:,} more"] if more > 0 else [])]

    def _lightroom_note(self) -> list[str]:
        inside = [each for each in self.changes if each.image.lower().endswith(_INSIDE)]
        if not inside:
            return []
        endings = sorted({os.path.splitext(change.image)[1][1:].lower() for change in inside})
        by_stem = sum(change.sidecar != f"{change.image}.xmp" for change in inside)
        source = "%d%f.xmp" if 2 * by_stem > len(inside) else "%d%f.%e.xmp"
        lists = "-XMP-dc:Subject -XMP-lr:HierarchicalSubject"
        return [
            "Lightroom reads the keywords of JPEG, TIFF, PNG and DNG from the file, not from a "
            f"sidecar; copy them with: exiftool -r {' '.join(f'-ext {each}' for each in endings)} "
            f"-tagsFromFile @ {lists} -addTagsFromFile {source} {lists} -api NoDups=1 "
            f"{quote(self.library.root)}"
        ]

    def _sidecar(self, name: str, photo: Photo) -> str:
        """The sidecar that is there, or the name of a new one."""
        shared = self.library.shared_sidecars(name)
        own = [sidecar for sidecar in photo.sidecars if sidecar not in shared]
        by_stem = self._stem and not self.library.shares_stem(name)
        return own[0] if own else f"{os.path.splitext(name)[0] if by_stem else name}.xmp"

    def _try(self) -> None:
        """Make every change in memory; if one cannot be made, nothing is written."""
        problems = Issues()
        for change in self.changes:
            try:
                change.content(self.library.content_to_replace(change.sidecar), self._hierarchy)
            except (OSError, ValueError) as problem:
                where = os.path.join(self.library.root, change.sidecar)
                what = f"nothing is written: {reason(problem)}; fix this sidecar or move it away"
                problems.add(where, "sidecar", what)
        problems.raise_any()

    def _write(self, change: Change) -> Change:
        """Change the sidecar as it is now; returns the change that was made."""
        path = Path(self.library.root, change.sidecar)
        for _ in range(_TRIES):
            try:
                before = self.library.content_to_replace(change.sidecar)
                change = change.reread(before)
                content = change.content(before, self._hierarchy)
            except (OSError, ValueError) as problem:
                why = f"{reason(problem)}; fix this sidecar or move it away, then run again"
                raise InputError(f"{path}: not written: {why}") from None
            if not change or self._replace(path, change.sidecar, before, content):
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


def _last_levels(places: Iterable[Tags]) -> set[str]:
    return {normalize_name(path[-1]) for tags in places for path in longest(tags.paths)}


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
