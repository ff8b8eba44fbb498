"""Pictures for pages: found below the image folder, made small, encoded anew as JPEG.

Nothing of a file but its pixels gets onto a page. `Pictures` keeps the latest ones in memory, up to
a bound.
"""

import io
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from PIL import Image

from g2netpl.base.errors import InputError
from g2netpl.base.places import Unreachable
from g2netpl.images.pixels import open_image
from g2netpl.images.sources import find
from g2netpl.labels.formats import image_folder
from g2netpl.labels.paths import Located

SIZES = (256, 1024)  # pixels of the longer side, at most
_KEPT_BYTES = 32 << 20


class Pictures:
    """The images of a run, by their row."""

    def __init__(self, names: Sequence[str], roots: "Roots", kept_bytes: int = _KEPT_BYTES) -> None:
        self.names, self.roots, self.kept_bytes = names, roots, kept_bytes
        self._kept: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()
        self._decoding = Lock()  # one at a time: Pillow's limits and warnings are global

    def jpeg(self, row: int, size: int) -> bytes:
        """The picture, no side longer than `size`; InputError tells why it cannot be shown."""
        kept = self._look_up((row, size))
        if kept is not None:
            return kept
        with self._decoding:
            kept = self._look_up((row, size))
            if kept is None:
                kept = small_jpeg(self.roots.path(self.names[row]), size)
                self._keep((row, size), kept)
        return kept

    def _look_up(self, key: tuple[int, int]) -> bytes | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def _keep(self, key: tuple[int, int], picture: bytes) -> None:
        with self._lock:
            self._kept[key] = picture
            self._bytes += len(picture)
            while self._bytes > self.kept_bytes:
                _, dropped = self._kept.popitem(last=False)
                self._bytes -= len(dropped)


class Roots:
    """The folder that image names are relative to, and that of `--unlabelled` images."""

    def __init__(self, images: str | Path, unlabelled: str | None = None) -> None:
        self.images = str(images)
        self.unlabelled = unlabelled

    @classmethod
    def of_run(cls, config: dict[str, Any], images: str | None) -> "Roots":
        """Where the training found them, unless `images` says something else."""
        folder = images or config["images"]
        return cls(
            folder or image_folder(config["labels"], config["format"]), config.get("unlabelled")
        )

    def path(self, name: str) -> str:
        """The file of an image; names that lead out of the folder are refused."""
        located = self._find(name, self.images)
        if located.missing and self.unlabelled is not None:
            start = f"{Path(self.unlabelled).resolve().name}/"
            if name.startswith(start):
                located = self._find(name.removeprefix(start), self.unlabelled)
        if located.missing:
            raise InputError(f"not in {self.images}")
        return located.paths[0]

    def _find(self, name: str, address: str) -> Located:
        try:
            return find([name], address, exactly=True)
        except Unreachable as problem:  # a page is shown without its photo
            raise InputError(str(problem)) from None

    def check(self, names: Sequence[str]) -> None:
        """Refuse a folder that holds none of the first images."""
        some = names[:20]
        for name in some:
            try:
                self.path(name)
                return
            except InputError as problem:
                last = problem
        raise InputError(
            f"{self.images}: none of the first {len(some)} images of the run can be found there "
            f"({some[-1]!r}: {last}); is --images the right folder?"
        )


def small_jpeg(path: str, size: int, quality: int = 88) -> bytes:
    """The pixels of an image as JPEG, no side longer than `size`."""
    try:
        picture = open_image(path, size)
    except (InputError, Unreachable) as problem:
        raise InputError(str(problem).removeprefix(f"{path}: ")) from None
    picture.thumbnail((size, size), Image.Resampling.BICUBIC)
    picture.info = {}  # a comment of the file would be written again
    buffer = io.BytesIO()
    picture.save(buffer, format="JPEG", quality=quality)
    return buffer.getvalue()
