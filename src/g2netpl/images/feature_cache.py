"""A cache of what a frozen network computes for each image: features or activations.

One table is `KEY.f32.npy` (or f16), a row per image, and `KEY.f32.done.npy`, the size and time of
the image that each row was computed for. A row of an image with another size or time is computed
again. Rows are marked as done after they are written, so a killed process loses one block. A lock
makes a second process wait for the first. Tables that were not used for longest are removed when
the folder grows beyond the environment variable G2NETPL_FEATURE_CACHE (default 20GB).
"""

import errno
import hashlib
import math
import os
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout
from numpy.lib import format as npy
from torch import nn

from g2netpl.utils import distributed
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import check_space, is_full, open_in_place, user_cache
from g2netpl.utils.image_refs import file_stamp, is_address
from g2netpl.utils.options import parse_size

Rows = npt.NDArray[np.int64]
Kind = type[np.float16] | type[np.float32]
_DAY = 24 * 3600.0  # seconds
_BLOCK = 1 << 23  # numbers that are computed before they are written
_HEADER = 128  # bytes of a .npy file before its numbers
_TABLE = re.compile(r"([0-9a-f]{32}\.f(?:16|32))\.(npy|done\.npy|lock)")
_ELSEWHERE = "name another folder with --cache"


def get_or_compute(
    folder: Path | None,
    key: str,
    paths: list[str],
    shape: tuple[int, ...],
    compute: Callable[[Rows], npt.NDArray[np.float32]],
    kind: Kind = np.float16,
    say: Callable[[str], None] = lambda line: None,
) -> npt.NDArray[Any]:
    """A row of this shape for each image at `paths`, from the cache or computed; a read-only array.

    `compute` is called with some rows at a time, on all ranks with the same rows; it returns NaN
    for images that cannot be read, which are tried again the next time. Only rank 0 writes.
    """
    if not paths:
        return np.zeros((0, *shape), kind)
    path = (folder or default_cache()) / f"{key}.f{8 * np.dtype(kind).itemsize}.npy"
    if distributed.is_main():
        size = path.stat().st_size if path.exists() else 0
        _check_folder(path.parent, file_bytes(len(paths), shape, kind) - size)
        with _locked(path, say):
            table = _Table(path, paths, shape, kind)
            missing = distributed.broadcast(table.missing())
            if 0 < len(missing) < len(paths):
                done = len(paths) - len(missing)
                say(f"{path.name}: {done:,} of {len(paths):,} images are in the cache")
            for block in _blocks(missing, shape):
                table.write(block, compute(block))
        _remove_old(path, say)
    else:
        for block in _blocks(distributed.broadcast(np.zeros(0, np.int64)), shape):
            compute(block)
    distributed.barrier()
    try:
        values: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise InputError(f"{path}: not there; all ranks need one folder, see --cache") from None
    return values


def cache_key(backbone: nn.Module, paths: list[str], view: str) -> str:
    """Depends on the weights, the paths of the images and the name of the transform."""
    digest = hashlib.sha256(f"4\0{view}".encode())
    for name, tensor in backbone.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.cpu().numpy().tobytes())
    for path in paths:
        digest.update(os.fsencode(path if is_address(path) else os.path.abspath(path)) + b"\0")
    return digest.hexdigest()[:32]


def file_bytes(count: int, shape: tuple[int, ...], kind: Kind = np.float16) -> int:
    """The size of a table of so many images."""
    return count * np.dtype(kind).itemsize * math.prod(shape) + _HEADER


def default_cache() -> Path:
    """The user's cache folder, which may be deleted at any time."""
    return user_cache("features", "name a folder with --cache")


class _Table:
    """A table and its done mask, open for writing."""

    def __init__(self, path: Path, paths: list[str], shape: tuple[int, ...], kind: Kind) -> None:
        self._stamps = np.array([file_stamp(path)[:2] for path in paths], np.int64)
        self._values, is_new = _open(path, (len(paths), *shape), kind)
        self._done, _ = _open(path.with_suffix(".done.npy"), self._stamps.shape, np.int64)
        if is_new:
            self._done[:] = 0

    def missing(self) -> Rows:
        """Rows that are not computed, or for another image than there is now."""
        return np.flatnonzero((self._done != self._stamps).any(axis=1))

    def write(self, rows: Rows, values: npt.NDArray[np.float32]) -> None:
        """Write some rows, and mark those without NaN as done when they are on the disk."""
        largest = float(np.finfo(self._values.dtype).max)
        self._done[rows] = 0
        self._values[rows] = np.clip(values, -largest, largest)
        self._values.flush()
        known = rows[~np.isnan(values.reshape(len(rows), -1)[:, 0])]
        self._done[known] = self._stamps[known]
        self._done.flush()


def _open(
    path: Path, shape: tuple[int, ...], kind: npt.DTypeLike
) -> tuple["np.memmap[Any, Any]", bool]:
    """A .npy file for writing, and whether it is new; one of another shape is replaced."""
    dtype = np.dtype(kind)
    size = _HEADER + dtype.itemsize * math.prod(shape)
    with open(open_in_place(path, os.O_RDWR | os.O_CREAT), "r+b") as file:
        is_new = not _has_header(file, shape, dtype) or os.fstat(file.fileno()).st_size != size
        if is_new:
            os.truncate(file.fileno(), 0)
            header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
            file.seek(0)
            npy.write_array_header_1_0(file, header)
            file.flush()
            _reserve(file.fileno(), size)  # so that a full disk is an error now, and not a crash
        return np.memmap(file, dtype, "r+", _HEADER, shape), is_new


def _reserve(descriptor: int, size: int) -> None:
    os.truncate(descriptor, size)
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as problem:
            if is_full(problem):
                raise


def _has_header(file: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    try:
        is_first_version = npy.read_magic(file) == (1, 0)
        return is_first_version and npy.read_array_header_1_0(file) == (shape, False, dtype)
    except ValueError:
        return False


def _locked(path: Path, say: Callable[[str], None]) -> AbstractContextManager[Any]:
    lock = FileLock(path.with_suffix(".lock"))
    try:
        lock.acquire(timeout=0)
        lock.release()
    except Timeout:
        say(f"{path.name}: waiting for another process that computes the same")
    except (OSError, NotImplementedError):  # a file system without locks
        return nullcontext()
    return lock


def _blocks(rows: Rows, shape: tuple[int, ...]) -> list[Rows]:
    count = -(-len(rows) * math.prod(shape) // _BLOCK)
    return np.array_split(rows, count) if count else []


def _check_folder(folder: Path, needed: int) -> None:
    """Stop before the work if the table cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as problem:
        if is_full(problem):
            raise
        why = problem.strerror
        raise InputError(f"{folder}: features cannot be kept there ({why}); {_ELSEWHERE}") from None
    check_space(folder, max(0, needed), "features", _ELSEWHERE)


def _limit() -> int:
    text = os.environ.get("G2NETPL_FEATURE_CACHE") or "20GB"
    try:
        return parse_size(text)
    except ValueError as problem:
        raise InputError(f"G2NETPL_FEATURE_CACHE={text}: {problem}") from None


def _remove_old(path: Path, say: Callable[[str], None]) -> None:
    """Remove other tables that were not used for longest, if there are too many bytes.

    Tables of the last day stay, since another process may use them; so do files of others.
    """
    os.utime(path)
    tables: dict[str, list[os.DirEntry[str]]] = {}
    for entry in os.scandir(path.parent):
        match = _TABLE.fullmatch(entry.name)
        if match and entry.is_file(follow_symlinks=False):
            tables.setdefault(match[1], []).append(entry)
    sizes = {name: sum(entry.stat().st_size for entry in each) for name, each in tables.items()}
    times = {name: max(entry.stat().st_mtime for entry in each) for name, each in tables.items()}
    total, limit, now = sum(sizes.values()), _limit(), time.time()
    for name in sorted(tables, key=lambda name: times[name]):
        if total <= limit or now - times[name] < _DAY:
            return
        for entry in tables[name]:
            with suppress(OSError):  # in use, on Windows
                os.unlink(entry.path)
        total -= sizes[name]
        say(
            f"{path.parent / name}: removed, not used for {(now - times[name]) / _DAY:.0f} days; "
            f"the cache may take {f'{limit / 1e9:.1f} GB'} (G2NETPL_FEATURE_CACHE)"
        )
