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
from g2netpl.labels.formats.columns import image_place
from g2netpl.labels.formats.groups import Groups
from g2netpl.labels.formats.problems import MOST_PROBLEMS, LabelFileError, Problem, Problems
from g2netpl.labels.formats.reading import Contradictions
from g2netpl.labels.formats.sheet import open_sheet
from g2netpl.labels.formats.text import TEXT_ENDINGS
from g2netpl.labels.spelling import composed
from g2netpl.labels.table import (
    NEGATIVE,
    POSITIVE,
    UNOBSERVED,
    LabelMatrix,
    LabelTable,
    check_size,
    plain_name,
)

_HINT = "correct one of the files, or say what counts with --contradictions unknown or last"

Places = npt.NDArray[np.int64]
Clashes = npt.NDArray[np.int64]  # a row each: image, class, file that says 1, file that says 0


@dataclass(frozen=True)
class _Part:
    """The table of a file, and where its images and classes are among all."""

    table: LabelTable
    rows: Places
    columns: Places


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
) -> tuple[LabelMatrix, Clashes]:
    """The labels of all parts, and where they clash."""
    check_size(*shape)
    labels, clashing = np.full(shape, UNOBSERVED, dtype=np.int8), set[tuple[int, int]]()
    for part in parts:
        cells, own = np.ix_(part.rows, part.columns), part.table.values
        before, known = labels[cells], own != UNOBSERVED
        rows, columns = np.nonzero(known & (before != UNOBSERVED) & (before != own))
        clashing.update(zip(part.rows[rows].tolist(), part.columns[columns].tolist(), strict=True))
        labels[cells] = np.where(known, own, before)
    clashes = np.full((len(clashing), 4), -1, dtype=np.int64)
    if clashing:
        clashes[:, :2] = sorted(clashing)
    for number, part in reversed(list(enumerate(parts))):  # the first file that says so stays
        said = _said(part, clashes[:, 0], clashes[:, 1])
        clashes[said == POSITIVE, 2] = clashes[said == NEGATIVE, 3] = number
    if rule == "unknown":
        labels[clashes[:, 0], clashes[:, 1]] = UNOBSERVED
    return labels, clashes


def _said(part: _Part, rows: Places, columns: Places) -> LabelMatrix:
    """What a file says about some images and classes, given by their places among all."""
    inside = np.isin(rows, part.rows) & np.isin(columns, part.columns)
    said = np.full(len(rows), UNOBSERVED, dtype=np.int8)
    row, column = (
        np.argsort(own)[np.searchsorted(own, places[inside], sorter=np.argsort(own))]
        for own, places in ((part.rows, rows), (part.columns, columns))
    )
    said[inside] = part.table.values[row, column]
    return said


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
