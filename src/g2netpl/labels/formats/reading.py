"""How a label file is to be read, and what every reader does with the images and classes in it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from g2netpl.base.errors import InputError, did_you_mean
from g2netpl.labels.entries import per_class, with_columns
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

_BLOCK = 1 << 20  # cells that are compared at a time


@dataclass(frozen=True)
class Reading:
    """How a label file is to be understood, where it does not say so itself."""

    absent: Absent | None = None  # what a label means that the file does not name; None: usual
    separator: str | None = None  # between tags; None: ';' or '|'
    classes: tuple[str, ...] | None = None  # the only classes there may be, in this order
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
    labels = with_columns(table.held, columns, len(reading.classes))
    sizes = None
    if table.sizes is not None:
        sizes = np.zeros(labels.shape, dtype=np.float32)
        sizes[:, columns] = table.sizes
    return LabelTable(table.images, reading.classes, labels, sizes, table.notes, table.groups)


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
    images: Sequence[str], values: LabelMatrix, at: Callable[[int], str], problems: Problems
) -> tuple[Sequence[str], LabelMatrix, list[str]]:
    """Rows of images listed twice: equal ones are dropped and counted, others are mistakes."""
    twins = repeated(images)
    if not twins:
        return images, values, []
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
                f"image {images[row]!r} is listed already ({at(before)}) with other labels",
            )
    kept = [name for name, keeps in zip(images, keep, strict=True) if keeps]
    return kept, values[keep], twins_note(len(twins))


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
