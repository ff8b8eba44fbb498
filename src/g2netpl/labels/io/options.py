"""How a label file is to be read, and lists of classes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from g2netpl.labels.io.issues import Issues, LabelFileError
from g2netpl.labels.io.text import numbered_lines
from g2netpl.labels.names import normalize_name
from g2netpl.labels.table import NEGATIVE, UNOBSERVED, LabelTable, per_class
from g2netpl.utils.errors import InputError, did_you_mean

Absent = Literal["unobserved", "negative"]
Contradictions = Literal["refuse", "unknown", "last"]
Duplicates = Literal["refuse", "unite"]
TagLevel = int | Literal["leaf", "all"]


@dataclass(frozen=True)
class ReadOptions:
    """How a label file is to be read, if it does not say so itself."""

    absent: Absent | None = None  # what a label means that the file does not name; None: usual
    separator: str | None = None  # between tags; None: ';' or '|', and ',' if it separates
    classes: tuple[str, ...] | None = None  # the only classes there may be, in this order
    aliases: Mapping[str, str] | None = None  # other names of classes; see `read_aliases`
    contradictions: Contradictions = "refuse"  # between files
    one_folder: bool = False  # image names of all files are relative to one folder
    image_column: str | None = None  # of tables; None: by its name, as all columns
    tags_column: str | tuple[str, ...] | None = None  # one, or several
    ignore_columns: tuple[str, ...] = ()
    duplicates: Duplicates = "refuse"  # rows of one image with different labels
    minus_one: Absent | None = None  # what -1 in a class column means
    encoding: str | None = None  # of a text without a byte order mark; None: UTF-8
    level: TagLevel = "leaf"  # of tags with levels, animal|bird|kestrel: which are classes
    single_label: bool = False  # every image has exactly one class
    images: str | None = None  # the image folder, to recognise a column that names its files

    def absent_value(self, usual: Absent) -> int:
        """The label of a class that the file does not name for an image."""
        return NEGATIVE if (self.absent or usual) == "negative" else UNOBSERVED


def in_class_order(table: LabelTable, options: ReadOptions, where: str) -> LabelTable:
    """The table with exactly the classes that the options list, in that order."""
    if options.classes is None or options.classes == table.classes:
        return table
    issues = Issues()
    found = dict(zip(table.classes, places(table.classes, options.classes), strict=True))
    for name, place in found.items():
        if place is None:
            issues.add(
                where, "unknown class", unknown_class(name, options.classes, len(issues.found))
            )
    issues.raise_any()
    return table.with_classes(
        options.classes, [place for place in found.values() if place is not None]
    )


def places(names: Sequence[str], known: Sequence[str]) -> list[int | None]:
    """The place of each name among the known ones, in any spelling; None if it is not there."""
    place = {normalize_name(name): at for at, name in reversed(list(enumerate(known)))}
    return [place.get(normalize_name(name)) for name in names]


def unknown_class(name: str, known: Sequence[str], before: int = 0) -> str:
    """The message about an unknown class; the first 20 get a hint."""
    return f"unknown class {name!r}{f' ({did_you_mean(name, known)})' if before < 20 else ''}"


def class_problem(name: str) -> str | None:
    """Why a text cannot name a class; None if it can."""
    if not name.strip():
        return "the class name is empty"
    return None if "\0" not in name else f"class {name!r}: the name is not text"


def check_classes(classes: Sequence[str], where: str, issues: Issues) -> None:
    """Report names that cannot be classes, and those that are there twice."""
    seen = set()
    for place, name in enumerate(classes):
        problem = class_problem(name)
        if not name:
            problem = f"column {place + 2} has no class name"
        elif name in seen:
            problem = f"class {name!r} is listed twice"
        if problem is not None:
            issues.add(where, "header", problem)
        seen.add(name)


def read_classes(path: str | Path) -> tuple[str, ...]:
    """A list of class names, one per line."""
    issues = Issues()
    try:
        lines = list(numbered_lines(Path(path), issues))
    except LabelFileError:
        raise
    except InputError as problem:  # no file
        raise InputError(f"{problem}; --classes takes a file with one class per line") from None
    names: dict[str, None] = {}
    for line, text in lines:
        name = normalize_name(text)
        if name in names:
            issues.add(f"{path}:{line}", "class name", f"class {name!r} is listed twice")
        names[name] = None
    issues.raise_any()
    if not names:
        raise InputError(f"{path}: expected class names, one per line; the file is empty")
    return tuple(names)


def silent_classes(table: LabelTable) -> list[str]:
    """A note on classes that a format without a list of classes cannot keep."""
    silent = int((per_class(table.values) == 0).sum())
    return [f"{silent:,} classes without any label are not in the file"] if silent else []
