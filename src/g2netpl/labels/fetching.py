"""A label file that lies in a store, copied once for each process."""

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from g2netpl.base.disk import check_space
from g2netpl.base.errors import InputError
from g2netpl.base.places import is_address
from g2netpl.base.stores import object_at
from g2netpl.labels.table import name_problem

_PIECE = 1 << 24  # bytes that a store is asked for at a time


def at_hand(file: str | Path) -> Path:
    """A file on this machine; of one that lies in a store there is a copy until we end."""
    text = os.fspath(file)
    return _fetched(text) if is_address(text) else Path(text)


@cache
def _fetched(address: str) -> Path:
    there, name = object_at(address), address.rpartition("/")[2]
    problem = name_problem(name)
    if problem is not None:
        raise InputError(f"{address}: {problem}")
    folder = Path(tempfile.mkdtemp(prefix="g2netpl-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    size, _, _ = there.stamp()
    check_space(folder, size, f"copy of {address}", "set TMPDIR")
    with open(folder / name, "wb") as file:
        for start in range(0, size, _PIECE):
            file.write(there.read(start, start + _PIECE))
    return folder / name
