"""Features that were computed once, kept for the next time: a file for each list of images.

The file holds the features, and beside each row the size, the times and the SHA-256 of its image;
the SHA-256 of all that stands at its end. A row whose image has another content by now is computed
anew, and so is one that could not be computed; a damaged file is as good as none.
"""

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import nn

from g2netpl.base.arrays import finite_rows, in_short
from g2netpl.base.disk import FULL, check_space, file_stamp
from g2netpl.base.errors import InputError
from g2netpl.base.processes import ALONE, Processes
from g2netpl.base.sealed import SUM, read_sealed, user_cache, write_sealed
from g2netpl.images.features import Features
from g2netpl.images.identity import digests_of

Rows = npt.NDArray[np.int64]
Good = npt.NDArray[np.bool_]
Stamps = npt.NDArray[np.int64]  # (N, 3) of the image files, see disk.file_stamp
Digests = npt.NDArray[np.uint8]  # (N, 32) of their content; zeros: not known
_ELSEWHERE = "name another folder with --cache"


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
    if len(rows):
        if stored is None and processes.is_main:
            check_place(path.parent, sum(table.nbytes for table in entry))
        entry.features[rows] = compute(rows)
    if processes.is_main and (is_outdated or finite_rows(entry.features[rows]).any()):
        note(entry.stamps, entry.digests, rows, paths)
        with told(path.parent) if stored is None else contextlib.suppress(OSError):
            write_sealed(path, entry)
    return entry.features


def lacking(good: Good, then: Stamps, digests: Digests, stamps: Stamps, paths: list[str]) -> Rows:
    """Rows that are not good, and those whose image is another one than it was then."""
    good = good.copy()
    suspects = np.flatnonzero(good & (then != stamps).any(axis=1))
    now = _digests([paths[row] for row in suspects])
    good[suspects] = now.any(axis=1) & (now == digests[suspects]).all(axis=1)
    return np.flatnonzero(~good)


def of_any(processes: Processes, rows: Rows) -> Rows:
    """The rows that any rank has."""
    texts = processes.gather_text(" ".join(map(str, rows.tolist())))
    return np.unique(np.array([row for text in texts for row in text.split()], dtype=np.int64))


def note(stamps: Stamps, digests: Digests, rows: Rows, paths: list[str]) -> None:
    """What the images of these rows are; those that changed while we computed are looked at again.

    Their features may be of either picture.
    """
    there = [paths[row] for row in rows]
    digests[rows] = _digests(there)
    changed = rows[(stamps_of(there) != stamps[rows]).any(axis=1)]
    stamps[changed], digests[changed] = -1, 0


def stamps_of(paths: list[str]) -> Stamps:
    """Size and times of every image file."""
    stamps = np.array([file_stamp(path) for path in paths], dtype=np.int64)
    return stamps.reshape(len(paths), 3)


def _digests(paths: list[str]) -> Digests:
    return np.frombuffer(digests_of(paths), np.uint8).reshape(len(paths), SUM)


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


def check_place(folder: Path, needed: int) -> None:
    """Stop before the work where its features cannot be kept."""
    with told(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    check_space(folder, needed, "features", _ELSEWHERE)


@contextlib.contextmanager
def told(folder: Path) -> Iterator[None]:
    """Where features cannot be kept, the user is told what to do; a full disk is another matter."""
    try:
        yield
    except OSError as problem:
        if problem.errno in FULL:
            raise
        raise InputError(
            f"{folder}: features cannot be kept there ({problem.strerror}); {_ELSEWHERE}"
        ) from None


def default_cache() -> Path:
    """The user's cache folder."""
    return user_cache("features", "name a folder with --cache")


def cache_key(backbone: nn.Module, paths: list[str], view: str) -> str:
    """Changes with the weights, the names of the files and the view of the images."""
    digest = hashlib.sha256(f"2\0{view}".encode())
    for name, tensor in backbone.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.cpu().numpy().tobytes())
    for path in paths:
        digest.update(os.fsencode(path) + b"\0")
    return digest.hexdigest()[:32]
