"""Files below a folder: a path that leads out of it is rejected when the file is opened."""

import errno
import os
import stat
from pathlib import Path
from typing import Self

from g2netpl.utils.places import ImageRef, Opened
from g2netpl.utils.system import BINARY, NO_WAITING


class PathBelow(ImageRef):
    """The path of a file that must be in the folder `root`."""

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
        """The file, if it is in the folder."""
        if not is_below(self, self.root):
            raise Unfit(f"leads out of the image folder {self.root}")
        return _open(self)

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return self.root, self.name


class Unfit(OSError):
    """A path that leads out of its folder, or to what is no regular file."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EPERM, why)


def is_below(path: str, root: str) -> bool:
    """Whether a path is really `root` or below it; OSError if nothing is there."""
    return Path(os.path.realpath(path, strict=True)).is_relative_to(os.path.realpath(root))


def open_file(path: str | Path) -> Opened:
    """A regular file or another place, to be read; raises OSError, `Unfit` if it must not be."""
    return path.open() if isinstance(path, ImageRef) else _open(path)


def _open(path: str | Path) -> Opened:
    descriptor = os.open(path, os.O_RDONLY | NO_WAITING | BINARY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unfit("not a regular file")
    return open(descriptor, "rb")
