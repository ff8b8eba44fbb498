"""Read and write .npy and .npz files.

What is read was perhaps written by others: it is an array of what its file holds, or one line says
why not.
"""

import io
import math
import warnings
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

Scores = npt.NDArray[np.float32]


class _Writable(Protocol):
    def write(self, content: bytes, /) -> Any: ...


def write_npy(file: _Writable, table: npt.NDArray[Any]) -> None:
    """Write a table as numpy.save does, which says nothing about a full disk."""
    kind = npy.dtype_to_descr(np.dtype(table.dtype))
    header = {"descr": kind, "fortran_order": False, "shape": table.shape}
    npy.write_array_header_1_0(file, header)
    file.write(np.ascontiguousarray(table).tobytes())


def write_npz(
    file: BinaryIO,
    compression: int = zipfile.ZIP_DEFLATED,
    /,
    **tables: npt.NDArray[Any],
) -> None:
    """Write tables under their names as numpy.savez_compressed does."""
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, table in tables.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                write_npy(member, table)


def read_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an .npz file; whatever is wrong is a ValueError.

    Sums, headers and sizes must agree. What was pickled is never read.
    """
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            members = [each for each in archive.infolist() if each.filename.endswith(".npy")]
            return {
                each.filename.removesuffix(".npy"): parse_npy(_content(archive, each))
                for each in members
            }
    except Exception as problem:  # the headers of a damaged file can say anything
        raise ValueError(in_short(problem)) from None


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with archive.open(member) as file:
        content = file.read(member.file_size)
        if file.read(1) or len(content) != member.file_size:  # its sum is looked at here
            raise ValueError(f"{member.filename} is not of the length that it should be")
    return content


def parse_npy(content: bytes, what: str = "values") -> npt.NDArray[Any]:
    """The array of an .npy file, whose header must agree with its size; never a pickled one."""
    file = io.BytesIO(content)
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"of version {version}, expected 1, 2 or 3")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's opinions on headers written by Python 2
        if version == (1, 0):
            shape, by_column, kind = npy.read_array_header_1_0(file)
        else:
            shape, by_column, kind = npy.read_array_header_2_0(file)
    if kind.hasobject:
        raise ValueError("it holds pickled objects, which could run programs")
    claimed, there = math.prod(shape) * kind.itemsize, len(content) - file.tell()
    if claimed != there:
        raise ValueError(f"its header claims {claimed:,} bytes of {what}, {there:,} are there")
    array = np.frombuffer(content, kind, offset=file.tell())
    return array.reshape(shape, order="F" if by_column else "C")


def in_short(problem: Exception) -> str:
    """The first line of what another package says of a file."""
    return (str(problem).strip().partition("\n")[0] or type(problem).__name__)[:200]


def finite_rows(table: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Which rows of a table (N, D) hold finite numbers alone."""
    with np.errstate(invalid="ignore"):  # so many float32 fit into a float64
        sums: npt.NDArray[np.float64] = table.sum(axis=1, dtype=np.float64)
    return np.isfinite(sums)
