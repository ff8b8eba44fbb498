"""Tables with a row per image that are kept in files: which rows are still those of their images.

Beside each row stand the size, the times and the SHA-256 of its image (`Stamps`, `Digests`).
"""

import errno
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from g2netpl.base.disk import check_space, file_stamp, is_full, user_cache
from g2netpl.base.errors import InputError
from g2netpl.base.processes import Processes
from g2netpl.base.sealed import SUM
from g2netpl.images.identity import digests_of

Rows = npt.NDArray[np.int64]
Good = npt.NDArray[np.bool_]
Stamps = npt.NDArray[np.int64]  # (N, 3) of the image files, see disk.file_stamp
Digests = npt.NDArray[np.uint8]  # (N, 32) of their content; zeros: not known
_ELSEWHERE = "name another folder with --cache"


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


def check_place(folder: Path, needed: int) -> None:
    """Stop before the work where its features cannot be kept."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as problem:
        if is_full(problem):
            raise
        raise InputError(
            f"{folder}: features cannot be kept there ({problem.strerror}); {_ELSEWHERE}"
        ) from None
    check_space(folder, needed, "features", _ELSEWHERE)


def default_cache() -> Path:
    """The user's cache folder."""
    return user_cache("features", "name a folder with --cache")
