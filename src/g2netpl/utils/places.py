"""References to images: texts that look like paths and can be opened wherever the image is.

`inside.open_file`, `disk.file_stamp` and `disk.file_digest` ask the reference. It is small, and can
be sent to other processes.
"""

import hashlib
import io
import os

from g2netpl.utils.errors import UserError
from g2netpl.utils.terminal import EXIT_DISK

Stamp = tuple[int, int, int]  # size, time of the content, time of the file itself
Opened = io.BufferedReader | io.BytesIO
NOWHERE: Stamp = (-1, -1, -1)
LARGEST = 1 << 28  # bytes of one image


def is_address(text: str) -> bool:
    """Whether a text is an address such as s3://bucket/photos, not a path of this machine."""
    return "://" in text


class ImageRef(str):
    """Where one image is."""

    __slots__ = ()

    @property
    def shard(self) -> str:
        """The tar file that holds it; empty if it is a file of its own."""
        return ""

    def open(self) -> Opened:
        """Open it for reading; raises OSError if that fails."""
        raise NotImplementedError

    def stamp(self) -> Stamp:
        """Size and times: with the same stamp it has the same content; −1: not there."""
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


class Unreachable(UserError):
    """A store that cannot be reached now: the image may be fine, so the work ends."""

    exit_code = EXIT_DISK
