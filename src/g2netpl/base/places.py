"""Places of images: texts that look like paths and know how they are opened.

Whoever handles paths may hand them on as texts; `inside.open_file`, `disk.file_stamp` and
`disk.file_digest` ask the place. It is small, and goes to other processes as its few parts.
"""

import hashlib
import io
import os

from g2netpl.base.errors import UserError
from g2netpl.base.terminal import EXIT_DISK

Stamp = tuple[int, int, int]  # size, time of the content, time of the file itself
Opened = io.BufferedReader | io.BytesIO
NOWHERE: Stamp = (-1, -1, -1)
LARGEST = 1 << 28  # bytes of one image


def is_address(text: str) -> bool:
    """Whether a text is no path of this machine."""
    return "://" in text


class Place(str):
    """Where one image is."""

    __slots__ = ()

    @property
    def shard(self) -> str:
        """What holds it together with others, such as a tar file; empty where it lies alone."""
        return ""

    @property
    def whole(self) -> str:
        """The same from any working folder."""
        return os.path.abspath(self)

    @property
    def looked_at(self) -> bool:
        """Whether its first bytes were found to be those of an image when it was listed."""
        return False

    def open(self) -> Opened:
        """The bytes, to be read; raises OSError where there are none."""
        raise NotImplementedError

    def stamp(self) -> Stamp:
        """A place with the same three has the same content; −1: not there."""
        try:
            status = os.stat(self)
        except (OSError, ValueError):
            return NOWHERE
        return status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def digest(self) -> bytes | None:
        """SHA-256 of the content; None where it cannot be read."""
        try:
            with self.open() as file:
                return hashlib.file_digest(file, "sha256").digest()
        except (OSError, ValueError):
            return None

    def read(self, start: int, end: int) -> bytes:
        """Some of the bytes; fewer where it ends before."""
        with self.open() as file:
            file.seek(max(0, start))
            return file.read(max(0, end - max(0, start)))


class Unreachable(UserError):
    """A place that cannot be reached now: nothing is said about the image, so nothing goes on."""

    exit_code = EXIT_DISK
