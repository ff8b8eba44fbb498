"""How a label file is to be read: options, lists of classes, other names of classes."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field, field_validator

from g2netpl.labels.io.issues import Issues, numbered_lines
from g2netpl.labels.names import normalize_name
from g2netpl.labels.table import NEGATIVE, UNOBSERVED, LabelTable, per_class
from g2netpl.utils.errors import InputError, did_you_mean
from g2netpl.utils.options import Options, key

Absent = Literal["unobserved", "negative"]
Contradictions = Literal["reject", "unknown", "last"]
TagLevel = int | Literal["leaf", "all"] | None
Names = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value or ()),
]
_FORM = "'other name = class'"


class ReadKeys(Options):
    """How label files are read where their content does not decide it: keys of a configuration."""

    absent: Absent | None = key(None, "meaning of unlisted labels (default: that of the format)")
    separator: str | None = key(
        None, "characters that separate tags, such as ';,' (default: ';' or '|')", min_length=1
    )
    contradictions: Contradictions = key("reject", "labels that are 1 in one file and 0 in another")
    image_column: str | None = key(None, "column of image names (default: recognised)")
    tags_column: Names = key((), "columns of tags, such as keywords (default: by name)")
    ignore_columns: Names = key((), "columns to leave out, separated by commas")
    minus_one: Absent | None = key(None, "meaning of -1 in a class column (default: rejected)")
    encoding: str | None = key(None, "encoding of CSV files, such as cp1252 (default: UTF-8)")
    tag_level: Annotated[int, Field(ge=1)] | Literal["leaf", "all"] | None = key(
        None, "class of a tag such as animal|bird|kestrel: leaf, all, or a number (default: leaf)"
    )

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str | None) -> str | None:
        try:
            "".encode(value or "utf-8")
        except LookupError:
            raise ValueError("must be an encoding of text, such as cp1252 or utf-16-le") from None
        return value


class ReadOptions(ReadKeys):
    """How label files are read, with the content of the files that say so."""

    classes: tuple[str, ...] | None = None  # the only classes there may be, in this order
    aliases: Mapping[str, str] = {}  # other names of classes; see `read_aliases`
    one_folder: bool = False  # image names of all files are relative to one folder
    single_label: bool = False  # every image has exactly one class
    images: str | None = None  # the image folder, to recognise a column that names its files

    def absent_value(self, usual: Absent) -> int:
        """The label of a class that the file does not name for an image."""
        return NEGATIVE if (self.absent or usual) == "negative" else UNOBSERVED


def set_key(name: str, value: str) -> str:
    """How to give a key, in the form that every command takes: `--set separator=,`."""
    return f"--set {name}={quote(value)}"


# classes


def with_class_names(table: LabelTable, options: ReadOptions, where: str) -> LabelTable:
    """The table with one class for all its names: the classes of the options, in their order.

    If the file knows an image under two names, it is positive if one of them is.
    """
    names = [options.aliases.get(name, name) for name in table.classes]
    classes = options.classes or tuple(dict.fromkeys(names))
    if classes == table.classes:
        return table
    issues, places = Issues(), class_places(names, classes)
    for name in dict.fromkeys(name for name, at in zip(names, places, strict=True) if at < 0):
        issues.add(where, "unknown class", unknown_class(name, classes, len(issues)))
    issues.raise_any()
    return table.with_classes(classes, places)


def class_places(names: Sequence[str], known: Sequence[str]) -> list[int]:
    """The place of each name among the known ones, in any spelling; -1 if it is not there."""
    place = {normalize_name(name): at for at, name in reversed(list(enumerate(known)))}
    return [place.get(normalize_name(name), -1) for name in names]


def unknown_class(name: str, known: Sequence[str], before: int) -> str:
    """The message about an unknown class; the first 20 get a hint."""
    return f"unknown class {name!r}{f' ({did_you_mean(name, known)})' if before < 20 else ''}"


def class_problem(name: str) -> str | None:
    """Why a text cannot name a class; None if it can."""
    if not name.strip():
        return "the class name is empty"
    return f"class {name!r}: the name is not text" if {"\0", "\r"} & {*name} else None


def check_classes(classes: Sequence[str], where: str, issues: Issues) -> None:
    """Report names that cannot be classes, and those that are there twice."""
    seen = set[str]()
    for place, name in enumerate(classes):
        problem = class_problem(name)
        if not name:
            problem = f"column {place + 2} has no class name; delete the rows above the header"
        if problem is None and name in seen:
            problem = f"class {name!r} is listed twice"
        if problem is not None:
            issues.add(where, "header", problem)
        seen.add(name)


def read_classes(path: str | Path) -> tuple[str, ...]:
    """A list of class names, one per line."""
    if not os.path.isfile(path):
        raise InputError(f"{path}: no such file; expected a list of classes, one per line")
    issues, names = Issues(), dict[str, None]()
    for line, text in numbered_lines(Path(path), issues):
        name = normalize_name(text)
        if name in names:
            issues.add(f"{path}:{line}", "class name", f"class {name!r} is listed twice")
        names[name] = None
    issues.raise_any()
    if not names:
        raise InputError(f"{path}: expected class names, one per line; the file is empty")
    return tuple(names)


def read_class_list(path: Path, options: ReadOptions) -> LabelTable:
    """Only classes, for runs that predict by class names; any text may be one, so ask by name."""
    classes = read_classes(path)
    return LabelTable((), classes, np.zeros((0, len(classes)), dtype=np.int8))


def silent_classes(table: LabelTable) -> list[str]:
    """A note on classes that a format without a list of classes cannot keep."""
    silent = int((per_class(table.values) == 0).sum())
    return [f"{silent:,} classes without any label are not in the file"] if silent else []


# aliases


def read_aliases(path: str | Path) -> dict[str, str]:
    """The class of every other name, of lines `other name = class`; # begins a comment."""
    issues, classes = Issues(), dict[str, str]()
    for line, text in numbered_lines(Path(path), issues):
        if text.startswith("#"):
            continue
        name, _, name_of = (normalize_name(part.strip()) for part in text.partition("="))
        problem = None
        if text.count("=") != 1 or class_problem(name) or class_problem(name_of):
            problem = f"expected {_FORM}, got {text!r:.80}"
        elif name in classes or name in (name_of, *classes.values()) or name_of in classes:
            problem = f"{text!r:.80}: expected a name that is neither a class nor an alias already"
        if problem:
            issues.add(f"{path}:{line}", "alias", problem)
        else:
            classes[name] = name_of
    issues.raise_any()
    if not classes:
        raise InputError(f"{path}: expected {_FORM}, one per line; the file is empty")
    return classes


def with_aliases(
    classes: tuple[str, ...] | None, aliases: Mapping[str, str]
) -> tuple[str, ...] | None:
    """The classes that there may be, and their other names."""
    if classes is None:
        return None
    others = (name for name, name_of in aliases.items() if name_of in classes)
    return tuple(dict.fromkeys((*classes, *others)))
