"""What the frozen blocks of a backbone make of each image: computed once, read row by row.

They are kept beside the features, as float16, a file for each list of images and each view: all
rows, then of every image its size and times and its SHA-256, then the SHA-256 of all that. Rows are
read from the file when they are asked for, so there may be more of them than memory. A row whose
image has another content by now is computed anew, and so is one that could not be computed; a
damaged file is as good as none.
"""

import hashlib
import math
import os
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from g2netpl.base import launch as launched
from g2netpl.base.arrays import in_short
from g2netpl.base.disk import DiskTrouble, reserve, written_whole
from g2netpl.base.processes import ALONE, Processes
from g2netpl.images.feature_cache import (
    SUM,
    Digests,
    Good,
    Stamps,
    check_place,
    check_sum,
    default_cache,
    lacking,
    note,
    of_any,
    stamps_of,
)
from g2netpl.images.loader import Device, Rows
from g2netpl.images.views import is_mirrored

Activations = npt.NDArray[np.float16]  # (N, …) in a file
Computed = npt.NDArray[np.float32]
_BLOCK = 1 << 26  # numbers that are computed before they are written
_LARGEST = float(np.finfo(np.float16).max)


class ActivationSource:
    """Activations of images, and in training as often of their mirror images where there are some.

    Which of the two is drawn by the key of an image's view, as where the whole network learns.
    """

    evaluation_batch = 64

    def __init__(self, plain: Activations, mirrored: Activations | None, seed: int) -> None:
        self.plain, self.mirrored, self.seed = plain, mirrored, seed

    def __len__(self) -> int:
        return len(self.plain)

    def load(
        self, groups: Sequence[Rows], epoch: int | None, device: Device = "cpu"
    ) -> Iterator[Tensor]:
        """Activations (B, …) of each group of rows, as float32."""
        for rows in groups:
            found = self.plain[rows].astype(np.float32)
            if epoch is not None and self.mirrored is not None:
                keys = [(self.seed, epoch, int(row)) for row in rows]
                turned = np.array([is_mirrored(key) for key in keys], dtype=bool)
                found[turned] = self.mirrored[rows[turned]]
            yield torch.from_numpy(found).to(device)


class _Entry(NamedTuple):
    table: Activations
    stamps: Stamps
    digests: Digests


def kept(
    folder: Path | None,
    key: str,
    paths: list[str],
    shape: tuple[int, ...],
    compute: Callable[[Rows], Computed],
    processes: Processes = ALONE,
    say: Callable[[str], None] = lambda line: None,
) -> Activations:
    """The activations of the images at `paths`: stored under `key`, or computed now and stored.

    `compute` is asked for some rows at a time; of what cannot be read it gives NaN. The ranks
    compute together, and the first of each machine writes.
    """
    path = (folder or default_cache()) / f"{key}.f16"
    stored = _open(path, len(paths), shape, say)
    stamps, rows = stamps_of(paths), np.arange(len(paths))
    if stored is not None:
        good = np.asarray(stored.digests.any(axis=1))
        rows = lacking(good, stored.stamps, stored.digests, stamps, paths)
    rows = of_any(processes, rows)
    if len(rows):
        writes = launched.is_first_of_machine()
        if writes:
            check_place(path.parent, file_bytes(len(paths), shape))
        blocks = np.array_split(rows, -(-len(rows) * math.prod(shape) // _BLOCK))
        computed = ((block, compute(block)) for block in blocks)
        first = next(computed)
        is_known = stored is not None and len(blocks) == 1 and _are_known(stored.table, *first)
        if processes.all_max(int(not is_known)):
            everything = chain([first], computed)
            if writes:
                _store(path, stored, stamps, paths, shape, everything)
            deque(everything, 0)
            processes.barrier()
            stored = _open(path, len(paths), shape, say)
    if stored is None:
        raise DiskTrouble(f"{path}: what was written there cannot be read; run the command again")
    return stored.table


def file_bytes(count: int, shape: tuple[int, ...]) -> int:
    """What the activations of so many images take on the disk."""
    return count * (2 * math.prod(shape) + 3 * 8 + SUM) + SUM


def _open(
    path: Path, count: int, shape: tuple[int, ...], say: Callable[[str], None]
) -> _Entry | None:
    """What is stored, its rows not read yet; None for a file that is damaged or not there."""
    try:
        with open(path, "rb") as file:
            size, expected = os.fstat(file.fileno()).st_size, file_bytes(count, shape)
            if size != expected:
                raise ValueError(f"expected {expected:,} bytes, got {size:,}")
            check_sum(file)
            table: Activations = np.memmap(file, np.float16, "r", shape=(count, *shape))
            file.seek(table.nbytes)
            stamps = np.frombuffer(file.read(count * 3 * 8), np.int64).reshape(count, 3)
            digests = np.frombuffer(file.read(count * SUM), np.uint8).reshape(count, SUM)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Exception as problem:  # whatever is wrong with it, it can be made anew
        say(f"{path}: {in_short(problem)}; these activations are computed anew")
        return None
    return _Entry(table, stamps, digests)


def _are_known(table: Activations, rows: Rows, found: Computed) -> bool:
    """Whether nothing can be said of these rows, as before."""
    return bool((_is_nan(found) & _is_nan(table[rows])).all())


def _is_nan(found: npt.NDArray[Any]) -> Good:
    """Which images could not be read."""
    nothing: Good = np.isnan(found.reshape(len(found), -1)[:, 0])
    return nothing


def _store(
    path: Path,
    stored: _Entry | None,
    stamps: Stamps,
    paths: list[str],
    shape: tuple[int, ...],
    computed: Iterable[tuple[Rows, Computed]],
) -> None:
    """Write what was stored and over it what was computed, which may be too much for memory."""
    count, width = len(paths), 2 * math.prod(shape)
    digests = np.zeros((count, SUM), np.uint8) if stored is None else stored.digests.copy()
    with written_whole(path, mark=f"{uuid.uuid4().hex}.new") as file:
        reserve(file.fileno(), file_bytes(count, shape) - SUM)
        if stored is not None:
            file.write(stored.table.data)
        for rows, found in computed:
            for row, values in zip(rows, np.clip(found, -_LARGEST, _LARGEST), strict=True):
                file.seek(row * width)
                file.write(values.astype(np.float16).tobytes())
            note(stamps, digests, rows, paths)
            digests[rows[_is_nan(found)]] = 0
        file.seek(count * width)
        for table in (stamps, digests):
            file.write(table.tobytes())
        file.flush()
        with open(file.name, "rb") as whole:
            file.write(hashlib.file_digest(whole, "sha256").digest())
