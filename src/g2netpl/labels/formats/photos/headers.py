"""What a photo says about itself before its pixels: XMP packets and IPTC keywords.

Of JPEG, PNG, WebP and TIFF, by their first bytes and not by their names. Only the parts that hold
metadata are read; what is cut off, lies about its length or is too large raises ValueError, after
what came before it was given.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal

MOST = 1 << 24  # bytes of a packet
Part = tuple[Literal["xmp", "iptc"], bytes]

_XMP = b"http://ns.adobe.com/xap/1.0/\0"
_PHOTOSHOP = b"Photoshop 3.0\0"
_PNG_XMP = b"XML:com.adobe.xmp\0"
_IPTC_RESOURCE = 0x0404
_TIFF_XMP, _TIFF_IPTC, _TIFF_PHOTOSHOP = 700, 33723, 34377  # tags
_TIFF_SIZES = {1: 1, 2: 1, 4: 4, 6: 1, 7: 1}  # bytes of a value, by type
_KEYWORD = (2, 25)  # data set of IPTC-IIM


def parts(file: BinaryIO) -> Iterator[Part]:
    """The packets and records of a photo; nothing where its format keeps none that we know."""
    start = file.read(12)
    if start.startswith(b"\xff\xd8"):
        file.seek(2)
        yield from _jpeg(file)
    elif start.startswith(b"\x89PNG\r\n\x1a\n"):
        file.seek(8)
        yield from _png(file)
    elif start[:4] == b"RIFF" and start[8:] == b"WEBP":
        yield from _webp(file)
    elif start[:4] in (b"II*\0", b"MM\0*"):
        yield from _tiff(file, "<" if start[:1] == b"I" else ">", start)


def keywords(records: bytes) -> list[str]:
    """The keywords among the records of IPTC."""
    found, at = [], 0
    while records[at : at + 1] == b"\x1c":
        record, number, size = _unpack(">BBH", records, at + 1)
        at += 5
        if size & 0x8000:  # the length of the length
            length = size & 0x7FFF
            size = int.from_bytes(_slice(records, at, min(length, 5)), "big")
            at += length
        value = _slice(records, at, size)
        at += size
        if (record, number) == _KEYWORD:
            found.append(value)
    return [_text(value) for value in found]


def _text(value: bytes) -> str:
    """UTF-8, which many programs write without the record that says so, or else Latin-1.

    Hardly any text in Latin-1 that is not ASCII is valid UTF-8.
    """
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _jpeg(file: BinaryIO) -> Iterator[Part]:
    """Segments up to the pixels; Photoshop's block may take several of them."""
    resources = b""
    while (marker := _marker(file)) not in (0xDA, 0xD9):
        if marker == 0x01 or 0xD0 <= marker <= 0xD7:  # of no length
            continue
        size = _unpack(">H", exactly(file, 2))[0] - 2
        if size < 0:
            raise ValueError("a segment of JPEG with a length below 2")
        if marker not in (0xE1, 0xED):
            file.seek(size, 1)
            continue
        content = exactly(file, size)
        if marker == 0xED and content.startswith(_PHOTOSHOP):
            resources += content[len(_PHOTOSHOP) :]
            if len(resources) > MOST:
                raise ValueError(f"Photoshop's block has more than {MOST:,} bytes")
        elif marker == 0xE1 and content.startswith(_XMP):
            yield "xmp", content[len(_XMP) :]
    yield from _resources(resources)


def _marker(file: BinaryIO) -> int:
    if exactly(file, 1) != b"\xff":
        raise ValueError("expected a segment of JPEG")
    while (marker := exactly(file, 1)) == b"\xff":
        pass
    return marker[0]


def _resources(content: bytes) -> Iterator[Part]:
    """IPTC among Photoshop's resources: 8BIM, number, name, length, content, in pairs of bytes."""
    at = 0
    while content[at : at + 4] == b"8BIM":
        number, length = _unpack(">HB", content, at + 4)
        at += 6 + (length + 2) // 2 * 2
        (size,) = _unpack(">I", content, at)
        at += 4
        value = _slice(content, at, size)
        at += (size + 1) // 2 * 2
        if number == _IPTC_RESOURCE:
            yield "iptc", value


def _png(file: BinaryIO) -> Iterator[Part]:
    while True:
        size, kind = _unpack(">I4s", exactly(file, 8))
        if kind == b"IEND":
            return
        if kind == b"iTXt" and size <= MOST:
            content = exactly(file, size)
            if content.startswith(_PNG_XMP):
                yield "xmp", _international_text(content[len(_PNG_XMP) :])
            file.seek(4, 1)
        else:
            file.seek(size + 4, 1)


def _international_text(content: bytes) -> bytes:
    """The text of a chunk iTXt behind its keyword: flag, method, language, its name in it, text."""
    compressed, _ = _unpack("BB", content)
    text = content[2:].split(b"\0", 2)[-1]
    if not compressed:
        return text
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(text, MOST)
    except zlib.error as problem:
        raise ValueError(f"a text of PNG that cannot be unpacked ({problem})") from None
    if unpacking.unconsumed_tail:
        raise ValueError(f"XMP of more than {MOST:,} bytes")
    return text


def _webp(file: BinaryIO) -> Iterator[Part]:
    while head := file.read(8):
        kind, size = _unpack("<4sI", head)
        if kind == b"XMP ":
            yield "xmp", exactly(file, size)
        else:
            file.seek(size, 1)
        file.seek(size & 1, 1)


def _tiff(file: BinaryIO, order: str, start: bytes) -> Iterator[Part]:
    """The first folder of a TIFF file: tag, type, count, and the value or its place."""
    file.seek(_unpack(f"{order}I", start, 4)[0])
    (count,) = _unpack(f"{order}H", exactly(file, 2))
    entries = exactly(file, 12 * count)
    for at in range(0, len(entries), 12):
        tag, type, count, place = _unpack(f"{order}HHII", entries, at)
        size = count * _TIFF_SIZES.get(type, 0)
        if tag not in (_TIFF_XMP, _TIFF_IPTC, _TIFF_PHOTOSHOP) or size <= 4:
            continue
        file.seek(place)
        content = exactly(file, size)
        if tag == _TIFF_PHOTOSHOP:
            yield from _resources(content)
        else:
            yield "xmp" if tag == _TIFF_XMP else "iptc", content


def exactly(file: BinaryIO, size: int) -> bytes:
    """So many bytes, and not more than a packet may have."""
    if size > MOST:
        raise ValueError(f"a part of {size:,} bytes; {MOST:,} at most are read")
    content = file.read(size)
    if len(content) < size:
        raise ValueError("the file is cut off")
    return content


def _slice(content: bytes, at: int, size: int) -> bytes:
    value = content[at : at + size]
    if len(value) < size:
        raise ValueError("a part is longer than what it is in")
    return value


def _unpack(shape: str, content: bytes, at: int = 0) -> tuple[Any, ...]:
    try:
        return struct.unpack_from(shape, content, at)
    except struct.error:
        raise ValueError("a part is cut off") from None
