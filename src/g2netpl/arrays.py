"""Tables of all images and classes that need not fit into memory: made and written in blocks.

Up to 16 million cells a table is one block, and lies in memory.
"""

import math
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from g2netpl.disk import reserve

WHOLE = 1 << 24  # cells of a table up to which it is one block
_BLOCK = 1 << 20  # cells of a block of a larger one

Rows = npt.NDArray[np.int64]


class _Writable(Protocol):
    def write(self, content: bytes, /) -> Any: ...


def row_blocks(count: int, classes: int) -> Iterator[Rows]:
    """All rows of a table, in order, not many at a time."""
    size = count if count * classes <= WHOLE else max(1, _BLOCK // classes)
    for start in range(0, count, max(size, 1)):
        yield np.arange(start, min(start + size, count))


def room(folder: Path, shape: tuple[int, int]) -> npt.NDArray[np.float32]:
    """A table of float32 to be filled: in memory, or a large one in a file that has no name."""
    cells = math.prod(shape)
    if cells <= WHOLE:
        return np.empty(shape, dtype=np.float32)
    with tempfile.TemporaryFile(dir=folder) as file:
        reserve(file.fileno(), 4 * cells)
        return np.asarray(np.memmap(file, np.float32, "r+", shape=shape))


@dataclass(frozen=True)
class Blocks:
    """A table that is made while it is written."""

    shape: tuple[int, int]
    dtype: npt.DTypeLike
    make: Callable[[Rows], npt.NDArray[Any]]  # some of its rows

    def parts(self) -> Iterable[npt.NDArray[Any]]:
        """One block after the other."""
        return (self.make(rows).astype(self.dtype, copy=False) for rows in row_blocks(*self.shape))


def write_npy(file: _Writable, table: "Blocks | npt.NDArray[Any]") -> None:
    """Write a table as numpy.save does, which says nothing about a full disk."""
    parts = table.parts() if isinstance(table, Blocks) else [np.ascontiguousarray(table)]
    kind = npy.dtype_to_descr(np.dtype(table.dtype))
    header = {"descr": kind, "fortran_order": False, "shape": table.shape}
    npy.write_array_header_1_0(file, header)
    for part in parts:
        file.write(part.tobytes())


def write_npz(file: BinaryIO, **tables: "Blocks | npt.NDArray[Any]") -> None:
    """Write tables under their names as numpy.savez_compressed does."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, table in tables.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                write_npy(member, table)
