"""Labels as tags in sidecars: what changes in which of them, and the change itself.

A photo is never written. A tag is added where a label is positive and the photo does not carry it
yet; it is taken out of the sidecar where a label is negative, which somebody must have said. All
changes are tried before the first is made.

Other programs may write sidecars at the same time. So each is read again directly before it is
written and the change is made in what is there then; a new sidecar is created exclusively, and one
that has changed since it was read is not replaced but read again. Two processes of ours exclude
each other: the folder of the photos is locked, and each folder below it while we write there.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt

from g2netpl.base.errors import InputError, Refused, counted, listed
from g2netpl.base.files import atomic_write, remove_temporary, write_exclusively
from g2netpl.base.inside import is_below
from g2netpl.base.locks import locked_without_file
from g2netpl.labels.formats.photos import xmp
from g2netpl.labels.formats.photos.library import (
    Library,
    Photo,
    Places,
    TagPath,
    Tags,
    tags_in_xmp,
    whole,
    why,
)
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.paths import SUFFIXES, find
from g2netpl.labels.spelling import composed
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelMatrix, LabelTable

_SHOWN = 5  # changes of a dry run, and names in a note
_TRIES = 5  # to write a sidecar that another program changes at the same time


@dataclass(frozen=True)
class Target:
    """A photo, the sidecar to write for it, and the labels that go there, by name."""

    sidecar: str
    photo: Photo
    positive: list[str]
    negative: list[str]
    guesses: frozenset[str]  # labels that nobody gave

    def now_with(self, content: bytes | None) -> "Target":
        """The same with the sidecar as it is now; None if there is none."""
        beside = {name: tags for name, tags in self.photo.beside.items() if name != self.sidecar}
        if content is not None:
            beside[self.sidecar] = tags_in_xmp(content)
        return replace(self, photo=replace(self.photo, beside=beside))


@dataclass(frozen=True)
class Change:
    """What becomes of a sidecar: tags to add, to take out, and to take from those nobody gave."""

    target: Target
    added: list[str]
    removed: list[str]
    confirmed: list[str]
    lists: Mapping[xmp.Property, Sequence[str]]  # what is put at the end of each
    stay: int  # negative labels against tags in the photo or in other sidecars

    @property
    def sidecar(self) -> str:
        """Its name, relative to the folder of the photos."""
        return self.target.sidecar

    @property
    def is_new(self) -> bool:
        """Whether there is no such sidecar yet."""
        return self.sidecar not in self.target.photo.beside

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.confirmed)

    def content(self, before: bytes | None) -> bytes:
        """The sidecar with the change made."""
        return xmp.edited(xmp.EMPTY if before is None else before, self.lists, self._goes)

    def _goes(self, property: xmp.Property, keyword: str) -> bool:
        """Whether a keyword is taken out."""
        path = xmp.levels(keyword, property.mark)
        out = self.removed + self.confirmed if property is xmp.ADDED else self.removed
        return bool(path) and composed(path[-1]) in set(map(composed, out))

    def __str__(self) -> str:
        told = [f"+ {name}" for name in self.added] + [f"− {name}" for name in self.removed]
        told += [f"{name} confirmed" for name in self.confirmed]
        return f"{self.sidecar}{' (new)' if self.is_new else ''}: {', '.join(told)}"


def write_sidecars(
    table: LabelTable,
    folder: Path,
    guessed: npt.NDArray[np.bool_] | None = None,
    stem: bool = False,
    dry_run: bool = False,
) -> list[str]:
    """Bring the labels of a table into sidecars; returns what is changed."""
    _check(table, folder)
    if dry_run:
        return Plan(table, folder, guessed, stem).preview()
    with locked_without_file(folder):
        plan = Plan(table, folder, guessed, stem)
        plan.carry_out()
    return plan.notes()


class Plan:
    """The changes that bring the labels of a table into sidecars."""

    def __init__(
        self,
        table: LabelTable,
        folder: Path,
        guessed: npt.NDArray[np.bool_] | None = None,
        stem: bool = False,
    ) -> None:
        self.library, self.table, self._stem = Library(folder), table, stem
        self._guessed, self._places = guessed, Places()
        photos = [self.library.photo(name) for name in table.images]
        for photo in photos:
            self._places.add(photo.paths)
        rows = enumerate(zip(photos, table.values, strict=True))
        self.changes: list[Change] = []
        self.stay = 0
        for row, (photo, values) in rows:
            change = self._change(self._target(row, photo, values))
            self.stay += change.stay
            self.changes += [change] if change else []
        shared = (
            sidecar for name in table.images for sidecar in self.library.shared_sidecars(name)
        )
        self.shared = list(dict.fromkeys(shared))
        self._try()

    def carry_out(self) -> None:
        """Write the sidecars, each whole or not at all."""
        changes = sorted(self.changes, key=_folder_of)
        self.changes = []
        for folder, group in groupby(changes, _folder_of):
            with self._locked(Path(self.library.root, folder)):
                written = map(self._write, group)
                self.changes += [change for change in written if change]

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
        if self.shared:
            notes.append(
                f"{counted(len(self.shared), 'shared sidecar')} not changed (a raw file or another "
                f"photo has the same name): {listed(self.shared, _SHOWN)}"
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

    def _target(self, row: int, photo: Photo, values: LabelMatrix) -> Target:
        sidecar = self._sidecar(self.table.images[row], photo)
        positive, negative = (self._named(values == sign) for sign in (POSITIVE, NEGATIVE))
        guesses = [] if self._guessed is None else self._named(self._guessed[row])
        return Target(sidecar, photo, positive, negative, frozenset(guesses))

    def _change(self, target: Target) -> Change:
        photo, sidecar = target.photo, target.sidecar
        tags = photo.beside.get(sidecar)
        others = [photo.own, *(each for of, each in photo.beside.items() if of != sidecar)]
        removed = _among(target.negative, _last_words([] if tags is None else [tags]))
        stay = len(_among(target.negative, _last_words(others)))
        there = {composed(word) for path in photo.paths for word in path}
        added = [name for name in target.positive if composed(name) not in there]
        known = [name for name in target.positive if name not in target.guesses]
        confirmed = [] if tags is None else _among(known, tags.ours)
        lists = self._lists(photo, tags, added, target.negative)
        lists[xmp.ADDED] = [name for name in added if name in target.guesses]
        return Change(target, added, removed, confirmed, lists, stay)

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
        shared = self.library.shared_sidecars(name)
        for sidecar in photo.beside:
            if sidecar not in shared:
                return sidecar
        by_stem = self._stem and not self.library.shares_stem(name)
        return f"{os.path.splitext(name)[0] if by_stem else name}.xmp"

    def _try(self) -> None:
        """Make every change once in memory; what cannot be made is told, and nothing is written."""
        problems = Problems()
        for change in self.changes:
            try:
                change.content(self.library.writable(change.sidecar))
            except (OSError, ValueError) as problem:
                where = os.path.join(self.library.root, change.sidecar)
                what = f"nothing is written: {why(problem)}; mend this sidecar or move it away"
                problems.add(where, "sidecar", what)
        problems.raise_any()

    @contextmanager
    def _locked(self, folder: Path) -> Iterator[None]:
        """Lock a folder, and remove what a killed process left there."""
        self._check_inside(folder)
        is_root = os.path.samefile(folder, self.library.root)
        with nullcontext() if is_root else locked_without_file(folder):
            remove_temporary(folder, ".xmp")
            yield

    def _check_inside(self, folder: Path) -> None:
        root = self.library.root
        if not is_below(os.fspath(folder), os.fspath(root)):
            raise InputError(f"{folder}: leads out of {root}; nothing is written there")

    def _write(self, change: Change) -> Change:
        """Make a change in the sidecar as it is now; returns the change that was made."""
        path = Path(self.library.root, change.sidecar)
        for _ in range(_TRIES):
            try:
                before = self.library.writable(change.sidecar)
                change = self._change(change.target.now_with(before))
                content = change.content(before)
            except (OSError, ValueError) as problem:
                raise InputError(
                    f"{path}: not written: {why(problem)}; fix this sidecar or move it away, then "
                    "run this command again"
                ) from None
            if not change or self._put(change.sidecar, before, content):
                return change
        raise Refused(
            f"{path}: not written, since another program changes it again and again; close that "
            "program, then run this command again"
        )

    def _put(self, sidecar: str, before: bytes | None, content: bytes) -> bool:
        """Write a sidecar, unless another program has made or changed it since it was read."""
        path = Path(self.library.root, sidecar)

        def is_unchanged() -> bool:
            try:
                return self.library.writable(sidecar) == before
            except (OSError, ValueError):
                return False

        self._check_inside(path.parent)
        try:
            if before is None:
                write_exclusively(path, content)
            else:
                with atomic_write(path, condition=is_unchanged) as file:
                    file.write(content)
        except FileExistsError:
            return False
        return True


def _folder_of(change: Change) -> str:
    return os.path.dirname(change.sidecar)


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
