"""Squashed images kept in main memory over the epochs, where the loader workers see them too.

Every view begins with the squashed image, so batches are the same bit for bit with a cache and
without. Each process of a training has a cache of its own, which its loader workers share, and the
trainings of a comparison one after the other. What is kept is gone with the process.
"""

import os
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from g2netpl.base.disk import DiskTrouble, is_full, reserve
from g2netpl.base.errors import InputError
from g2netpl.base.memory import available_memory, parse_size, show_size
from g2netpl.images.pixels import Pixels

AUTO_SHARE = 0.25  # of the memory that is available
_memory_file: Callable[[str], int] | None = getattr(os, "memfd_create", None)


def image_bytes(size: int) -> int:
    """What one image takes, with the byte that tells whether it is there."""
    return size * size * 3 + 1


class CacheBudget:
    """How much memory the images of a run may take on a machine: `auto`, `off` or a size.

    The `processes` of a machine have an equal part of it each.
    """

    def __init__(self, wanted: str, processes: int = 1) -> None:
        self.wanted, self.processes = wanted, processes
        self.left = 0
        if wanted == "off":
            return
        available = available_memory()
        whole = int(AUTO_SHARE * available) if wanted == "auto" else parse_size(wanted)
        if whole > available:
            raise InputError(
                f"image_cache: {show_size(whole)} asked for, but only {show_size(available)} of "
                "memory are available"
            )
        self.left = whole // processes

    def make(self, count: int, size: int) -> tuple["ImageCache | None", str]:
        """A cache for all of `count` images, or with a given size for as many as it holds.

        And a line about it, empty where none was wanted.
        """
        if self.wanted == "off":
            return None, ""
        each, images = image_bytes(size), f"{count:,} images of {size} px"
        kept = min(count, self.left // each)
        share = f" in each of {self.processes} processes" if self.processes > 1 else ""
        if kept == 0 or (self.wanted == "auto" and kept < count):
            return None, (
                f"image cache: none, {images} take {show_size(count * each)}, and there may be "
                f"{show_size(self.left)}{share} (--image-cache SIZE)"
            )
        try:
            cache = ImageCache(kept, size)
        except (InputError, DiskTrouble) as problem:
            if self.wanted != "auto":
                raise
            return None, f"image cache: none, {problem}"
        self.left -= kept * each
        part = images if kept == count else f"{kept:,} of {images}"
        where = "in a temporary file" if _memory_file is None else "of memory"
        return cache, f"image cache: {part}, {show_size(kept * each)} {where}{share}"


KeptImages = dict[tuple[tuple[str, ...], int, str], "ImageCache"]
"""Caches that several trainings share, by the paths, the size and the decoder of their images."""


class _Arrays(NamedTuple):
    pixels: Pixels  # (count, size, size, 3)
    there: Pixels  # (count,): 1 where an image is


class ImageCache:
    """The first `count` images of a source, each from its first use on."""

    def __init__(self, count: int, size: int) -> None:
        self.count, self.size = count, size
        self.files = ""  # what the image files were like before any of them was read
        self._path, close = _shared_file(count * image_bytes(size))
        self._mapped: list[_Arrays] = []  # a forked worker has it, others open the file
        weakref.finalize(self, _end, self._mapped, close)
        self._open()

    def get(self, row: int) -> Pixels | None:
        """The squashed image, not to be written to; None if it is not there."""
        if row >= self.count or not self._open().there[row]:
            return None
        pixels: Pixels = self._open().pixels[row]
        pixels.flags.writeable = False
        return pixels

    def put(self, row: int, pixels: Pixels) -> None:
        """Keep an image, if there is room for it."""
        if row < self.count:
            arrays = self._open()
            arrays.pixels[row] = pixels
            arrays.there[row] = 1  # after the pixels

    def __getstate__(self) -> dict[str, Any]:
        """For a worker, which opens the file by itself."""
        return {**self.__dict__, "_mapped": []}

    def _open(self) -> _Arrays:
        if not self._mapped:
            self._mapped.append(self._map())
        return self._mapped[0]

    def _map(self) -> _Arrays:
        size = self.size * self.size * 3
        content = np.asarray(np.memmap(self._path, np.uint8, "r+", shape=self.count * (size + 1)))
        pixels, there = content[: self.count * size], content[self.count * size :]
        return _Arrays(pixels.reshape(self.count, self.size, self.size, 3), there)


def _shared_file(size: int) -> tuple[str, Callable[[], None]]:
    """A file of zeros that other processes can open, in memory where possible; and how to end it.

    Where it is a file of the system's memory, nothing is left of it even after a crash.
    """
    if _memory_file is not None:
        descriptor = _memory_file("g2netpl-images")
        path, close = f"/proc/{os.getpid()}/fd/{descriptor}", partial(os.close, descriptor)
    else:
        descriptor, path = tempfile.mkstemp(prefix="g2netpl-images-")
        close = partial(_close_and_remove, descriptor, path)
    try:
        reserve(descriptor, size)  # no room is an error here, not a crash later
    except OSError as problem:
        close()
        kind = DiskTrouble if is_full(problem) else InputError
        raise kind(
            f"image_cache: no room for {show_size(size)} ({problem.strerror}); "
            "use --image-cache off"
        ) from None
    return path, close


def _end(mapped: list[_Arrays], close: Callable[[], None]) -> None:
    mapped.clear()
    close()


def _close_and_remove(descriptor: int, path: str) -> None:
    os.close(descriptor)
    with suppress(PermissionError):  # Windows keeps a file while a picture of it is in use
        os.unlink(path)
