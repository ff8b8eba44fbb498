"""From a file to pixels: any image file becomes RGB, or one clear line says why not.

EXIF orientation is applied; 16-bit and float pixels are scaled to 8 bits; transparent parts stand
on white; of an animation the first frame is taken; more than 64 megapixels are refused before
anything is decoded. Only formats that Pillow decodes by itself are opened.
"""

import os
import stat
import sys
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, UnidentifiedImageError

from g2netpl.base.errors import InputError
from g2netpl.base.inside import Unfit, is_below, open_file
from g2netpl.images.jpeg import Decoder, decode_jpeg
from g2netpl.images.resize import resize
from g2netpl.labels.spelling import Spelling
from g2netpl.labels.table import name_problem

MAX_PIXELS = 64_000_000

DECODED = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "ICO", "JPEG2000", "AVIF")
SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".gif", ".bmp", ".dib", ".tif", ".tiff"),
    *(".webp", ".ppm", ".pgm", ".pbm", ".pnm", ".ico", ".jp2", ".j2k", ".avif"),
)

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
            _allow_smaller(file, size)
        return _to_rgb(_upright(file))


def squashed(path: str | Path, size: int, decoder: Decoder = "pillow") -> Pixels:
    """The whole image of a file, upright, squashed to (size, size, 3), for training."""
    pixels = _fast_pixels(path, size) if decoder == "simplejpeg" else None
    if pixels is None:
        return squash(open_image(path, size), size)
    return pixels if pixels.shape[:2] == (size, size) else _by_torch(pixels, size)


def _fast_pixels(path: str | Path, size: int) -> Pixels | None:
    """The decoded image, upright; None where it is to be opened in the usual way."""
    with _opened(path) as file:
        _allow_smaller(file, size)
        pixels = decode_jpeg(file)
        turn = None if pixels is None else _turn(file)
    if pixels is None or turn is None:
        return pixels
    return np.array(Image.fromarray(pixels).transpose(turn))


def header_problem(path: str | Path) -> str | None:
    """Why a file cannot be an image, by its first bytes alone; None if it may well be one."""
    try:
        with _opened(path):
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


def check_bad(problems: Collection[str], most: int) -> None:
    """Stop where more images than `most` cannot be read; the first ten are named."""
    if len(problems) > most:
        named = "; ".join(list(problems)[:10])
        if len(problems) == 1:
            raise InputError(named)
        raise InputError(
            f"{len(problems):,} images cannot be read, --max-bad allows {most:,}: {named}"
        )


@dataclass(frozen=True)
class Located:
    """Where named images are: a path for each, and which of them are not there."""

    paths: list[str]
    missing: list[int]


def find(names: Sequence[str], root: str | Path) -> Located:
    """Look for the named images below `root`; a name that leads out of it is refused.

    Where no file has a name, one whose name looks the same is meant: see `spelling`.
    """
    root = os.fspath(root)
    if not os.path.isdir(root):
        raise InputError(f"{root}: no such image folder")
    base = os.path.realpath(root)
    inside: dict[str, bool] = {}  # folders that were looked at
    spelling = Spelling(root)
    paths: list[str] = []
    missing = []
    for row, name in enumerate(names):
        problem = name_problem(name)
        if problem is not None:
            raise InputError(f"image {name!r}: {problem}")
        path = spelling.path(name)
        paths.append(path)
        folder = os.path.dirname(path)
        try:
            if folder not in inside:
                inside[folder] = is_below(folder, base)
            kind = os.lstat(path).st_mode
            if not inside[folder] or (stat.S_ISLNK(kind) and not is_below(path, base)):
                raise InputError(f"image {name!r}: leads out of the image folder {root}")
            if stat.S_ISLNK(kind):
                kind = os.stat(path).st_mode
        except (OSError, ValueError):  # not there, too long a name, a loop of links
            missing.append(row)
            continue
        if not stat.S_ISREG(kind):
            raise InputError(f"image {name!r}: not a regular file in {root}")
    if spelling.others:
        spelling.check(set(names))
    return Located(paths, missing)


def locate(names: Sequence[str], root: str | Path, more: str = "") -> list[str]:
    """Paths of the named images below `root`, all of which must be there; `more` to the hint."""
    located = find(names, root)
    if located.missing:
        first = names[located.missing[0]]
        above = Path(root).parent
        hint = "is --images the right folder"
        if _exists(above / first):
            hint = f"try --images {quote(str(above))}"
        if _exists(Path(root) / first.replace("\\", "/")):  # a file from Windows
            hint = "could the label file have / instead of \\"
        raise InputError(
            f"{root}: {len(located.missing):,} of {len(names):,} images of the label file are not "
            f"there, the first is {first!r}; {hint}?{more}"
        )
    return located.paths


def list_images(root: str | Path) -> list[str]:
    """Names of all image files below `root`, by their ending, sorted; hidden files are left out."""
    root = os.fspath(root)
    if not os.path.isdir(root):
        raise InputError(f"{root}: no such image folder")
    base = os.path.realpath(root)
    names = []
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for file in files:
            if file.startswith(".") or not file.lower().endswith(SUFFIXES):
                continue
            path = os.path.join(folder, file)
            name = os.path.relpath(path, root).replace(os.sep, "/")
            if not _is_text(name):
                raise InputError(f"{root}: {name!r}: the file name is not valid UTF-8; rename it")
            if os.path.isfile(path) and (not os.path.islink(path) or is_below(path, base)):
                names.append(name)
    return sorted(names)


@contextmanager
def _opened(path: str | Path) -> Iterator[Image.Image]:
    """An image file that is not too large, not yet decoded; any mistake is an `InputError`."""
    with _stream(path) as stream:
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
        why = getattr(problem, "strerror", problem)
        raise InputError(f"{_shown(path)}: cannot be read ({why})") from None


def _allow_smaller(file: Image.Image, size: int) -> None:
    """Decoding a JPEG at a half, a quarter or an eighth is much faster."""
    file.draft(None, (2 * size, 2 * size))


def _upright(file: Image.Image) -> Image.Image:
    file.load()
    turn = _turn(file)
    return file if turn is None else file.transpose(turn)


def _turn(file: Image.Image) -> Image.Transpose | None:
    try:
        return TURNS.get(file.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # unreadable EXIF tells no orientation; the pixels are fine
        return None


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


def _exists(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
