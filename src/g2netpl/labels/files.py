"""One label file, or several that are read as one: how they are held, named and changed."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from g2netpl.base.places import is_address

Files = str | tuple[str, ...]  # of several, in the order of the user
READ_BY = (  # keys of a configuration that say how a file of others is to be read
    *("format", "absent", "separator", "classes", "aliases"),
    *("image_column", "tags_column", "ignore_columns", "duplicates", "encoding", "tag_level"),
    "minus_one",
)


def each_file(files: str | Path | Sequence[str | Path]) -> tuple[str, ...]:
    """Every one of them."""
    several = [files] if isinstance(files, str | Path) else files
    return tuple(os.fspath(file) for file in several)


def as_files(files: str | Path | Sequence[str | Path]) -> Files:
    """A text for one file, however it was given, and a tuple for several."""
    every = each_file(files)
    return every[0] if len(every) == 1 else every


def named(files: str | Path | Sequence[str | Path]) -> str:
    """`a.csv + b.json`, for people."""
    return " + ".join(each_file(files))


def of_each(files: str | Sequence[str], change: Callable[[str], str]) -> Files:
    """Each of them as `change` makes it; an address of a store stays as it is."""
    return as_files([file if is_address(file) else change(file) for file in each_file(files)])
