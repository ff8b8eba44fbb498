"""Images wherever they are: references that look like paths, and the formats that can be opened.

A reference is small and can be sent to other processes.
"""

import hashlib
import io
import os
import stat
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from g2netpl.utils.errors import UserError
from g2netpl.utils.files import BINARY

NO_WAITING: int = getattr(os, "O_NONBLOCK", 0)  # a pipe in place of a file must not block us
MAX_PIXELS = 64_000_000
_FORMATS = ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "ICO", "JPEG2000", "AVIF", "HEIF"]

Stamp = tuple[int, int]  # size, time of the content
Opened = io.BufferedReader | io.BytesIO


@cache
def formats() -> list[str]:
    """The formats to pass to `PIL.Image.open`; the first call registers HEIC."""
    import pillow_heif

    pillow_heif.register_heif_opener(thumbnails=False, depth_images=False, aux_images=False)
    return _FORMATS


@cache
def can_read_raw() -> bool:
    """Whether rawpy, which reads the previews in raw files, is installed."""
    return find_spec("rawpy") is not None


class Unreachable(UserError):
    """A store that cannot be reached now; the image may be fine, so the work ends."""


class ImageRef(str):
    """Where one image is: a path, or a text that reads like one with what it takes to open it."""

    shard = ""  # the tar file that contains it; empty if it is a file by itself

    def __new__(cls, text: str | Path, **facts: Any) -> Self:
        """A text with attributes."""
        made = super().__new__(cls, text)
        made.__dict__.update(facts)
        return made

    def open(self) -> Opened:
        """Open it for reading; OSError or ValueError if that fails."""
        descriptor = os.open(self, os.O_RDONLY | NO_WAITING | BINARY)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise ValueError("not a regular file")
        return open(descriptor, "rb")

    def stamp(self) -> Stamp:
        """Size and time: with the same stamp it has the same content; −1 if it is missing."""
        try:
            status = os.stat(self)
        except (OSError, ValueError):
            return -1, -1
        return status.st_size, status.st_mtime_ns


def is_address(text: str) -> bool:
    """Whether a text is an address such as s3://bucket/photos, not a path of this machine."""
    return "://" in text


def open_file(path: str | Path) -> Opened:
    """Open a regular file or a reference for reading; OSError or ValueError if that fails."""
    return (path if isinstance(path, ImageRef) else ImageRef(path)).open()


def stamp_of(path: str | Path) -> Stamp:
    """The stamp of a file or reference."""
    return (path if isinstance(path, ImageRef) else ImageRef(path)).stamp()


def file_digest(path: str | Path) -> bytes | None:
    """SHA-256 of a file or reference; None if it cannot be read."""
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").digest()
    except (OSError, ValueError):
        return None
