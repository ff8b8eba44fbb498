"""Read and write .npz files, and check arrays."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from g2netpl.utils.files import atomic_write

Scores = npt.NDArray[np.float32]


def read_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an .npz file; ValueError if anything is wrong. Pickled arrays are rejected."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: np.asarray(archive[name]) for name in archive.files}
    except Exception as problem:  # a damaged file can raise anything
        raise ValueError(first_line(problem)) from None


def write_npz(path: Path, arrays: Mapping[str, Any], is_compressed: bool = True) -> None:
    """Write arrays under their names, as a whole file."""
    save: Any = np.savez_compressed if is_compressed else np.savez
    with atomic_write(path) as file:
        save(file, **arrays)


def first_line(problem: Exception) -> str:
    """The first line of an error of another package."""
    return (str(problem).strip().partition("\n")[0] or type(problem).__name__)[:200]
