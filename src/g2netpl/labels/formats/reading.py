"""How a label file is to be read, and what every reader does with the images and classes in it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from g2netpl.base.errors import InputError, did_you_mean
from g2netpl.labels.entries import per_class
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.text import numbered_lines
from g2netpl.labels.spelling import composed
from g2netpl.labels.table import (
    NEGATIVE,
    UNOBSERVED,
    LabelMatrix,
    LabelTable,
    is_text,
    name_problem,
    repeated,
)

Absent = Literal["unobserved", "negative"]
Contradictions = Literal["refuse", "unknown", "last"]
Duplicates = Literal["refuse", "unite"]
TagLevel = int | Literal["leaf", "all"]

UNITE = "--duplicates unite puts its rows together"
_BLOCK = 1 << 20  # cells that are compared at a time


@dataclass(frozen=True)
class Reading:
    """How a label file is to be understood, where it does not say so itself."""

    absent: Absent | None = None  # what a label means that the file does not name; None: usual
    separator: str | None = None  # between tags; None: ';' or '|'
    classes: tuple[str, ...] | None = None  # the only classes there may be, in this order
    aliases: Mapping[str, str] | None = None  # other names of classes; see `read_aliases`
    contradictions: Contradictions = "refuse"  # between files: the last one may count, or none
    one_folder: bool = False  # image names of all files are relative to one; else each to its own
    image_column: str | None = None  # of CSV and workbooks; None: by its name, as all columns
    tags_column: str | None = None
    ignore_columns: tuple[str, ...] = ()
    duplicates: Duplicates = "refuse"  # rows of one image that say different things
    encoding: str | None = None  # of a text that does not begin with it; None: UTF-8
    level: TagLevel = "leaf"  # of tags with levels, animal|bird|kestrel: which of them are classes
    one_of: bool = False  # every image has exactly one class

    def absent_value(self, usual: Absent) -> int:
        """The label of a class that the file does not name for an image."""
        return NEGATIVE if (self.absent or usual) == "negative" else UNOBSERVED


def in_class_order(table: LabelTable, reading: Reading, where: str) -> LabelTable:
    """The table with exactly the classes the reader was told, in that order."""
    if reading.classes is None or reading.classes == table.classes:
        return table
    check_looks(table, where)
    problems = Problems()
    found = dict(zip(table.classes, places(table.classes, reading.classes), strict=True))
    for name, place in found.items():
        if place is None:
            problems.add(where, "unknown class", unknown_class(name, reading, len(problems.found)))
    problems.raise_any()
    columns = [place for place in found.values() if place is not None]
    return table.with_classes(reading.classes, columns)


def places(names: Sequence[str], known: Sequence[str]) -> list[int | None]:
    """Where each name stands among the known ones; None where it does not.

    A name that only looks the same, its accents being written in the other way, is the same.
    """
    exact = {name: place for place, name in enumerate(known)}
    alike = {composed(name): place for place, name in reversed(list(enumerate(known)))}
    return [exact.get(name, alike.get(composed(name))) for name in names]


def check_looks(table: LabelTable, where: str) -> None:
    """Refuse two classes whose names look the same, since they are one."""
    first: dict[str, str] = {}
    problems = Problems()
    for name in table.classes:
        other = first.setdefault(composed(name), name)
        if other != name:
            what = f"class {name!r} is listed twice, as {other!a} and {name!a}, which "
            what += "look the same (Unicode NFC and NFD); keep one spelling"
            problems.add(where, "class name", what)
    problems.raise_any()


def as_told(table: LabelTable, reading: Reading, where: str) -> LabelTable:
    """A wide table as the reader was told to read it: its classes are put in order.

    With a note for those who said what is absent, since an empty cell is unknown.
    """
    table = in_class_order(table, reading, where)
    if reading.absent != "negative" or table.is_complete:
        return table
    note = "--absent negative has no effect on a wide table: an empty cell means unknown"
    return table.with_notes((*table.notes, note))


def unknown_class(name: str, reading: Reading, before: int) -> str:
    """What to say of a class that is not among the known; a hint takes time, the first get one."""
    hint = f" ({did_you_mean(name, reading.classes or ())})" if before < 20 else ""
    return f"unknown class {name!r}{hint}"


def without_twins(
    images: Sequence[str],
    values: LabelMatrix,
    at: Callable[[int], str],
    problems: Problems,
    reading: Reading,
    classes: Sequence[str],
) -> tuple[Sequence[str], LabelMatrix, list[str]]:
    """Rows of images listed twice: equal ones are dropped and counted, others are mistakes.

    To unite them is to know what either of them knows; where they contradict, it is a mistake.
    """
    twins = repeated(images)
    if not twins:
        return images, values, []
    if reading.duplicates == "unite":
        return _united(images, values, twins, at, problems, classes)
    keep = np.ones(len(images), dtype=bool)
    some = max(1, _BLOCK // max(values.shape[1], 1))
    for start in range(0, len(twins), some):
        part = np.array(twins[start : start + some])
        keep[part[:, 0]] = False
        differ = (values[part[:, 0]] != values[part[:, 1]]).any(axis=1)
        for row, before in part[differ].tolist():
            problems.add(
                at(row),
                "image listed twice",
                f"image {images[row]!r} is listed already ({at(before)}) with other labels; "
                f"{UNITE}",
            )
    kept = [name for name, keeps in zip(images, keep, strict=True) if keeps]
    return kept, values[keep], twins_note(len(twins))


def _united(
    images: Sequence[str],
    values: LabelMatrix,
    twins: list[tuple[int, int]],
    at: Callable[[int], str],
    problems: Problems,
    classes: Sequence[str],
) -> tuple[Sequence[str], LabelMatrix, list[str]]:
    united = values.copy()
    for row, first in twins:
        known = values[row] != UNOBSERVED
        clash = known & (united[first] == 1 - values[row])
        for column in np.flatnonzero(clash).tolist():
            which = f"image {images[row]!r}, class {classes[column]!r}"
            problems.add(at(row), "contradiction", f"{which}: another row says the opposite")
        united[first, known] = values[row, known]
    dropped = {row for row, _ in twins}
    kept = [row for row in range(len(images)) if row not in dropped]
    return [images[row] for row in kept], united[kept], united_note(len(twins))


def good_rows(images: Sequence[str]) -> list[int]:
    """Where the names stand that may be looked for, each for the first time."""
    twins = {row for row, _ in repeated(images)}
    return [
        row
        for row, name in enumerate(images)
        if row not in twins and name_problem(name) is None and is_text(name)
    ]


def twins_note(dropped: int) -> list[str]:
    """A note on rows that say the same as an earlier one."""
    rows = "row was" if dropped == 1 else "rows were"
    return [f"{dropped:,} {rows} listed twice, and dropped"] if dropped else []


def united_note(rows: int) -> list[str]:
    """A note on rows of images that were listed before."""
    more = "row of an image" if rows == 1 else "rows of images"
    return [f"{rows:,} {more} listed before, and united with it"] if rows else []


def class_problem(name: str) -> str | None:
    """Why a text cannot name a class; None if it can."""
    if not name.strip():
        return "the class name is empty"
    return None if is_text(name) and "\0" not in name else f"class {name!r}: the name is not text"


def read_classes(path: str | Path) -> tuple[str, ...]:
    """A list of class names, one per line."""
    problems = Problems()
    names: dict[str, str] = {}
    for line, name in numbered_lines(Path(path), problems):
        if composed(name) in names:
            problems.add(f"{path}:{line}", "class name", f"class {name!r} is listed twice")
        names.setdefault(composed(name), name)
    problems.raise_any()
    if not names:
        raise InputError(f"{path}: expected class names, one per line; the file is empty")
    return tuple(names.values())


def silent_classes(table: LabelTable) -> list[str]:
    """A note on classes that a format without a list of them cannot keep."""
    silent = int((per_class(table.held) == 0).sum())
    return [f"{silent:,} classes without any label are not in the file"] if silent else []


def positives_only(table: LabelTable, path: Path, format_name: str) -> None:
    """Refuse to write unknown labels where the format could only call them negative."""
    unknown = len(table) * len(table.classes) - table.known
    if unknown:
        raise InputError(
            f"{path}: {format_name} cannot say 'unknown', and {unknown:,} labels are; "
            "write csv, parquet, coco, tags or label-studio instead"
        )
