"""Images in tar shards, in WebDataset's layout: a file, a folder of them, or a pattern."""

import glob
import io
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from g2netpl.base.disk import opening
from g2netpl.base.errors import InputError, counted
from g2netpl.base.inside import PathBelow
from g2netpl.base.places import LARGEST, Place
from g2netpl.base.tar import Damaged
from g2netpl.images.sources.catalogue import InShards
from g2netpl.images.sources.index import Entry, Shard
from g2netpl.labels.formats.json_file import parse_json
from g2netpl.labels.formats.problems import LabelFileError, Problems
from g2netpl.labels.formats.webdataset import check_plain, names_of, samples, shards_in

_BUFFER = 1 << 24  # bytes that are asked for at a time
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def is_address(address: str) -> bool:
    """Whether a text names tar files."""
    return address.lower().endswith((".tar", ".tar.gz", ".tgz"))


def shards_at(address: str) -> list[Place]:
    """The tar files of this machine that an address names."""
    if os.path.isdir(address):
        return [*shards_in(Path(address))]
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
            for images, text in samples(file, passed):
                for name, image in zip(names_of(images, _about(text)), images, strict=False):
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


def _about(text: str | None) -> Any:
    try:
        return None if text is None else parse_json(text, "", Problems())
    except LabelFileError:  # who reads labels tells
        return None


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
