"""From a file to pixels: any image file becomes RGB, or one clear line says why not.

EXIF orientation is applied; 16-bit and float pixels are scaled to 8 bits; transparent parts become
white; of an animation the first frame is taken; of a raw file the embedded preview. More than 64
megapixels are rejected before anything is decoded.
"""

import io
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from g2netpl.labels.paths import RAW_SUFFIXES
from g2netpl.utils.console import shown
from g2netpl.utils.errors import InputError
from g2netpl.utils.image_refs import (
    MAX_PIXELS,
    Unreachable,
    can_read_raw,
    formats,
    is_address,
    open_file,
)

_NAMED = 5  # unreadable images in a message
_TURNS = {  # LibRaw's numbers of how a picture must be turned
    3: Image.Transpose.ROTATE_180,
    5: Image.Transpose.ROTATE_90,
    6: Image.Transpose.ROTATE_270,
}

Pixels = npt.NDArray[np.uint8]


def open_image(path: str | Path, size: int | None = None) -> Image.Image:
    """The image as RGB, upright. With `size`, a JPEG may come smaller, but not under 2 × size."""
    with _opened(path) as file:
        if size is not None:
            file.draft(None, (2 * size, 2 * size))  # a half, a quarter or an eighth is much faster
        return _to_rgb(file)


def load_resized(path: str | Path, size: int) -> Pixels:
    """The whole image of a file, upright, resized to (size, size, 3)."""
    return resize(open_image(path, size), size)


def resize(image: Image.Image, size: int) -> Pixels:
    """The whole image as (size, size, 3) bytes, by antialiased bilinear weights."""
    return np.array(image.resize((size, size), Image.Resampling.BILINEAR))


def header_problem(path: str | Path) -> str | None:
    """Why a file cannot be an image, by its first bytes; None if it may be one.

    Files of a store are not looked at, since they would have to be downloaded.
    """
    if is_address(str(path)):
        return None
    try:
        with _opened(path):
            return None
    except InputError as problem:
        return str(problem)


def check_unreadable(problems: Collection[str], most: int) -> None:
    """Stop if more than `most` images of a list cannot be read; the first are named."""
    if len(problems) <= most:
        return
    first = [*problems][:_NAMED]
    if len(problems) == 1:
        raise InputError(f"{first[0]}; leave it out")
    named = "; ".join((*first, *(["…"] if len(problems) > _NAMED else [])))
    allowed = f", max_unreadable allows {most:,}" if most else ""
    hint = unreadable_hint("as many as g2netpl check finds")
    raise InputError(f"at least {len(problems):,} images cannot be read{allowed}: {named}; {hint}")


def unreadable_hint(count: int | str) -> str:
    """What to do about unreadable images."""
    return f"remove them from the label file and the folder, or use --set max_unreadable={count}"


@contextmanager
def _opened(path: str | Path) -> Iterator[Image.Image]:
    """An image file that is not too large, not yet decoded; any mistake is an `InputError`."""
    limit = Image.MAX_IMAGE_PIXELS
    try:
        with open_file(path) as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's opinions on odd metadata
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            Image.MAX_IMAGE_PIXELS = MAX_PIXELS  # also used for the images inside an icon
            if not stream.read(1):
                raise InputError("not a readable image (the file is empty)")
            stream.seek(0)
            is_raw = str(path).lower().endswith(RAW_SUFFIXES)
            with _raw_preview(stream) if is_raw else Image.open(stream, "r", formats()) as file:
                if file.width * file.height > MAX_PIXELS:  # HEIC has no such check
                    raise Image.DecompressionBombError
                yield file
    except Unreachable:
        raise
    except Exception as problem:  # decoders raise errors of every kind for damaged files
        raise InputError(f"{shown(path)}: {_reason(problem)}") from None
    finally:
        Image.MAX_IMAGE_PIXELS = limit


def _reason(problem: Exception) -> str:
    """Why an image cannot be read."""
    if isinstance(problem, InputError):
        return str(problem)
    if isinstance(problem, FileNotFoundError):
        return "no such image"
    if isinstance(problem, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return f"more than {MAX_PIXELS:,} pixels; make it smaller first"
    if isinstance(problem, UnidentifiedImageError):
        return "not a readable image (no known image format, or damaged at its start)"
    if isinstance(problem, OSError) and problem.strerror is not None:
        return f"cannot be read ({problem.strerror})"
    if problem.args and isinstance(problem.args[0], bytes):
        problem = Exception(problem.args[0].decode(errors="replace"))  # as rawpy raises them
    return f"not a readable image ({shown(problem) or type(problem).__name__})"


def _raw_preview(stream: BinaryIO) -> Image.Image:
    """The preview in a raw file, upright, or else the picture that rawpy makes of it."""
    if not can_read_raw():
        raise InputError("a raw file; pip install 'g2netpl[raw]', or convert it to JPEG")
    import rawpy

    with rawpy.imread(stream) as raw:
        try:
            preview: Any = raw.extract_thumb()
        except rawpy.LibRawError:
            return Image.fromarray(raw.postprocess(half_size=True))
        if preview.format == rawpy.ThumbFormat.JPEG:
            image: Image.Image = Image.open(io.BytesIO(preview.data), formats=("JPEG",))
        else:
            image = Image.fromarray(preview.data)
        is_marked = ExifTags.Base.Orientation in image.getexif()
        turn = None if is_marked else _TURNS.get(raw.sizes.flip)
        return image if turn is None else image.transpose(turn)


def _to_rgb(file: Image.Image) -> Image.Image:
    file.load()
    with suppress(Exception):  # unreadable EXIF has no orientation; the pixels are fine
        file = ImageOps.exif_transpose(file)
    if file.mode == "RGB" and "transparency" not in file.info:
        return file
    if file.mode.startswith("I") or file.mode == "F":
        deep = np.asarray(file, dtype=np.float64)
        shades = _to_bytes(deep, top=1.0 if file.mode == "F" else 65535.0)
        shades[deep == file.info.get("transparency", np.nan)] = 255
        return Image.fromarray(shades).convert("RGB")
    if "A" in file.mode or "a" in file.mode or "transparency" in file.info:
        solid = file.convert("RGBA")
        white = Image.new("RGBA", solid.size, "white")
        return Image.alpha_composite(white, solid).convert("RGB")
    return file.convert("RGB")


def _to_bytes(deep: npt.NDArray[np.float64], top: float) -> Pixels:
    """Pixels deeper than 8 bits: 0 is black; `top` is white, or the highest one if it is more."""
    deep = np.nan_to_num(deep, nan=0.0, posinf=0.0, neginf=0.0)
    highest = float(deep.max(initial=top))
    return np.rint(deep / highest * 255.0).clip(0, 255).astype(np.uint8)
