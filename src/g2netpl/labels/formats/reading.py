"""How a label file is to be read, and what every reader does with the classes in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from g2netpl.base.errors import InputError, did_you_mean
from g2netpl.labels.formats.problems import LabelFileError, Problems
from g2netpl.labels.formats.text import numbered_lines
from g2netpl.labels.spelling import composed
from g2netpl.labels.table import NEGATIVE, UNOBSERVED, LabelTable, per_class

Absent = Literal["unobserved", "negative"]
Contradictions = Literal["refuse", "unknown", "last"]
Duplicates = Literal["refuse", "unite"]
TagLevel = int | Literal["leaf", "all"]


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
    tags_column: str | tuple[str, ...] | None = None  # one, or several, each with some of them
    ignore_columns: tuple[str, ...] = ()
    duplicates: Duplicates = "refuse"  # rows of one image that say different things
    minus_one: Absent | None = None  # what -1 in a class column means; None: see `twins`
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


def unknown_class(name: str, reading: Reading, before: int) -> str:
    """What to say of a class that is not among the known; a hint takes time, the first get one."""
    hint = f" ({did_you_mean(name, reading.classes or ())})" if before < 20 else ""
    return f"unknown class {name!r}{hint}"


def class_problem(name: str) -> str | None:
    """Why a text cannot name a class; None if it can."""
    if not name.strip():
        return "the class name is empty"
    return None if "\0" not in name else f"class {name!r}: the name is not text"


def read_classes(path: str | Path) -> tuple[str, ...]:
    """A list of class names, one per line."""
    problems = Problems()
    try:
        lines = list(numbered_lines(Path(path), problems))
    except LabelFileError:
        raise
    except InputError as problem:  # no file
        raise InputError(f"{problem}; --classes takes a file with one class per line") from None
    names: dict[str, str] = {}
    for line, name in lines:
        if composed(name) in names:
            problems.add(f"{path}:{line}", "class name", f"class {name!r} is listed twice")
        names.setdefault(composed(name), name)
    problems.raise_any()
    if not names:
        raise InputError(f"{path}: expected class names, one per line; the file is empty")
    return tuple(names.values())


def silent_classes(table: LabelTable) -> list[str]:
    """A note on classes that a format without a list of them cannot keep."""
    silent = int((per_class(table.values) == 0).sum())
    return [f"{silent:,} classes without any label are not in the file"] if silent else []
