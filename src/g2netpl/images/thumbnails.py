"""Small pictures for pages: found below the image folder, resized, encoded again as JPEG.

Only the pixels of a file get onto a page. `Pictures` keeps the latest ones in memory.
"""

import io
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from PIL import Image

from g2netpl.images.pixels import open_image
from g2netpl.images.sources import find
from g2netpl.labels.io import image_folder
from g2netpl.labels.paths import Located
from g2netpl.utils.errors import InputError
from g2netpl.utils.image_refs import Unreachable

SIZES = (256, 1024)  # pixels of the longer side, at most
_MAX_BYTES = 32 << 20


class Pictures:
    """The images of a run, by their row."""

    def __init__(self, names: Sequence[str], roots: "Roots", max_bytes: int = _MAX_BYTES) -> None:
        self.names, self.roots, self._max_bytes = names, roots, max_bytes
        self._cached: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._lock = Lock()
        self._decoding = Lock()  # one at a time: Pillow's limits and warnings are global

    def jpeg(self, row: int, size: int) -> bytes:
        """The picture, no side longer than `size`; InputError says why it cannot be shown."""
        key = row, size
        picture = self._look_up(key)
        if picture is None:
            with self._decoding:
                picture = self._look_up(key) or small_jpeg(self.roots.path(self.names[row]), size)
            with self._lock:
                self._cached[key] = picture
                while sum(map(len, self._cached.values())) > self._max_bytes:
                    self._cached.popitem(last=False)
        return picture

    def _look_up(self, key: tuple[int, int]) -> bytes | None:
        with self._lock:
            if key in self._cached:
                self._cached.move_to_end(key)
            return self._cached.get(key)


class Roots:
    """The folder that image names are relative to, and that of `--unlabelled` images."""

    def __init__(self, images: str | Path, unlabelled: str | None = None) -> None:
        self.images = str(images)
        self.unlabelled = unlabelled

    @classmethod
    def of_run(cls, config: dict[str, Any], images: str | None) -> "Roots":
        """The folders of the training, unless `images` names another one."""
        folder = images or config["images"]
        return cls(
            folder or image_folder(config["labels"], config["format"]), config.get("unlabelled")
        )

    def path(self, name: str) -> str:
        """The file of an image; names that lead out of the folder are rejected."""
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
        """Reject a folder that holds none of the first images."""
        problems = []
        for name in names[:20]:
            try:
                self.path(name)
                return
            except InputError as problem:
                problems.append(f"{name!r}: {problem}")
        raise InputError(
            f"{self.images}: none of the first {len(problems)} images of the run can be found "
            f"there ({problems[-1]}); is --images the right folder?"
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
