"""Arrays in a file with the SHA-256 of them all at its end: a damaged file is as good as none."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from g2netpl.base.files import atomic_write

SUM = hashlib.sha256().digest_size


def write_sealed(path: Path, arrays: Iterable[npt.NDArray[Any]]) -> None:
    """Write arrays, whole or not at all."""
    digest = hashlib.sha256()
    with atomic_write(path) as file:

        def write(content: bytes) -> None:
            digest.update(content)
            file.write(content)

        for array in arrays:
            np.save(SimpleNamespace(write=write), array)
        file.write(digest.digest())


def check_sum(file: BinaryIO) -> None:
    """The last bytes of a file must be the SHA-256 of those before them."""
    left, digest = os.fstat(file.fileno()).st_size - SUM, hashlib.sha256()
    while left > 0 and (content := file.read(min(left, 1 << 20))):
        digest.update(content)
        left -= len(content)
    if file.read() != digest.digest():
        raise ValueError("damaged, its sum is another one")
    file.seek(0)


def read_sealed(path: Path, count: int) -> list[npt.NDArray[Any]]:
    """So many arrays of a file; an error of any kind where it is not as it was written."""
    with open(path, "rb") as file:
        check_sum(file)
        return [np.load(file, allow_pickle=False) for _ in range(count)]
