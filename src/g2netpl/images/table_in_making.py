"""A table of activations or features in the making: who was stopped goes on where it stood.

The file is laid out as a finished one of activations: all rows, then of every image its size and
times and its SHA-256. In place of the sum at its end stands a record of each finished block:
how many rows, which, and the SHA-256 of all that the file says of them. A block without a right
record is as good as none.
"""

import hashlib
import io
import math
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from g2netpl.base.disk import reserve
from g2netpl.base.files import open_in_place, sync_folder
from g2netpl.base.locks import same_file
from g2netpl.base.sealed import SUM
from g2netpl.base.system import OPEN_FILES_CAN_GO, try_lock, write_down
from g2netpl.images.kept_rows import Digests, Good, Stamps, check_place, lacking, note
from g2netpl.images.loader import Rows

Computed = npt.NDArray[np.float32]
Kind = type[np.float16] | type[np.float32]
_NUMBER = 8  # bytes


def file_bytes(count: int, shape: tuple[int, ...], kind: Kind = np.float16) -> int:
    """What the activations of so many images take on the disk."""
    return count * (np.dtype(kind).itemsize * math.prod(shape) + 3 * 8 + SUM) + SUM


def is_nan(found: npt.NDArray[Any]) -> Good:
    """Which images could not be read."""
    nothing: Good = np.isnan(found.reshape(len(found), -1)[:, 0])
    return nothing


class Table(NamedTuple):
    """What is said of all images."""

    rows: npt.NDArray[Any]
    stamps: Stamps
    digests: Digests  # zeros: not known


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
        self._end = self._size = file_bytes(len(paths), shape, kind) - SUM
        self._place = path.with_name(f"{path.name}.part")
        there = self._place.stat().st_size if self._place.is_file() else 0
        check_place(path.parent, max(0, self._size + SUM - there))

    def __enter__(self) -> "TableInMaking":
        self._file = _opened(self._place)
        if not _is_ours(self._file.fileno(), self._place):
            self._file.close()
            self._place = self.path.with_name(f"{self.path.name}.{uuid.uuid4().hex}.part")
            self._file = _opened(self._place)
        if os.fstat(self._file.fileno()).st_size < self._size:
            os.truncate(self._file.fileno(), 0)
            reserve(self._file.fileno(), self._size)
        self._content = np.memmap(self._file, np.uint8, "r+", shape=(self._size,))
        count, one = self._shape[0], np.dtype(self._kind).itemsize
        width = one * math.prod(self._shape[1:])
        table, stamps, digests = np.split(self._content, [count * width, count * (width + 3 * 8)])
        self.now = Table(
            table.view(self._kind).reshape(self._shape),
            stamps.view(np.int64).reshape(count, 3),
            digests.reshape(count, SUM),
        )
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.now.stamps[:] = self._stamps
                self._content.flush()
        finally:
            del self.now, self._content  # what is mapped, Windows neither cuts nor renames
        try:
            if kind is None:
                self._finish()
                if OPEN_FILES_CAN_GO:
                    self._take_name()
        finally:
            self._file.close()  # and nobody else may have it before it has its name
        if kind is None and not OPEN_FILES_CAN_GO:
            self._take_name()
        is_ours_alone = self._place.name != f"{self.path.name}.part"
        if kind is not None and (is_ours_alone or self._end == self._size):
            self._place.unlink(missing_ok=True)

    def go_on(self, rows: Rows, stored: Table | None, say: Callable[[str], None]) -> Rows:
        """Of the rows that a stored table lacks, those that are not finished here either."""
        finished = self._finished()
        self.now.digests[~finished] = 0
        good = finished & self.now.digests.any(axis=1)
        lacks = lacking(good, self.now.stamps, self.now.digests, self._stamps, self.paths)
        left = np.intersect1d(rows, lacks)
        if len(left) < len(rows):
            done = f"{len(rows) - len(left):,} of {len(rows):,} images"
            say(f"{self.path.name}: {done} were done before it was stopped; going on")
        if stored is not None:
            for row in np.setdiff1d(lacks, rows):
                self.now.rows[row], self.now.digests[row] = stored.rows[row], stored.digests[row]
        return left

    def write(self, rows: Rows, found: Computed) -> None:
        """One block more, down to the disk before its record is."""
        largest = float(np.finfo(self._kind).max)
        self.now.rows[rows] = np.clip(found, -largest, largest)
        note(self._stamps, self.now.digests, rows, self.paths)
        self.now.digests[rows[is_nan(found)]] = 0
        self.now.stamps[rows] = self._stamps[rows]
        self._content.flush()
        self._file.seek(self._end)
        self._file.write(np.int64(len(rows)).tobytes() + rows.tobytes() + self._sum(rows))
        self._file.flush()
        self._end = self._file.tell()
        write_down(self._file.fileno())

    def _finish(self) -> None:
        """Give the table its sum."""
        os.truncate(self._file.fileno(), self._size)
        self._file.seek(0)
        self._file.write(hashlib.file_digest(self._file, "sha256").digest())
        self._file.flush()
        write_down(self._file.fileno())

    def _take_name(self) -> None:
        os.replace(self._place, self.path)
        sync_folder(self.path.parent)

    def _finished(self) -> Good:
        """Which rows have a record; what comes after the last right one is written over."""
        good, end = np.zeros(self._shape[0], bool), self._size
        self._file.seek(end)
        while len(number := self._file.read(_NUMBER)) == _NUMBER:
            count = int.from_bytes(number, "little")
            if not 0 < count <= len(good):
                break
            content = self._file.read(count * _NUMBER)
            rows = np.frombuffer(content[: len(content) // _NUMBER * _NUMBER], np.int64)
            if len(rows) < count or rows.min() < 0 or rows.max() >= len(good):
                break
            if self._file.read(SUM) != self._sum(rows):
                break
            good[rows], end = True, self._file.tell()
        self._end = end
        return good

    def _sum(self, rows: Rows) -> bytes:
        digest = hashlib.sha256(rows.tobytes())
        for table in self.now:
            digest.update(table[rows].tobytes())
        return digest.digest()


def _opened(path: Path) -> io.BufferedRandom:
    """A file to be read and written anywhere, made where there is none."""
    return open(open_in_place(path, os.O_RDWR | os.O_CREAT), "r+b")


def _is_ours(descriptor: int, path: Path) -> bool:
    """Lock an open file; such a lock is not one of the loader's processes, which may outlive us."""
    return try_lock(descriptor, by_process=True) is True and same_file(descriptor, path)
