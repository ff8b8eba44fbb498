"""Results for more images than memory holds: a Parquet file for each block of them.

    FOLDER/_parts.json           what the results depend on: classifier, decisions, list of images
    FOLDER/part-000012.parquet   a block, whole or not there

A process that is killed loses the block in work; the same command resumes with what is left. The
ranks of a launcher work on one folder: each takes every n-th block. Programs that read a folder of
Parquet files as one table ignore names that begin with `_`.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from g2netpl.labels.io.writing import write_parquet_columns
from g2netpl.labels.table import LabelMatrix
from g2netpl.runs.classifier import OnBatch
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import (
    atomic_write,
    check_no_links,
    friendly_os_errors,
    read_json,
    remove_temporary,
)

ABOUT = "_parts.json"
FEWEST, MOST = 1 << 10, 10 << 10  # images of a block; whole batches, so that scores are the same
_BLOCKS = 1_000  # that a list is cut into, as long as they are neither small nor large
_HASHED = 1 << 16  # names at a time
_ALL_BAD = 100  # images, all of them unreadable: the place they are in is at fault
_FORMAT = 1
_PART = r"part-[0-9]{6,}\.parquet"
_TOLD = 10  # images that cannot be read


class Block(NamedTuple):
    """Some neighbouring images of a list."""

    number: int
    images: Sequence[str]  # their names
    known: LabelMatrix | None = None  # about them


@dataclass(frozen=True)
class Blocks:
    """A list of images, cut; the images of a shard are never in a block with others."""

    images: Sequence[str]
    cuts: Sequence[int]  # where blocks begin, and the end
    known: LabelMatrix | None = None

    @classmethod
    def of(
        cls,
        images: Sequence[str],
        shards: Sequence[int] | None = None,
        known: LabelMatrix | None = None,
    ) -> "Blocks":
        """The images by their names; `shards` are the numbers of images that lie together."""
        even = -(-len(images) // _BLOCKS) // 64 * 64
        most = MOST if shards is not None else min(max(FEWEST, even), MOST)
        cuts = [0]
        for size in shards or [len(images)]:
            end = cuts[-1] + size
            cuts += [*range(cuts[-1] + most, end, most), end]
        return cls(images, cuts, known)

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def __iter__(self) -> Iterator[Block]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, number: int) -> Block:
        start, stop = self.cuts[number], self.cuts[number + 1]
        known = None if self.known is None else self.known[start:stop]
        return Block(number, self.images[start:stop], known)

    def count(self, numbers: Iterable[int]) -> int:
        """How many images some blocks have."""
        return sum(self.cuts[each + 1] - self.cuts[each] for each in numbers)

    def digest(self) -> str:
        """SHA-256 of the names, what is known and where it is cut."""
        digest = hashlib.sha256(json.dumps([*map(int, self.cuts)]).encode())
        for start in range(0, len(self.images), _HASHED):
            digest.update("\0".join((*self.images[start : start + _HASHED], "")).encode())
        if self.known is not None:
            digest.update(np.ascontiguousarray(self.known).data)
        return digest.hexdigest()


class Made(NamedTuple):
    """What was made of a block: columns of its file, and numbers that can be added up."""

    number: int
    columns: Mapping[str, Any]
    counts: Mapping[str, int]
    unread: Sequence[str]  # images, with why


@dataclass
class Tally:
    """What came of blocks: numbers, and some images that could not be read."""

    counts: Counter[str] = field(default_factory=Counter)
    unread: list[str] = field(default_factory=list)

    def add(self, made: Made) -> Made:
        """One block more."""
        self.counts.update(made.counts)
        self.unread += made.unread[: _TOLD - len(self.unread)]
        return made

    @property
    def read(self) -> int:
        """How many images could be read."""
        return self.counts["images"] - self.counts["unread"]


class Maker(Protocol):
    """What makes files of blocks, such as a classifier that scores them."""

    @property
    def kinds(self) -> Mapping[str, str]:
        """The columns, see `labels.io.writing.write_columns`."""
        ...

    @property
    def depends(self) -> Mapping[str, Any]:
        """What the results depend on beside the images, by what people call it."""
        ...

    def make(self, blocks: Iterable[Block], on_batch: OnBatch = None) -> Iterator[Made]:
        """One block after the other; they are asked for as they are needed."""
        ...


@dataclass(frozen=True)
class Parts:
    """A folder of blocks that all depend on the same."""

    folder: Path

    @classmethod
    def begin(cls, folder: Path, command: str, depends: Mapping[str, Any]) -> "Parts":
        """Begin in a folder that is empty, or go on in one that depends on the same."""
        about = json.loads(json.dumps({"format": _FORMAT, "command": command, **depends}))
        path = folder / ABOUT
        check_no_links(folder)
        with friendly_os_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            others = [each.name for each in folder.iterdir() if each.name[0] not in "._"]
            if others and not path.exists():
                raise InputError(f"{folder}: is not empty; choose another --output")
            if not path.exists():
                with atomic_write(path) as file:
                    file.write(json.dumps(about, indent=2).encode())
        before = _read(path)
        changed = [key for key in about if before.get(key) != about[key]]
        if changed:
            raise InputError(
                f"{folder}: holds parts of other {', '.join(changed)} than it began with; choose "
                "another --output, or begin anew with --overwrite"
            )
        return cls(folder)

    def has(self, number: int) -> bool:
        """Whether a block is there."""
        return self._path(number).is_file()

    def write(self, made: Made, kinds: Mapping[str, str]) -> None:
        """Write a block; it is there whole or not at all, whoever else writes it meanwhile."""
        _check_any_read(made)
        with friendly_os_errors(self.folder):
            write_parquet_columns(self._path(made.number), kinds, [made.columns])

    def _path(self, number: int) -> Path:
        return self.folder / f"part-{number:06d}.parquet"


def remove(folder: Path, command: str) -> None:
    """Remove parts that this command made, so that others can be made there."""
    check_no_links(folder)
    if not (folder / ABOUT).is_file():
        return
    if _read(folder / ABOUT).get("command") != command:
        raise InputError(
            f"{folder}: holds no parts of 'g2netpl {command}', so --overwrite does not touch it; "
            "choose another --output"
        )
    parts = [each for each in folder.iterdir() if each.name[0] not in "._"]
    for path in parts:
        if not (re.fullmatch(_PART, path.name) and path.is_file()):
            raise InputError(f"{path}: is no part, so --overwrite does not touch the folder")
    (folder / ABOUT).unlink()
    for path in parts:
        path.unlink()
    remove_temporary(folder, ".parquet")


def _check_any_read(made: Made) -> None:
    if made.counts["images"] == len(made.unread) >= _ALL_BAD:
        raise InputError(
            f"none of {len(made.unread):,} images in a row can be read, and the first is "
            f"{made.unread[0]}; is --images the right place, and can it be reached?"
        )


def _read(path: Path) -> dict[str, Any]:
    found = read_json(path)
    if found is None:
        raise InputError(f"{path}: cannot be read; remove the folder, and begin anew")
    return found
