"""From a file to pixels: any image file becomes RGB, or one clear line says why not."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from g2netpl.errors import InputError

MAX_PIXELS = 64_000_000

_UNREADABLE = (
    UnidentifiedImageError,
    Image.DecompressionBombError,
    OSError,
    SyntaxError,
    ValueError,
)

Pixels = npt.NDArray[np.uint8]


def open_image(path: str | Path) -> Image.Image:
    """The image as RGB, turned as its EXIF orientation says, transparent parts on white."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            file = Image.open(path)
        with file:
            if file.width * file.height > MAX_PIXELS:
                raise InputError(
                    f"{path}: {file.width}×{file.height} pixels, more than {MAX_PIXELS:,}; "
                    "make it smaller first"
                )
            return _to_rgb(ImageOps.exif_transpose(file))
    except FileNotFoundError:
        raise InputError(f"{path}: no such image") from None
    except _UNREADABLE as problem:
        raise InputError(f"{path}: not a readable image ({problem})") from None


def check_headers(paths: Sequence[str]) -> None:
    """Refuse the first file that is no image, without decoding any."""
    for path in paths:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)
                Image.open(path).close()
        except _UNREADABLE as problem:
            raise InputError(f"{path}: not a readable image ({problem})") from None


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB":
        return image.copy()
    if image.mode.startswith("I;16") or image.mode in ("I", "F"):
        deep = np.asarray(image, dtype=np.float64)
        top = 65535.0 if image.mode != "F" else max(float(deep.max(initial=0.0)), 1.0)
        return Image.fromarray((deep / top * 255.0).clip(0, 255).astype(np.uint8)).convert("RGB")
    if "A" in image.mode or "transparency" in image.info:
        solid = image.convert("RGBA")
        white = Image.new("RGBA", solid.size, "white")
        return Image.alpha_composite(white, solid).convert("RGB")
    return image.convert("RGB")


def squash(image: Image.Image, size: int) -> Pixels:
    """The paper's view: the whole image, squashed to size × size; (size, size, 3) uint8."""
    if image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BILINEAR)
    return np.array(image)


def locate(names: Sequence[str], root: str | Path) -> list[str]:
    """Paths of the named images below `root`; missing ones and ways out of it are refused."""
    root = Path(root)
    if not root.is_dir():
        raise InputError(f"{root}: no such image folder")
    base = root.resolve()
    paths, missing = [], []
    for name in names:
        path = root / name
        if "\0" in name or not path.resolve().is_relative_to(base):
            raise InputError(f"image {name!r}: leads out of the image folder {root}")
        if not path.is_file():
            missing.append(name)
        paths.append(str(path))
    if missing:
        above = root.parent / missing[0]
        hint = f"try --images {root.parent}" if above.is_file() else "is --images the right folder?"
        raise InputError(
            f"{root}: {len(missing)} of {len(names)} images of the label file are not there, "
            f"the first is {missing[0]!r}; {hint}"
        )
    return paths
