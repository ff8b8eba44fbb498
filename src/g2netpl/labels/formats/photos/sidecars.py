"""Labels as tags in sidecars: what changes in which of them, and the change itself.

A photo is never written. A tag is added where a label is positive and the photo does not carry it
yet; it is taken out of the sidecar where a label is negative, which somebody must have said. All
changes are tried before the first is made.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from g2netpl.base.errors import InputError, counted, listed
from g2netpl.base.files import atomic_write
from g2netpl.labels.formats.photos import xmp
from g2netpl.labels.formats.photos.library import Library, Photo, Places, TagPath, Tags, whole, why
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.paths import SUFFIXES, find
from g2netpl.labels.spelling import composed
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelMatrix, LabelTable

_SHOWN = 5  # changes of a dry run


@dataclass(frozen=True)
class Change:
    """What becomes of a sidecar: tags to add, to take out, and to take from those nobody gave."""

    sidecar: str
    is_new: bool
    added: list[str]
    removed: list[str]
    confirmed: list[str]
    lists: Mapping[xmp.Property, Sequence[str]]  # what is put at the end of each

    def content(self, library: Library) -> bytes:
        """The sidecar with the change made."""
        path = os.path.join(library.root, self.sidecar)
        if os.path.islink(path):
            raise ValueError("a link is not written to")
        before = xmp.EMPTY if self.is_new else library.content(self.sidecar)
        return xmp.edited(before, self.lists, self._goes)

    def _goes(self, property: xmp.Property, keyword: str) -> bool:
        """Whether a keyword is taken out."""
        path = xmp.levels(keyword, property.mark)
        out = self.removed + self.confirmed if property is xmp.ADDED else self.removed
        return bool(path) and composed(path[-1]) in set(map(composed, out))

    def __str__(self) -> str:
        told = [f"+ {name}" for name in self.added] + [f"− {name}" for name in self.removed]
        told += [f"{name} confirmed" for name in self.confirmed]
        return f"{self.sidecar}{' (new)' if self.is_new else ''}: {', '.join(told)}"


class Plan:
    """The changes that bring the labels of a table into sidecars."""

    def __init__(
        self,
        table: LabelTable,
        folder: Path,
        guessed: npt.NDArray[np.bool_] | None = None,
        stem: bool = False,
    ) -> None:
        _check(table, folder)
        self.library, self.table, self._stem = Library(folder), table, stem
        self.stay = 0  # tags that somebody said no to, in photos or other sidecars
        self._guessed, self._places = guessed, Places()
        photos = [self.library.photo(name) for name in table.images]
        for photo in photos:
            self._places.add(photo.paths)
        rows = enumerate(zip(photos, table.rows(), strict=True))
        found = (self._change(row, photo, values) for row, (photo, values) in rows)
        self.changes = [each for each in found if each.added or each.removed or each.confirmed]
        self._try()

    def carry_out(self) -> None:
        """Write the sidecars, each whole or not at all."""
        for change in self.changes:
            path = Path(self.library.root, change.sidecar)
            content = change.content(self.library)
            with atomic_write(path) as file:
                file.write(content)

    def notes(self) -> list[str]:
        """What is changed, in all."""
        added, removed, confirmed = (
            sum(len(getattr(each, kind)) for each in self.changes)
            for kind in ("added", "removed", "confirmed")
        )
        new = sum(each.is_new for each in self.changes)
        notes = [
            f"{counted(len(self.changes), 'sidecar')}, {new:,} of them new: "
            f"{counted(added, 'tag')} added, {removed:,} taken out"
            + (f", {confirmed:,} confirmed by people" if confirmed else "")
        ]
        if self.stay:
            notes.append(
                f"{counted(self.stay, 'negative label')} against a tag in the photo itself, or in "
                "a second sidecar: it stays there"
            )
        return notes

    def preview(self) -> list[str]:
        """The same, how often each tag is added, and the first changes."""
        more = len(self.changes) - _SHOWN
        shown = [str(each) for each in self.changes[:_SHOWN]]
        often = Counter(name for each in self.changes for name in each.added).most_common()
        tags = listed((f"{name} {count:,} times" for name, count in often), _SHOWN)
        shown[:0] = [f"added: {tags}"] if more > 0 and often else []
        return [*self.notes(), *shown, *([f"and {more:,} more"] if more > 0 else [])]

    def _change(self, row: int, photo: Photo, values: LabelMatrix) -> Change:
        sidecar = self._sidecar(self.table.images[row], photo)
        tags = photo.beside.get(sidecar)
        others = [photo.own, *(each for of, each in photo.beside.items() if of != sidecar)]
        negative, positive = (self._named(values == sign) for sign in (NEGATIVE, POSITIVE))
        removed = _among(negative, _last_words([] if tags is None else [tags]))
        self.stay += len(_among(negative, _last_words(others)))
        there = {composed(word) for path in photo.paths for word in path}
        added = [name for name in positive if composed(name) not in there]
        guesses = set() if self._guessed is None else set(self._named(self._guessed[row]))
        known = [name for name in positive if name not in guesses]
        confirmed = [] if tags is None else _among(known, tags.ours)
        lists = self._lists(photo, tags, added, negative)
        lists[xmp.ADDED] = [name for name in added if name in guesses]
        return Change(sidecar, tags is None, added, removed, confirmed, lists)

    def _named(self, chosen: npt.NDArray[np.bool_]) -> list[str]:
        return [self.table.classes[column] for column in np.flatnonzero(chosen).tolist()]

    def _lists(
        self, photo: Photo, tags: Tags | None, added: list[str], negative: list[str]
    ) -> dict[xmp.Property, list[str]]:
        """What goes to the end of each list; a new sidecar takes over what the photo says.

        Programs that find tags with levels look at no other list, so that one has to hold all.
        """
        new = [self._places.only(name) for name in added]
        refused = set(map(composed, negative))
        before = photo.paths if tags is None else tags.paths
        before = frozenset(path for path in before if composed(path[-1]) not in refused)
        taken_over = before if tags is None else frozenset[TagPath]()
        lists = {xmp.SUBJECT: [*sorted({path[-1] for path in taken_over}), *added]}
        if tags is not None and xmp.HIERARCHY in tags.lists:
            lists[xmp.HIERARCHY] = ["|".join(path) for path in new]
        elif any(len(path) > 1 for path in (*new, *taken_over)):
            lists[xmp.HIERARCHY] = ["|".join(path) for path in (*whole(before), *new)]
        if tags is not None and xmp.TAGS_LIST in tags.lists:
            fit = (path for path in new if not any("/" in word for word in path))
            lists[xmp.TAGS_LIST] = ["/".join(path) for path in fit]
        return lists

    def _sidecar(self, name: str, photo: Photo) -> str:
        """The sidecar that is there, or the name of a new one."""
        full, stem = f"{name}.xmp", f"{os.path.splitext(name)[0]}.xmp"
        shared = self.library.shares_stem(name)
        for each in photo.beside:
            if each.lower() == full.lower() or not shared:
                return each
        return stem if self._stem and not shared else full

    def _try(self) -> None:
        """Make every change once in memory; what cannot be made is told, and nothing is written."""
        problems = Problems()
        for change in self.changes:
            try:
                change.content(self.library)
            except (OSError, ValueError) as problem:
                where = os.path.join(self.library.root, change.sidecar)
                what = f"nothing is written: {why(problem)}; mend this sidecar or move it away"
                problems.add(where, "sidecar", what)
        problems.raise_any()


def _last_words(places: Iterable[Tags]) -> set[str]:
    return {composed(path[-1]) for tags in places for path in whole(tags.paths)}


def _among(names: Iterable[str], words: Set[str]) -> list[str]:
    return [name for name in names if composed(name) in words]


def _check(table: LabelTable, folder: Path) -> None:
    """See that photos and classes are such as can be tagged."""
    if not folder.is_dir():
        raise InputError(f"{folder}: expected the folder of the photos, beside which sidecars go")
    for name in table.classes:
        if name != name.strip() or "|" in name or xmp.NOT_IN_XML.search(name):
            raise InputError(
                f"{folder}: class {name!r} cannot be a tag: it holds '|', spaces at its ends or "
                "characters that XML has not"
            )
    for name in table.images:
        if not name.lower().endswith(SUFFIXES) or any(part[:1] == "." for part in name.split("/")):
            raise InputError(
                f"{folder}: image {name!r}: expected a name of a photo, with an ending such as .jpg"
            )
    missing = find(table.images, folder).missing
    if missing:
        raise InputError(
            f"{folder}: {len(missing):,} of {len(table):,} photos are not there, the first is "
            f"{table.images[missing[0]]!r}; expected the folder that their names are relative to"
        )
