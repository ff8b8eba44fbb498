"""The files in a tar archive, one after another, with the bytes they take.

Nothing in it is believed: a header has a right sum, or the archive is damaged; it has an end, or it
was cut off. Links, devices and folders are told by their kind and have no content.
"""

import tarfile
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

BLOCK = 512
_LONGEST = 1 << 16  # bytes that a header may say about a name
_FILES = tarfile.REGULAR_TYPES
_KINDS = {
    **{tarfile.LNKTYPE: "link", tarfile.SYMTYPE: "link", tarfile.DIRTYPE: "folder"},
    **{tarfile.CHRTYPE: "device", tarfile.BLKTYPE: "device", tarfile.FIFOTYPE: "pipe"},
}


class Damaged(ValueError):
    """What is wrong with an archive."""


class Member(NamedTuple):
    """One entry: where its content is, and how long."""

    name: str
    kind: str  # empty: a plain file
    data: int
    size: int


def members(file: BinaryIO) -> Iterator[Member]:
    """All entries of an archive; who asks for them may read from the file in between."""
    name: str | None = None
    size: int | None = None
    place = 0
    while True:
        file.seek(place)
        header = _header(file.read(BLOCK))
        if header is None:
            return
        place += BLOCK
        stored = header.size if size is None else size
        if stored < 0:
            raise Damaged(f"a size of {stored} bytes")
        if header.type in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE):
            content = _about(file, header.size)
            if header.type == tarfile.GNUTYPE_LONGNAME:
                name = _text(content.partition(b"\0")[0])
            else:
                name, size = _pax(content, name)
        elif header.type in (tarfile.GNUTYPE_LONGLINK, tarfile.XGLTYPE):
            _about(file, header.size)
        elif header.type in _FILES or header.type in _KINDS:
            kind = _KINDS.get(header.type, "")
            stored = 0 if kind else stored
            yield Member(header.name if name is None else name, kind, place, stored)
            place += _padded(stored)
            name = size = None
            continue
        else:
            raise Damaged(f"an entry of an unknown kind, {header.type!r}")
        place += _padded(header.size)


def _header(block: bytes) -> tarfile.TarInfo | None:
    """A header; None at the end of the archive."""
    if block == bytes(BLOCK):
        return None
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as problem:
        what = "it ends too early" if len(block) < BLOCK else f"{problem}"
        raise Damaged(what) from None


def _about(file: BinaryIO, size: int) -> bytes:
    """What a header says about the next one."""
    if not 0 <= size <= _LONGEST:
        raise Damaged(f"a header of {size:,} bytes")
    content = file.read(size)
    if len(content) < size:
        raise Damaged("it ends too early")
    return content


def _pax(content: bytes, name: str | None) -> tuple[str | None, int | None]:
    """Name and size of the next entry, from records such as `19 path=photo.jpg`."""
    size = None
    while content:
        digits, _, _ = content.partition(b" ")
        length = int(digits) if digits.isdigit() and len(digits) < 9 else 0
        whole = length <= len(content) and content[length - 1 : length] == b"\n"
        key, equals, value = content[len(digits) + 1 : length - 1].partition(b"=")
        content = content[length:]
        if not whole or not equals or key.startswith(b"GNU.sparse"):
            raise Damaged("a header that cannot be read, or a sparse file")
        if key == b"path":
            name = _text(value)
        elif key == b"size":
            size = int(value) if value.isdigit() and len(value) < 19 else -1
    return name, size


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK
