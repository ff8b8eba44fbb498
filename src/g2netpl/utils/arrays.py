"""Read and write .npy and .npz files.

What is read was perhaps written by others: it is an array of what its file holds, or one line says
why not.
"""

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

    What was pickled is never read.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
            return {name: each for name, each in arrays.items() if isinstance(each, np.ndarray)}
    except Exception as problem:  # the headers of a damaged file can say anything
        raise ValueError(in_short(problem)) from None


def in_short(problem: Exception) -> str:
    """The first line of what another package says of a file."""
    return (str(problem).strip().partition("\n")[0] or type(problem).__name__)[:200]


def finite_rows(table: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Which rows of a table (N, D) hold finite numbers alone."""
    with np.errstate(invalid="ignore"):  # so many float32 fit into a float64
        sums: npt.NDArray[np.float64] = table.sum(axis=1, dtype=np.float64)
    return np.isfinite(sums)
