"""Odd image files, built from scratch: some that must be read, with their pixels, some that cannot.

READABLE     name → (bytes, expected pixels, tolerance)
UNREADABLE   name → `Unreadable`: how to put it at a path, and what must be said of it
"""

import io
import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from g2netpl.utils.image_refs import formats

formats()  # registers HEIC, as reading an image does
HEIGHT, WIDTH = 12, 20
DOWN, ACROSS = np.mgrid[0:HEIGHT, 0:WIDTH]
GREY = (DOWN * 12 + ACROSS * 6).astype(np.uint8)  # 0 to 246; all four corners differ
COLOUR = np.stack([ACROSS * 13, DOWN * 23, 250 - GREY], axis=-1).astype(np.uint8)
CMYK = np.concatenate([COLOUR, GREY[..., None] // 2], axis=-1)
CLEAR = ACROSS < 7  # the part that is transparent, where something is
ALPHA = np.where(CLEAR, 0, 255).astype(np.uint8)
COLOUR_ALPHA = np.concatenate([COLOUR, ALPHA[..., None]], axis=-1)
INDEX = ((DOWN + ACROSS) % 16).astype(np.uint8)
PALETTE = np.random.default_rng(2).integers(0, 256, (16, 3), dtype=np.uint8)
FLOATS = GREY.astype(np.float32) / 255
DEEP = GREY.astype(np.uint16) * 257

GOOD = {"quality": 95, "subsampling": 0}
FINE = {"quality": 100, "subsampling": "4:4:4", "speed": 10}


def as_image(pixels, mode=None):
    if mode is None:
        return Image.fromarray(np.ascontiguousarray(pixels))
    return Image.frombytes(mode, (pixels.shape[1], pixels.shape[0]), pixels.tobytes())


def saved(pixels, kind, mode=None, **options):
    """The file that Pillow writes."""
    buffer = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else as_image(pixels, mode)
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def two_frames(kind, pixels, **options):
    return saved(pixels, kind, save_all=True, append_images=[as_image(255 - pixels)], **options)


def changed(data, where, new):
    return data[:where] + new + data[where:][len(new) :]


def rgb(grey):
    return np.repeat(np.asarray(grey)[..., None], 3, axis=-1)


def white_where(mask, pixels):
    return np.where(mask[..., None], 255, pixels)


def from_cmyk(cmyk):
    paper = 1 - cmyk / 255
    return np.rint(255 * paper[..., :3] * paper[..., 3:])


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(depth, colour, rows, width=WIDTH, height=HEIGHT):
    """A PNG by hand; `rows` are the bytes of each row, unfiltered."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    return start + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def sixteen_bits(pixels):
    """Rows of a PNG with each 8-bit sample doubled: 0 stays 0, 255 becomes 65535."""
    return [(row.ravel().astype(">u2") * 257).astype(">u2").tobytes() for row in pixels]


def palette_image():
    image = as_image(INDEX)
    image.putpalette(PALETTE.tobytes())
    return image


def exif(*tags):
    """A little-endian EXIF block with one directory; a tag is (number, type, count, 4 bytes)."""
    entries = b"".join(struct.pack("<HHI4s", *tag) for tag in tags)
    return b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<H", len(tags)) + entries + bytes(4)


def orientation(value):
    return (0x0112, 3, 1, struct.pack("<HH", value, 0))


def photo(exif_block):
    return saved(COLOUR, "JPEG", exif=exif_block, **GOOD)


TURNED = {  # how the stored pixels must be turned to stand upright, by the EXIF standard
    1: lambda stored: stored,
    2: lambda stored: stored[:, ::-1],
    3: lambda stored: stored[::-1, ::-1],
    4: lambda stored: stored[::-1],
    5: lambda stored: stored.swapaxes(0, 1),
    6: lambda stored: stored[::-1].swapaxes(0, 1),  # a quarter to the right
    7: lambda stored: stored[::-1, ::-1].swapaxes(0, 1),
    8: lambda stored: stored.swapaxes(0, 1)[::-1],  # a quarter to the left
}


def floats_with(*values):
    floats = FLOATS.copy()
    floats[0, : len(values)] = values
    return saved(floats, "TIFF")


def grey_with(values, grey=GREY):
    grey = np.rint(grey)
    grey[0, : len(values)] = values
    return rgb(grey)


READABLE = {
    "JPEG": (saved(COLOUR, "JPEG", progressive=True, **GOOD), COLOUR, 6),
    "JPEG, CMYK": (saved(CMYK, "JPEG", mode="CMYK", **GOOD), from_cmyk(CMYK), 6),
    **{
        f"JPEG, EXIF orientation {value}": (photo(exif(orientation(value))), turn(COLOUR), 6)
        for value, turn in TURNED.items()
    },
    "JPEG, EXIF cut off": (photo(exif(orientation(6))[:20]), COLOUR, 6),
    "PNG": (saved(COLOUR, "PNG"), COLOUR, 0),
    "PNG, 16-bit grey": (
        saved(np.arange(65536, dtype=np.uint16).reshape(256, 256), "PNG"),
        rgb(np.rint(np.arange(65536).reshape(256, 256) / 257)),
        0,
    ),
    "PNG, 16-bit RGBA": (png(16, 6, sixteen_bits(COLOUR_ALPHA)), white_where(CLEAR, COLOUR), 0),
    "PNG, palette, one colour transparent": (
        saved(palette_image(), "PNG", transparency=3),
        white_where(INDEX == 3, PALETTE[INDEX]),
        0,
    ),
    "GIF, animated": (two_frames("GIF", GREY), rgb(GREY), 0),
    "TIFF, 16 bits": (saved(DEEP.astype(">u2"), "TIFF", mode="I;16B"), rgb(GREY), 0),
    "TIFF, floats with NaN, infinite and negative": (
        floats_with(np.nan, np.inf, -np.inf, -0.5),
        grey_with([0, 0, 0, 0]),
        0,
    ),
    "TIFF, orientation": (saved(COLOUR, "TIFF", tiffinfo={0x0112: 6}), TURNED[6](COLOUR), 0),
    "WebP": (saved(COLOUR_ALPHA, "WEBP", lossless=True), white_where(CLEAR, COLOUR), 0),
    "JPEG 2000": (saved(COLOUR, "JPEG2000", irreversible=False), COLOUR, 0),
    "AVIF": (saved(COLOUR, "AVIF", **FINE), COLOUR, 4),
    "HEIC": (saved(COLOUR, "HEIF", quality=-1, chroma=444), COLOUR, 4),
    "HEIC, EXIF orientation 6": (
        saved(COLOUR, "HEIF", quality=-1, chroma=444, exif=exif(orientation(6))),
        TURNED[6](COLOUR),
        4,
    ),
}


@dataclass(frozen=True)
class Unreadable:
    """No usable image. `whole_header`: the file begins well, only decoding tells."""

    put: Callable[[Path], object]
    says: str
    whole_header: bool = False


UNKNOWN = r"not a readable image \(no known image format"
DAMAGED = r"not a readable image \("
TOO_LARGE = "more than 64,000,000 pixels"


def file(content, says=UNKNOWN, whole_header=False):
    return Unreadable(lambda path: path.write_bytes(content), says, whole_header)


def damaged(content):
    return file(content, DAMAGED, whole_header=True)


def noise(kind, **options):
    pixels = np.random.default_rng(3).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    return saved(pixels, kind, **options)


def cut(kind, **options):
    data = noise(kind, **options)
    return data[: len(data) // 2]


def jpeg_of(width, height):
    data = noise("JPEG")
    return changed(data, data.index(b"\xff\xc0") + 5, struct.pack(">HH", height, width))


LARGE_PNG = png(1, 0, [bytes(1000)] * 8125, 8000, 8125)  # very many pixels in few bytes


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
HEIC = struct.pack(">I", 24) + b"ftypheic\0\0\0\0mif1heic" + bytes(200)

UNREADABLE = {
    "missing": Unreadable(lambda path: None, "no such image"),
    "empty": file(b"", "the file is empty"),
    "text": file(b"no image\n"),
    "EPS": file(EPS),
    "HEIC, cut in half": damaged(cut("HEIF")),
    "HEIC without a picture": file(HEIC, DAMAGED),
    "JPEG, cut in half": damaged(cut("JPEG")),
    "JPEG of 65500x65500": file(jpeg_of(65500, 65500), TOO_LARGE),
    "PNG of 65 megapixels, valid": file(LARGE_PNG, TOO_LARGE),
    "TIFF, no directory": file(b"II*\0\x08\0\0\0"),
    "PPM, control characters in its header": file(b"P6 \x1b[31mred\x07\x85red 2 255", DAMAGED),
    "folder": Unreadable(Path.mkdir, "not a regular file"),
    "FIFO": Unreadable(os.mkfifo, "not a regular file"),
    "link to /dev/zero": Unreadable(lambda path: path.symlink_to("/dev/zero"), "not a regular"),
    "link to nothing": Unreadable(lambda path: path.symlink_to("nothing"), "no such image"),
    "link to itself": Unreadable(lambda path: path.symlink_to(path.name), "cannot be read"),
}
