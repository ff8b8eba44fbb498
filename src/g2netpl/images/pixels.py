"""From a file to pixels: any image file becomes RGB, or one clear line says why not.

EXIF orientation is applied; 16-bit and float pixels are scaled to 8 bits; transparent parts stand
on white; of an animation the first frame is taken; more than 64 megapixels are refused before
anything is decoded. Only formats that Pillow decodes by itself are opened.
"""

import sys
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, UnidentifiedImageError

from g2netpl.base.errors import InputError
from g2netpl.base.inside import Unfit, open_file
from g2netpl.base.places import Place, is_address
from g2netpl.images.resize import resize

MAX_PIXELS = 64_000_000
_FEW = 1_000  # images, that are decoded only to tell how many cannot be
_NAMED = 5  # of them

DECODED = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "ICO", "JPEG2000", "AVIF")

TURNS = {  # by the value of EXIF's orientation
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

Pixels = npt.NDArray[np.uint8]


def open_image(path: str | Path, size: int | None = None) -> Image.Image:
    """The image as RGB, upright. With `size`, a JPEG may come smaller, but not under 2 × size."""
    with _opened(path) as file:
        if size is not None:
            file.draft(None, (2 * size, 2 * size))  # a half, a quarter or an eighth is much faster
        return _to_rgb(_upright(file))


def squashed(path: str | Path, size: int) -> Pixels:
    """The whole image of a file, upright, squashed to (size, size, 3), for training."""
    return squash(open_image(path, size), size)


def header_problem(path: str | Path, stream: BinaryIO | None = None) -> str | None:
    """Why a file cannot be an image, by its first bytes alone; None if it may well be one."""
    if isinstance(path, Place) and path.looked_at:
        return None
    try:
        with _opened(path, stream):
            return None
    except InputError as problem:
        return str(problem)


def squash(image: Image.Image, size: int) -> Pixels:
    """The whole image, squashed to size × size by antialiased bilinear weights; (size, size, 3).

    Where training has loaded torch, its resize does it, which is faster; the bytes are the same.
    """
    if image.size == (size, size):
        return np.array(image)
    if sys.modules.get("torch"):
        return _by_torch(np.array(image), size)
    return resize(image, size)


def _by_torch(pixels: Pixels, size: int) -> Pixels:
    import torch
    from torch.nn.functional import interpolate

    planes = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    resized = interpolate(planes, size=(size, size), mode="bilinear", antialias=True)
    small: Pixels = resized[0].permute(1, 2, 0).numpy()
    return small


class Tried(NamedTuple):
    """What is wrong with images of a list, of which `most` may be unreadable."""

    problems: Collection[str]
    most: int
    others: Collection[str] | None = ()  # that were not decoded yet; None: nobody knows them


def check_bad(*lists: Tried) -> None:
    """Stop where more images of a list cannot be read than may be; the first are named.

    Few others are decoded then, so that the number is that of all.
    """
    if all(len(each.problems) <= each.most for each in lists):
        return
    others = [path for each in lists for path in each.others or ()]
    is_all = len(others) <= _FEW and not any(map(is_address, others))
    is_all = is_all and all(each.others is not None for each in lists)
    found = [
        [*each.problems, *(filter(None, map(_problem, each.others or ())) if is_all else ())]
        for each in lists
    ]
    over = [
        (bad, each.most) for bad, each in zip(found, lists, strict=True) if len(bad) > each.most
    ]
    bad, most = [problem for bad, _ in over for problem in bad], over[0][1]
    named = "; ".join((*bad[:_NAMED], *(["…"] if len(bad) > _NAMED else [])))
    if len(bad) == 1:
        raise InputError(f"{named}; leave it out")
    what = f"{'' if is_all else 'at least '}{len(bad):,} images cannot be read"
    if most == 0:  # which was asked for, or nothing else can be
        raise InputError(f"{what}: {named}; leave them out")
    needed = max(map(len, found)) if is_all else None
    raise InputError(f"{what}, --max-bad allows {most:,}: {named}; {way_out(needed)}")


def way_out(count: int | None) -> str:
    """What to do about so many unreadable images; None where they were not counted."""
    number = "as many as g2netpl check finds" if count is None else count
    return f"remove them from the label file and from the folder, or give --max-bad {number}"


def _problem(path: str) -> str | None:
    """Why an image cannot be decoded; None if it can."""
    try:
        open_image(path, size=1)
    except InputError as problem:
        return str(problem)
    return None


@contextmanager
def _opened(path: str | Path, given: BinaryIO | None = None) -> Iterator[Image.Image]:
    """An image file that is not too large, not yet decoded; any mistake is an `InputError`."""
    with _stream(path) if given is None else given as stream:
        limit = Image.MAX_IMAGE_PIXELS
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Pillow's opinions on odd metadata
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                Image.MAX_IMAGE_PIXELS = MAX_PIXELS  # also heeded for the images inside an icon
                with Image.open(stream, formats=DECODED) as file:
                    yield file
        except InputError:
            raise
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise InputError(
                f"{_shown(path)}: more than {MAX_PIXELS:,} pixels; make it smaller first"
            ) from None
        except Exception as problem:  # decoders meet hostile bytes with errors of every kind
            raise InputError(f"{_shown(path)}: {_unreadable(stream, problem)}") from None
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def _stream(path: str | Path) -> BinaryIO:
    """The bytes of a file; all that comes of it comes of this one opening."""
    try:
        return open_file(path)
    except FileNotFoundError:
        raise InputError(f"{_shown(path)}: no such image") from None
    except Unfit as problem:
        raise InputError(f"{_shown(path)}: {problem.strerror}") from None
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", "its name holds a NUL character")
        raise InputError(f"{_shown(path)}: cannot be read ({why})") from None


def _upright(file: Image.Image) -> Image.Image:
    file.load()
    try:
        turn = TURNS.get(file.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # unreadable EXIF tells no orientation; the pixels are fine
        turn = None
    return file if turn is None else file.transpose(turn)


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith("I") or image.mode == "F":
        deep = np.asarray(image, dtype=np.float64)
        shades = _to_bytes(deep, top=1.0 if image.mode == "F" else 65535.0)
        shades[deep == image.info.get("transparency", np.nan)] = 255
        return Image.fromarray(shades).convert("RGB")
    if "A" in image.mode or "a" in image.mode or "transparency" in image.info:
        solid = image.convert("RGBA")
        white = Image.new("RGBA", solid.size, "white")
        return Image.alpha_composite(white, solid).convert("RGB")
    return image.convert("RGB")


def _to_bytes(deep: npt.NDArray[np.float64], top: float) -> Pixels:
    """Pixels deeper than 8 bits: 0 is black; `top` is white, or the highest one if it is more."""
    deep = np.nan_to_num(deep, nan=0.0, posinf=0.0, neginf=0.0)
    highest = float(deep.max(initial=top))
    return np.rint(deep / highest * 255.0).clip(0, 255).astype(np.uint8)


def _unreadable(stream: BinaryIO, problem: Exception) -> str:
    """What to say of a file that Pillow could not read."""
    try:
        stream.seek(0)
        start = stream.read(16)
    except (OSError, ValueError) as trouble:
        return f"cannot be read ({getattr(trouble, 'strerror', trouble)})"
    if not start:
        return "not a readable image (the file is empty)"
    if start[4:8] == b"ftyp" and start[8:12] in (b"heic", b"heix", b"mif1", b"msf1", b"hevc"):
        return "a HEIC photo; convert it to JPEG first"
    if isinstance(problem, UnidentifiedImageError):
        return "not a readable image (no known image format, or damaged at its start)"
    return f"not a readable image ({_shown(problem) or type(problem).__name__})"


def _shown(text: object) -> str:
    """A path or a message without line breaks and control characters."""
    return str(text) if str(text).isprintable() else repr(str(text))[1:-1]
