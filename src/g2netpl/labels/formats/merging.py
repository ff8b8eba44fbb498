"""Several label files as one table: all their images, all their classes, all that is known.

A class that a file does not have is unobserved for its images, whatever the file says about labels
that it does not name. What two files say about an image is joined: unobserved gives way to
observed. Where one says 1 and another 0 they contradict each other, and the user says what counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from g2netpl.base.errors import InputError, counted
from g2netpl.labels.entries import (
    MOST_CELLS,
    NEGATIVE,
    POSITIVE,
    Entries,
    LabelMatrix,
    Labels,
    stacked,
    take,
)
from g2netpl.labels.formats.columns import image_place
from g2netpl.labels.formats.groups import Groups
from g2netpl.labels.formats.problems import MOST_PROBLEMS, LabelFileError, Problem, Problems
from g2netpl.labels.formats.reading import Contradictions
from g2netpl.labels.formats.sheet import open_sheet
from g2netpl.labels.formats.text import TEXT_ENDINGS
from g2netpl.labels.spelling import composed
from g2netpl.labels.table import LabelTable, plain_name

_BLOCK = 1 << 20  # known labels that are joined at a time
_HINT = "correct one of the files, or say what counts with --contradictions unknown or last"

Places = npt.NDArray[np.int64]
Clashes = npt.NDArray[np.int64]  # a row each: image, class, file that says 1, file that says 0


@dataclass(frozen=True)
class _Part:
    """The table of a file, and where its images and classes are among all."""

    table: LabelTable
    rows: Places
    columns: Places

    def pairs(self, start: int, stop: int) -> tuple[Places, Places, LabelMatrix]:
        """Image, class and sign of all that it knows about images from `start` to `stop`."""
        chosen = np.flatnonzero((self.rows >= start) & (self.rows < stop))
        some = take(self.table.held, chosen)
        known = some if isinstance(some, Entries) else Entries.of_matrix(some)
        return self.rows[chosen][known.rows()], self.columns[known.columns], known.signs


def merge(tables: Mapping[str, LabelTable], rule: Contradictions = "refuse") -> LabelTable:
    """One table of those of all files."""
    if len(tables) == 1:
        return next(iter(tables.values()))
    all_images, all_classes = _Names(), _Names()
    parts = [
        _Part(table, all_images.places(table.images), all_classes.places(table.classes))
        for table in tables.values()
    ]
    images, classes = all_images.every, all_classes.every
    labels, clashes = _joined(parts, (len(images), len(classes)), rule)
    notes = [f"{file}: {note}" for file, table in tables.items() for note in table.notes]
    shared = _shared(part.rows for part in parts), _shared(part.columns for part in parts)
    notes.append(
        f"{len(parts)} label files joined: {shared[0]} images and {shared[1]} classes are in more "
        "than one"
    )
    if len(clashes):
        problems = _problems(list(tables), images, classes, clashes)
        notes.append(f"{counted(len(clashes), 'contradiction')}, {_settled(problems, rule)}")
    return _with_groups(LabelTable(images, classes, labels, notes), tables)


def below(table: LabelTable, way: str) -> LabelTable:
    """The table with the names that its images have further up: `photos/1.jpg` for `1.jpg`."""
    return table.with_images([f"{way}{name}" for name in table.images]) if way else table


def _settled(problems: list[Problem], rule: Contradictions) -> str:
    """What came of the contradictions, in words; they may be refused."""
    if rule == "refuse":
        raise LabelFileError(problems, _HINT)
    taken = "taken as unknown" if rule == "unknown" else "the file named last counts"
    return f"{taken}; the first: {problems[0].where}: {problems[0].what}"


class _Names:
    """The names of several lists, each once."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._looks: dict[str, str] = {}  # of names with accents

    @property
    def every(self) -> list[str]:
        """In the order in which they came."""
        return list(self._places)

    def places(self, names: Sequence[str]) -> Places:
        """Where the names of one more list are among all.

        One that only looks the same as a name of an earlier list is that, unless both are here.
        """
        known, same = self._places, {}
        accented = dict.fromkeys(name for name in names if not name.isascii())
        for name in accented:
            other = self._looks.setdefault(composed(name), name)
            if name not in known and other in known and other not in accented:
                same[name] = other
        found = (known.setdefault(same.get(name, name), len(known)) for name in names)
        return np.fromiter(found, np.int64, len(names))


def _joined(
    parts: Sequence[_Part], shape: tuple[int, int], rule: Contradictions
) -> tuple[Labels, Clashes]:
    """The labels of all parts, in the form that takes less memory, and where they clash."""
    known, (count, classes) = sum(part.table.known for part in parts), shape
    size = max(1, -(-count // max(1, known // _BLOCK)))
    as_matrix = count * classes <= min(5 * known, MOST_CELLS)
    blocks, clashes = [], []
    for start in range(0, max(count, 1), size):
        stop = min(start + size, count)
        entries, found = _join_block(parts, start, stop, classes, rule)
        blocks.append(entries.matrix() if as_matrix else entries)
        clashes.append(found)
    return stacked(blocks), np.concatenate(clashes)


def _join_block(
    parts: Sequence[_Part], start: int, stop: int, classes: int, rule: Contradictions
) -> tuple[Entries, Clashes]:
    """The labels of some neighbouring images."""
    found = [part.pairs(start, stop) for part in parts]
    rows, columns, signs = (np.concatenate(each) for each in zip(*found, strict=True))
    shape, whose = (stop - start, classes), np.repeat(range(len(parts)), [len(f[2]) for f in found])
    if not len(rows):
        return Entries.nothing(*shape), np.zeros((0, 4), dtype=np.int64)
    key = (rows - start) * classes + columns
    order = np.argsort(key, kind="stable")  # of one label, file after file
    key, signs, whose = key[order], signs[order], whose[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    last = np.append(first[1:], len(key)) - 1
    key = key[first]
    says = [
        np.minimum.reduceat(np.where(signs == sign, whose, len(parts)), first)
        for sign in (POSITIVE, NEGATIVE)
    ]
    clash = (says[0] < len(parts)) & (says[1] < len(parts))
    clashes = np.stack([start + key // classes, key % classes, *says], axis=1)[clash]
    kept = ~clash if rule == "unknown" else np.ones_like(clash)
    entries = Entries.of_pairs(
        shape, (key // classes)[kept], (key % classes)[kept], signs[last][kept]
    )
    return entries, clashes


def _problems(
    files: Sequence[str], images: Sequence[str], classes: Sequence[str], clashes: Clashes
) -> list[Problem]:
    """Each contradiction in words, at the later file."""
    some = clashes[:MOST_PROBLEMS].tolist()
    names = {images[row] for row, *_ in some}
    lines = [_lines(Path(file), names) for file in files]

    def place(file: int, image: str) -> str:
        line = lines[file].get(image)
        return files[file] if line is None else f"{files[file]}:{line}"

    problems = []
    for row, column, yes, no in some:
        image, here, there = images[row], max(yes, no), min(yes, no)
        words = ("positive", "negative") if here == yes else ("negative", "positive")
        what = f"image {image!r}, class {classes[column]!r}: "
        what += f"{words[0]} here, {words[1]} in {place(there, image)}"
        problems.append(Problem(place(here, image), "contradiction", what))
    return problems


def _lines(path: Path, names: set[str]) -> dict[str, int]:
    """The line on which a table first names each of these images, as far as it can be told."""
    if path.suffix.lower() not in (*TEXT_ENDINGS, ".xlsx") or not path.is_file():
        return {}
    found: dict[str, int] = {}
    try:
        sheet = open_sheet(path, Problems())
        place = image_place(sheet, range(sheet.width))
        if place is None:
            return {}
        for line, row in sheet.rows:
            name = plain_name("".join(row[place : place + 1]))
            if name in names:
                found.setdefault(name, line)
    except InputError:  # something else under this name
        return {}
    return found


def _shared(places: Iterable[Places]) -> str:
    """How many names stand in more than one list, of how many."""
    times = np.bincount(np.concatenate(list(places)))
    return f"{int((times > 1).sum()):,} of {len(times):,}"


def _with_groups(table: LabelTable, tables: Mapping[str, LabelTable]) -> LabelTable:
    """The groups that any file names; an image that two files put into two is a mistake."""
    groups = Groups(Problems())
    for file, each in tables.items():
        for image, group in zip(each.images, each.groups or (), strict=False):
            groups.add(file, image, group)
    return groups.on(table)
