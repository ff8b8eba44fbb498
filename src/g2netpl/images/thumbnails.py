"""Small pictures for pages: found below the image folder, resized, encoded again as JPEG.

Only the pixels of a file get onto a page.
"""

import io
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from PIL import Image

from g2netpl.images.pixels import open_image
from g2netpl.images.sources import find
from g2netpl.labels.io import image_folder
from g2netpl.utils.errors import InputError
from g2netpl.utils.image_refs import Unreachable

_CACHED = 128  # pictures, of at most a few hundred kB


class Roots:
    """The folder that image names of a run are relative to, and that of `--unlabelled` images."""

    def __init__(self, config: Mapping[str, Any], images: str | None = None) -> None:
        folder = images or config["images"]
        self.images = str(folder or image_folder(config["labels"], config["format"]))
        self.unlabelled = config.get("unlabelled")

    def path(self, name: str) -> str:
        """The file of an image; names that lead out of the folder are rejected."""
        places = [(name, self.images)]
        if self.unlabelled is not None:
            start = f"{Path(self.unlabelled).resolve().name}/"
            if name.startswith(start):
                places.append((name.removeprefix(start), self.unlabelled))
        try:
            for part, folder in places:
                located = find([part], folder, exactly=True)
                if not located.missing:
                    return located.paths[0]
        except Unreachable as problem:  # a page is shown without its photo
            raise InputError(str(problem)) from None
        raise InputError(f"not in {self.images}")

    def check(self, names: Sequence[str]) -> None:
        """Reject a folder that holds none of the first images."""
        why = "the run has no images"
        for name in names[:20]:
            try:
                self.path(name)
                return
            except InputError as problem:
                why = f"{name!r}: {problem}"
        none = f"{self.images}: none of the first images of the run can be found there"
        raise InputError(f"{none} ({why}); is --images the right folder?")


class Pictures:
    """The images of a run as pictures, by their row; the latest ones are kept in memory."""

    def __init__(self, names: Sequence[str], roots: Roots) -> None:
        self._decoding = Lock()  # one at a time: Pillow's limits and warnings are global
        self._jpeg = lru_cache(_CACHED)(lambda row, size: small_jpeg(roots.path(names[row]), size))

    def jpeg(self, row: int, size: int) -> bytes:
        """The picture, no side longer than `size`; InputError says why it cannot be shown."""
        with self._decoding:
            return self._jpeg(row, size)


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
