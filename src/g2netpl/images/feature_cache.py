"""A cache of what a frozen network computes for each image: features or activations.

One table is `KEY.f32.npy` (or f16), a row per image, and `KEY.f32.done.npy`, the size and time of
the image that each row was computed for. A row of an image with another size or time is computed
again. Rows are marked as done after they are written, so a killed process loses one block. A lock
makes a second process wait for the first. Tables that were not used for longest are removed when
the folder grows beyond the environment variable G2NETPL_FEATURE_CACHE (default 20GB).
"""

import hashlib
import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numpy.lib.format import open_memmap
from torch import Tensor, nn

from g2netpl.images.loader import Device, Groups, Rows, Source
from g2netpl.images.transforms import is_mirrored
from g2netpl.utils import distributed
from g2netpl.utils.cache import limit_cache, size_limit, user_cache
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import is_full, open_in_place
from g2netpl.utils.image_refs import is_address, stamp_of
from g2netpl.utils.locks import held

Activations = npt.NDArray[np.float16]  # (N, …) in a file
Kind = type[np.float16] | type[np.float32]
_DAY = 24 * 3600.0  # seconds
_BLOCK = 1 << 23  # numbers that are computed before they are written
_HEADER = 128  # bytes of a .npy file before its numbers
_TABLE = re.compile(r"[0-9a-f]{32}\.f(16|32)\.(npy|done\.npy)")


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
    name = f"{key}.f{8 * np.dtype(kind).itemsize}"
    path = (folder or default_cache()) / f"{name}.npy"
    if distributed.is_main():
        with _usable(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        waiting = f"{path.name}: waiting for another process that computes the same"
        with held(path.with_suffix(".lock"), lambda: say(waiting)):
            with _usable(path.parent):
                table = _Table(path, paths, shape, kind)
            missing = distributed.broadcast(table.missing())
            if 0 < len(missing) < len(paths):
                done = len(paths) - len(missing)
                say(f"{path.name}: {done:,} of {len(paths):,} images are in the cache")
            for block in _blocks(missing, shape):
                table.write(block, compute(block))
        os.utime(path)  # used now
        os.utime(path.with_suffix(".done.npy"))
        limit = size_limit("G2NETPL_FEATURE_CACHE", "20GB")
        # another process may use the tables of the last day
        limit_cache(path.parent, _TABLE, limit, keep=name, spare=_DAY)
    else:
        for block in _blocks(distributed.broadcast(np.zeros(0, np.int64)), shape):
            compute(block)
    distributed.barrier()
    try:
        values: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise InputError(f"{path}: no such file; all ranks must share one --cache folder") from None
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


def file_bytes(count: int, shape: tuple[int, ...], kind: npt.DTypeLike = np.float16) -> int:
    """The size of a table of so many images."""
    return count * np.dtype(kind).itemsize * math.prod(shape) + _HEADER


def default_cache() -> Path:
    """The user's cache folder, which may be deleted at any time."""
    return user_cache("features")


class _Table:
    """A table and its done mask, open for writing; both are replaced if one is damaged."""

    def __init__(self, path: Path, paths: list[str], shape: tuple[int, ...], kind: Kind) -> None:
        self._stamps = np.array([stamp_of(path) for path in paths], np.int64)
        done, count = path.with_suffix(".done.npy"), len(paths)
        self._values = _open(path, (count, *shape), kind)
        self._done = _open(done, (count, 2), np.int64)
        if self._values is None or self._done is None:
            done.unlink(missing_ok=True)  # first: it does not describe the new table
            self._values = _create(path, (count, *shape), kind)
            self._done = _create(done, (count, 2), np.int64)

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


def _open(path: Path, shape: tuple[int, ...], kind: npt.DTypeLike) -> Any:
    """A .npy file of this shape, open for writing; None if it is missing or damaged."""
    with suppress(FileNotFoundError, ValueError):
        os.close(open_in_place(path, os.O_RDWR))  # which rejects a link
        if path.stat().st_size == file_bytes(shape[0], shape[1:], kind):
            table = np.load(path, mmap_mode="r+", allow_pickle=False)
            if table.shape == shape and table.dtype == kind:
                return table
    return None


def _create(path: Path, shape: tuple[int, ...], kind: npt.DTypeLike) -> Any:
    """A new .npy file of zeros, open for writing."""
    path.unlink(missing_ok=True)
    table = open_memmap(path, "w+", kind, shape)
    if hasattr(os, "posix_fallocate"):  # a full disk is an error now, and not a crash later
        with open(path, "r+b") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
            except OSError as problem:  # not every file system can
                if is_full(problem):
                    path.unlink()
                    raise
    return table


@contextmanager
def _usable(folder: Path) -> Iterator[None]:
    """A folder that cannot hold the table is reported before the work."""
    try:
        yield
    except OSError as problem:
        why = f"features cannot be cached there ({problem.strerror})"
        raise InputError(f"{folder}: {why}; name another with --set cache=FOLDER") from None


def _blocks(rows: Rows, shape: tuple[int, ...]) -> list[Rows]:
    count = -(-len(rows) * math.prod(shape) // _BLOCK)
    return np.array_split(rows, count) if count else []


class ActivationSource(Source):
    """Cached activations as a source.

    In training the mirror image is used as often as the image, as if the whole model were trained.
    """

    def __init__(
        self, plain: Activations, mirrored: Activations | None = None, seed: int = 0
    ) -> None:
        self.plain, self.mirrored, self.seed = plain, mirrored, seed

    def __len__(self) -> int:
        return len(self.plain)

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Activations (B, …) of each group of rows, as float32."""
        for rows in groups:
            values = self.plain[rows]
            if epoch is not None and self.mirrored is not None:
                turned = [is_mirrored((self.seed, epoch, int(row))) for row in rows]
                values[turned] = self.mirrored[rows[turned]]
            yield torch.from_numpy(values.astype(np.float32)).to(device)
