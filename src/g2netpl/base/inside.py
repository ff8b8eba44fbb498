"""Files below a folder, opened so that no link leads out of it, however late the link was made.

The opening is the check: each folder on the way is opened from the one before, and no link is
followed. One that stays inside is resolved first, and its real path is then gone in the same way.
"""

import errno
import os
import stat
from pathlib import Path
from typing import Self

from g2netpl.base.places import Opened, Place
from g2netpl.base.system import BINARY, NO_WAITING

_LINK = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR)  # what systems say of a link on the way
_STAY = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_PATH", os.O_RDONLY)
_FILE = os.O_RDONLY | NO_WAITING | BINARY
_BY_FOLDER = {os.open, os.stat} <= os.supports_dir_fd


class PathBelow(Place):
    """The path of a file that must lie in the folder `root` at the moment it is opened."""

    __slots__ = ("root",)
    root: str

    def __new__(cls, root: str, name: str) -> Self:
        """Joined as usual; no place that handles paths has to know more."""
        made = super().__new__(cls, os.path.join(root, name))
        made.root = root
        return made

    @property
    def name(self) -> str:
        """The part below the folder."""
        return self[len(self.root) :].lstrip(os.sep)

    def open(self) -> Opened:
        """The file, without following a link out of the folder."""
        return open(_open_below(self) if _BY_FOLDER else _open_and_compare(self), "rb")

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return self.root, self.name


class Unfit(OSError):
    """A path that leads out of its folder, or to what is no regular file."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EPERM, why)


def open_file(path: str | Path) -> Opened:
    """A regular file or another place, to be read; raises OSError, `Unfit` where it must not be."""
    return path.open() if isinstance(path, Place) else open(_open(path, None, 0), "rb")


def _open_below(path: PathBelow) -> int:
    try:
        return _walk(path.root, path.name)
    except OSError as problem:
        if problem.errno not in _LINK:
            raise
    base = os.path.realpath(path.root)
    return _walk(base, os.path.relpath(_real(path, base), base))


def _walk(root: str, name: str) -> int:
    """Open a file below `root` without following any link after it."""
    *folders, last = Path(name).parts or (os.curdir,)
    if os.pardir in folders:
        raise Unfit(f"leads out of the image folder {root}")
    folder = os.open(root, _FOLDER)
    try:
        for each in folders:
            deeper = os.open(each, _FOLDER | _STAY, dir_fd=folder)
            os.close(folder)
            folder = deeper
        return _open(last, folder, _STAY)
    finally:
        os.close(folder)


def _open_and_compare(path: PathBelow) -> int:
    """For systems that cannot open from a folder: what was opened must be what stands inside."""
    base = os.path.realpath(path.root)
    real = _real(path, base)
    descriptor = _open(real, None, _STAY)
    try:
        if _real(path, base) != real or not os.path.samestat(os.fstat(descriptor), os.lstat(real)):
            raise Unfit(f"leads out of the image folder {path.root}")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _real(path: PathBelow, base: str) -> str:
    real = os.path.realpath(path, strict=True)
    if not _lies_in(real, base):
        raise Unfit(f"leads out of the image folder {path.root}")
    return real


def is_below(path: str, base: str) -> bool:
    """Whether a path is really `base` or below it; OSError where nothing is there."""
    return _lies_in(os.path.realpath(path, strict=True), base)


def _lies_in(real: str, base: str) -> bool:
    return real == base or real.startswith(os.path.join(base, ""))


def _open(path: str | Path, folder: int | None, stay: int) -> int:
    """Open a regular file, and nothing else even for a moment, unless it was swapped right now."""
    kind = os.stat(path, dir_fd=folder, follow_symlinks=not stay).st_mode
    if stay and stat.S_ISLNK(kind):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    _check_regular(kind)
    descriptor = os.open(path, _FILE | stay, dir_fd=folder)
    try:
        _check_regular(os.fstat(descriptor).st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(kind: int) -> None:
    if not stat.S_ISREG(kind):
        raise Unfit("not a regular file")
