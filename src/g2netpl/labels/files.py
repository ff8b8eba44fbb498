"""One label file, or several that are read as one: their names, and local copies."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from g2netpl.labels.names import name_problem
from g2netpl.utils.errors import InputError
from g2netpl.utils.image_refs import is_address
from g2netpl.utils.stores import object_at

Files = str | tuple[str, ...]  # of several, in the order of the user


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


def ensure_local(file: str | Path) -> Path:
    """A file on this machine; a file in a store is copied once for each process."""
    text = os.fspath(file)
    return _copy_of(text) if is_address(text) else Path(text)


@cache
def _copy_of(address: str) -> Path:
    name = address.rpartition("/")[2]
    problem = name_problem(name)
    if problem is not None:
        raise InputError(f"{address}: {problem}")
    folder = Path(tempfile.mkdtemp(prefix="g2netpl-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with object_at(address).open() as source, open(folder / name, "wb") as target:
        shutil.copyfileobj(source, target)
    return folder / name
