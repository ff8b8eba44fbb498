"""Images in tar shards, in WebDataset's layout: a file, a folder of them, or a pattern.

The files of one key are next to each other: `1.jpg`, and `1.json`, whose `file_name` may give the
image another name.
"""

import glob
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby, product
from pathlib import Path
from typing import Any, BinaryIO

from g2netpl.base.disk import opening
from g2netpl.base.errors import InputError, counted
from g2netpl.base.inside import PathBelow
from g2netpl.base.places import LARGEST, Place
from g2netpl.base.tar import Damaged, Member, members
from g2netpl.images.sources.catalogue import InShards
from g2netpl.images.sources.index import Entry, Shard
from g2netpl.labels.formats.json_file import parse_json
from g2netpl.labels.formats.problems import LabelFileError, Problems
from g2netpl.labels.paths import SUFFIXES, images_on_top, names_on_top
from g2netpl.labels.table import plain_name

_BUFFER = 1 << 24  # bytes that are asked for at a time
_LONGEST = 1 << 22  # bytes of JSON about one image
_KEY = re.compile(r"((?:.*/)?[^/.][^/.]*)\.[^/]*", re.DOTALL)  # up to the first dot of the name
_PACKED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def is_address(address: str) -> bool:
    """Whether a text names tar files."""
    return address.lower().endswith((".tar", ".tar.gz", ".tgz"))


def holds_shards(folder: Path) -> bool:
    """Whether tar files lie in a folder, and no images beside them."""
    return not images_on_top(folder) and any(
        name.lower().endswith((".tar", *_PACKED)) for name in names_on_top(folder)
    )


def check_plain(paths: Iterable[object]) -> None:
    """Refuse archives that are compressed as a whole."""
    for path in paths:
        if str(path).lower().endswith(_PACKED):
            raise InputError(
                f"{path}: compressed, so that no image in it can be reached without reading all "
                "before it; decompress it (images hardly become smaller anyway)"
            )


def shards_at(address: str) -> list[Place]:
    """The tar files of this machine that an address names."""
    if os.path.isdir(address):
        names = sorted(name for name in os.listdir(address) if name[0] != ".")
        check_plain(os.path.join(address, name) for name in names)
        return [PathBelow(address, name) for name in names if name.lower().endswith(".tar")]
    texts = [address] if os.path.exists(address) else in_full(address)
    paths = [path for text in texts for path in sorted(glob.glob(text)) or [text]]
    check_plain(paths)
    return [_file(path) for path in paths]


def in_full(pattern: str) -> list[str]:
    """`a-{00..12}.tar` and `{a,b}.tar` written out."""
    pieces = _BRACES.split(pattern)
    choices = []
    for place, piece in enumerate(pieces):
        found = _RANGE.fullmatch(piece) if place % 2 else None
        if found is not None:
            first, last = map(int, found.groups())
            if last - first >= 1_000_000:
                raise InputError(f"{pattern}: names more than a million shards")
            choices.append([str(each).zfill(len(found[1])) for each in range(first, last + 1)])
        else:
            choices.append(piece.split(",") if place % 2 else [piece])
    return ["".join(each) for each in product(*choices)]


def in_shards(address: str, shards: Sequence[Place]) -> InShards:
    """The images in some tar files, in their order."""
    if not shards:
        raise InputError(f"{address}: no tar file there")
    return InShards(address, [Shard(each, partial(_scan, each)) for each in shards])


def _file(path: str) -> Place:
    folder, name = os.path.split(os.path.realpath(path) if os.path.islink(path) else path)
    return PathBelow(folder or os.curdir, name)


def _scan(shard: Place, notes: list[str]) -> Iterator[Entry]:
    """What a tar file holds; links and the like are passed over."""
    passed: Counter[str] = Counter()
    try:
        with opening(shard), io.BufferedReader(_Raw(shard), _BUFFER) as file:
            for _, group in groupby(_plain(file, passed), _key):
                for name, image in _images(file, list(group)):
                    if image.size > LARGEST:
                        notes.append(f"{shard}: {name!r:.100} passed over: {image.size:,} bytes")
                        continue
                    file.seek(image.data)
                    content = file.read(image.size)
                    if len(content) < image.size:
                        raise Damaged("it ends too early")
                    yield Entry.of(name, image.data, content)
    except Damaged as problem:
        raise InputError(f"{shard}: damaged ({problem}); make or copy it anew") from None
    notes += [f"{shard}: {counted(count, kind)} passed over" for kind, count in passed.items()]


def _plain(file: BinaryIO, passed: Counter[str]) -> Iterator[Member]:
    """The regular files of an archive; what else it holds is counted."""
    for member in members(file):
        if not member.kind:
            yield member
        elif member.kind != "folder":
            passed[member.kind] += 1


def _key(member: Member) -> str:
    found = _KEY.fullmatch(member.name)
    return member.name if found is None else found[1]


def _images(file: BinaryIO, files: Sequence[Member]) -> list[tuple[str, Member]]:
    """The images of one key, with their names; hidden files are none."""
    images = [
        member
        for member in files
        if member.name.lower().endswith(SUFFIXES)
        and not member.name.rpartition("/")[2].startswith(".")
    ]
    told = [member for member in files if member.name.lower().endswith(".json")]
    if len(images) == 1 and told:
        file.seek(told[0].data)
        text = file.read(min(told[0].size, _LONGEST)).decode("utf-8", "replace")
        with suppress(LabelFileError):
            about = parse_json(text, "", Problems())
            if isinstance(about, dict) and isinstance(about.get("file_name"), str):
                return [(plain_name(about["file_name"]), images[0])]
    return [(plain_name(member.name), member) for member in images]


class _Raw(io.RawIOBase):
    """The bytes of a place, as many at a time as are asked for."""

    def __init__(self, place: Place) -> None:
        self.place, self.at, self.size = place, 0, place.stamp()[0]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = offset + (0, self.at, self.size)[whence]
        return self.at

    def readinto(self, buffer: Any) -> int:
        content = self.place.read(self.at, min(self.at + len(buffer), self.size))
        buffer[: len(content)] = content
        self.at += len(content)
        return len(content)
