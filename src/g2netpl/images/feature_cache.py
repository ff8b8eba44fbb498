"""Features that were computed once, kept for the next time: a file for each list of images.

The file holds the features, and beside each row the size, the times and the SHA-256 of its image;
the SHA-256 of all that stands at its end. A row whose image has another content by now is computed
anew, and so is one that could not be computed; a damaged file is as good as none. Where there are
many, one process that was stopped goes on where it stood (`table_in_making`).
"""

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import nn

from g2netpl.base.arrays import finite_rows, in_short
from g2netpl.base.processes import ALONE, Processes
from g2netpl.base.sealed import SUM, read_sealed, write_sealed
from g2netpl.images.features import Features
from g2netpl.images.kept_rows import (
    Digests,
    Rows,
    Stamps,
    check_place,
    default_cache,
    lacking,
    note,
    of_any,
    stamps_of,
    told,
)
from g2netpl.images.table_in_making import TableInMaking

_BLOCK = 1 << 23  # numbers that are computed before they are written


class _Entry(NamedTuple):
    features: Features  # (N, D); not finite where there are none
    stamps: Stamps
    digests: Digests

    @classmethod
    def empty(cls, count: int, width: int) -> "_Entry":
        return cls(
            np.full((count, width), np.nan, np.float32),
            np.full((count, 3), -1, np.int64),
            np.zeros((count, SUM), np.uint8),
        )


def cached(
    folder: Path | None,
    key: str,
    paths: list[str],
    width: int,
    compute: Callable[[Rows], Features],
    processes: Processes = ALONE,
    say: Callable[[str], None] = lambda line: None,
) -> Features:
    """The features of the images at `paths`: stored under `key`, or computed now and stored.

    `compute` is asked for the rows that are not there, whose image changed, or that are not finite
    numbers. The ranks compute together what any of them lacks.
    """
    path = (folder or default_cache()) / f"{key}.npy"
    stamps = stamps_of(paths)
    stored = _read(path, len(paths), width, say)
    entry = _Entry.empty(len(paths), width) if stored is None else stored
    good = finite_rows(entry.features)
    rows = of_any(processes, lacking(good, entry.stamps, entry.digests, stamps, paths))
    is_outdated = bool((entry.stamps != stamps).any())
    entry.stamps[:] = stamps
    if len(rows) and stored is None and processes.is_main:
        check_place(path.parent, sum(table.nbytes for table in entry))
    is_long = stored is None and len(rows) * width > _BLOCK and processes.size == 1
    making = TableInMaking(path, paths, stamps, (width,), np.float32) if is_long else None
    with contextlib.nullcontext() if making is None else making:
        if making is not None:
            _make(making, entry, rows, compute, say)
        elif len(rows):
            entry.features[rows] = compute(rows)
        if processes.is_main and (is_outdated or finite_rows(entry.features[rows]).any()):
            if making is None:
                note(entry.stamps, entry.digests, rows, paths)
            with told(path.parent) if stored is None else contextlib.suppress(OSError):
                write_sealed(path, entry)
    return entry.features


def _make(
    making: TableInMaking,
    entry: _Entry,
    rows: Rows,
    compute: Callable[[Rows], Features],
    say: Callable[[str], None],
) -> None:
    """Compute what was not computed before a stop, block by block; then the entry has all."""
    left = making.go_on(rows, None, say)
    for block in np.array_split(left, max(1, -(-left.size * entry.features.shape[1] // _BLOCK))):
        if len(block):
            making.write(block, compute(block))
    entry.features[rows], entry.stamps[rows], entry.digests[rows] = (
        table[rows] for table in making.now
    )


def _read(path: Path, count: int, width: int, say: Callable[[str], None]) -> _Entry | None:
    try:
        tables = read_sealed(path, len(_Entry._fields))
        _check_kinds(tables, count, width)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Exception as problem:  # whatever is wrong with it, it can be made anew
        say(f"{path}: {in_short(problem)}; these features are computed anew")
        return None
    return _Entry(*tables)


def _check_kinds(tables: list[npt.NDArray[Any]], count: int, width: int) -> None:
    kinds = [(np.float32, width), (np.int64, 3), (np.uint8, SUM)]
    for table, (kind, columns) in zip(tables, kinds, strict=True):
        if table.dtype != kind or table.shape != (count, columns):
            raise ValueError(
                f"expected {np.dtype(kind)} {(count, columns)}, got {table.dtype} {table.shape}"
            )


def cache_key(backbone: nn.Module, paths: list[str], view: str) -> str:
    """Changes with the weights, the names of the files and the view of the images."""
    digest = hashlib.sha256(f"2\0{view}".encode())
    for name, tensor in backbone.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.cpu().numpy().tobytes())
    for path in paths:
        digest.update(os.fsencode(path) + b"\0")
    return digest.hexdigest()[:32]
