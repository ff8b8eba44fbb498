"""A table of activations or features in the making: who was stopped goes on where it stood.

The file is laid out as a finished one: all rows, then of every image its size and time. Those of an
image are written after its row, and are 0 until then.
"""

import math
import os
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from g2netpl.base.disk import reserve
from g2netpl.base.files import open_in_place, sync_folder
from g2netpl.base.locks import held
from g2netpl.images.kept_rows import NUMBERS, Stamps, check_place, lacking
from g2netpl.images.loader import Rows

Computed = npt.NDArray[np.float32]
Kind = type[np.float16] | type[np.float32]


def file_bytes(count: int, shape: tuple[int, ...], kind: Kind = np.float16) -> int:
    """What the activations of so many images take on the disk."""
    return count * (np.dtype(kind).itemsize * math.prod(shape) + NUMBERS * 8)


def is_nan(found: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which images could not be read."""
    nothing: npt.NDArray[np.bool_] = np.isnan(found.reshape(len(found), -1)[:, 0])
    return nothing


class Table(NamedTuple):
    """What is said of all images."""

    rows: npt.NDArray[Any]
    stamps: Stamps  # 0: the row is not known

    @classmethod
    def of(cls, content: npt.NDArray[np.uint8], shape: tuple[int, ...], kind: Kind) -> "Table":
        """The table in the bytes of a file; the first side of `shape` is the number of images."""
        rows, stamps = np.split(content, [np.dtype(kind).itemsize * math.prod(shape)])
        return cls(rows.view(kind).reshape(shape), stamps.view(np.int64).reshape(-1, NUMBERS))


class TableInMaking:
    """The file `PATH.part`; where another process is at work on it, one of our own.

    Around the work: at its end the table has its name. Where it is broken off, the part stays
    if a block of it is finished.
    """

    def __init__(
        self,
        path: Path,
        paths: list[str],
        stamps: Stamps,
        shape: tuple[int, ...],
        kind: Kind,
    ) -> None:
        self.path, self.paths = path, paths
        self._stamps, self._shape, self._kind = stamps, (len(paths), *shape), kind
        self._size = file_bytes(len(paths), shape, kind)
        self._place = path.with_name(f"{path.name}.part")
        there = self._place.stat().st_size if self._place.is_file() else 0
        check_place(path.parent, max(0, self._size - there))
        self._lock = ExitStack()

    def __enter__(self) -> "TableInMaking":
        lock = self._place.with_name(f"{self._place.name}.lock")
        self._is_shared = self._lock.enter_context(held(lock))
        if not self._is_shared:
            self._place = self.path.with_name(f"{self.path.name}.{uuid.uuid4().hex}.part")
        self._file = open(open_in_place(self._place, os.O_RDWR | os.O_CREAT), "r+b")
        if os.fstat(self._file.fileno()).st_size != self._size:
            os.truncate(self._file.fileno(), 0)
            reserve(self._file.fileno(), self._size)
        self._content = np.memmap(self._file, np.uint8, "r+", shape=(self._size,))
        self.now = Table.of(self._content, self._shape, self._kind)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        has_some = bool(self.now.stamps.any())
        self._content.flush()
        del self.now, self._content  # what is mapped, Windows neither cuts nor renames
        os.fsync(self._file.fileno())
        self._file.close()
        if kind is None:
            os.replace(self._place, self.path)
            sync_folder(self.path.parent)
        elif not (self._is_shared and has_some):
            self._place.unlink(missing_ok=True)
        self._lock.close()

    def go_on(self, rows: Rows, stored: Table | None, say: Callable[[str], None]) -> Rows:
        """Of the rows that a stored table lacks, those that are not finished here either."""
        lacks = lacking(self.now.stamps, self._stamps)
        left = np.intersect1d(rows, lacks)
        if len(left) < len(rows):
            done = f"{len(rows) - len(left):,} of {len(rows):,} images"
            say(f"{self.path.name}: {done} were done before it was stopped; going on")
        if stored is not None:
            for row in np.setdiff1d(lacks, rows):
                self.now.rows[row], self.now.stamps[row] = stored.rows[row], stored.stamps[row]
        return left

    def write(self, rows: Rows, found: Computed) -> None:
        """One block more; its stamps follow when it is on the disk."""
        largest = float(np.finfo(self._kind).max)
        self.now.stamps[rows] = 0
        self.now.rows[rows] = np.clip(found, -largest, largest)
        self._content.flush()
        known = rows[~is_nan(found)]
        self.now.stamps[known] = self._stamps[known]
        self._content.flush()
