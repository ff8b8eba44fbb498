"""References to images: strings that look like paths and open the image wherever it is.

A reference is small and can be sent to other processes.
"""

import errno
import hashlib
import io
import os
import stat
from pathlib import Path
from typing import Self

from g2netpl.utils.errors import UserError
from g2netpl.utils.files import BINARY, NO_WAITING

Stamp = tuple[int, int, int]  # size, time of the content, time of the file itself
Opened = io.BufferedReader | io.BytesIO
NOWHERE: Stamp = (-1, -1, -1)
LARGEST = 1 << 28  # bytes of one image


class Unfit(OSError):
    """A path that leads out of its folder, or to something that is not a regular file."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EPERM, why)


class Unreachable(UserError):
    """A store that cannot be reached now; the image may be fine, so the work ends."""


def is_address(text: str) -> bool:
    """Whether a text is an address such as s3://bucket/photos, not a path of this machine."""
    return "://" in text


class ImageRef(str):
    """Where one image is."""

    __slots__ = ()

    @property
    def shard(self) -> str:
        """The tar file that contains it; empty if it is a file by itself."""
        return ""

    def open(self) -> Opened:
        """Open it for reading; raises OSError if that fails."""
        return _open(self)

    def stamp(self) -> Stamp:
        """Size and times: with the same stamp it has the same content; −1 if it is missing."""
        try:
            status = os.stat(self)
        except (OSError, ValueError):
            return NOWHERE
        return status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def digest(self) -> bytes | None:
        """SHA-256 of the content; None if it cannot be read."""
        try:
            with self.open() as file:
                return hashlib.file_digest(file, "sha256").digest()
        except (OSError, ValueError):
            return None

    def read(self, start: int, end: int) -> bytes:
        """Some of the bytes; fewer if it ends before."""
        with self.open() as file:
            file.seek(max(0, start))
            return file.read(max(0, end - max(0, start)))


class PathBelow(ImageRef):
    """The path of a file that must be in the folder `root`; checked when it is opened."""

    __slots__ = ("root",)
    root: str

    def __new__(cls, root: str, name: str) -> Self:
        """The two joined, as a string."""
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


def is_below(path: str, root: str) -> bool:
    """Whether a path is really `root` or below it; OSError if nothing is there."""
    return Path(os.path.realpath(path, strict=True)).is_relative_to(os.path.realpath(root))


def image_ref(path: str | Path) -> ImageRef:
    """A path as a reference."""
    return path if isinstance(path, ImageRef) else ImageRef(path)


def open_file(path: str | Path) -> Opened:
    """Open a regular file or a reference for reading; OSError or `Unfit` if that fails."""
    return image_ref(path).open()


def file_stamp(path: str | Path) -> Stamp:
    """The stamp of a file or reference."""
    return image_ref(path).stamp()


def file_digest(path: str | Path) -> bytes | None:
    """SHA-256 of a file or reference; None if it cannot be read."""
    return image_ref(path).digest()


def _open(path: str) -> Opened:
    descriptor = os.open(path, os.O_RDONLY | NO_WAITING | BINARY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unfit("not a regular file")
    return open(descriptor, "rb")
