"""Tables with a row per image that are kept in files: which rows are still those of their images.

Beside each row stand the size and the time of its image.
"""

import errno
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from g2netpl.base.disk import check_space, file_stamp, is_full, user_cache
from g2netpl.base.errors import InputError
from g2netpl.base.processes import Processes

NUMBERS = 2  # of a stamp: size and time of the content
Rows = npt.NDArray[np.int64]
Stamps = npt.NDArray[np.int64]  # (N, NUMBERS) of the image files
_ELSEWHERE = "name another folder with --cache"


def lacking(then: Stamps, now: Stamps) -> Rows:
    """Rows that are not known, and those whose image is another one than it was then."""
    return np.flatnonzero((then != now).any(axis=1))


def of_any(processes: Processes, rows: Rows) -> Rows:
    """The rows that any rank has."""
    texts = processes.gather_text(" ".join(map(str, rows.tolist())))
    return np.unique(np.array([row for text in texts for row in text.split()], dtype=np.int64))


def stamps_of(paths: list[str]) -> Stamps:
    """Size and time of every image file."""
    stamps = np.array([file_stamp(path)[:NUMBERS] for path in paths], dtype=np.int64)
    return stamps.reshape(len(paths), NUMBERS)


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
