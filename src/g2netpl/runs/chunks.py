"""Tables for any number of images, written in chunks: a Parquet file for each.

    FOLDER/_parts.json           what the results depend on: classifier, thresholds, list of images
    FOLDER/part-000012.parquet   a chunk, complete or absent

A killed process loses the chunk in work; the same command resumes with what is left. Processes of
a launcher share a folder: each makes every n-th chunk. Programs that read a folder of Parquet files
as one table ignore names that begin with `_`.
"""

import hashlib
import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from g2netpl.images.sources import Catalogue, images_at
from g2netpl.labels.io.writing import write_parquet_columns
from g2netpl.labels.table import LabelMatrix
from g2netpl.runs.classifier import OnBatch
from g2netpl.utils.arrays import Scores
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import (
    check_no_links,
    friendly_os_errors,
    old_name,
    read_json,
    write_json,
)

ABOUT = "_parts.json"
FEWEST, MOST = 1 << 10, 10 << 10  # images of a chunk; whole batches, so that scores are the same
_CHUNKS = 1_000  # that a list is cut into, unless they would be too small or too large
_ALL_BAD = 100  # images, all of them unreadable: the folder is probably not there
_LISTED = 10  # images that cannot be read

ScoreEach = Callable[..., Iterator[Scores]]  # as `Classifier.score_each`; NaN if unreadable


class Chunk(NamedTuple):
    """Some neighbouring images of a list."""

    number: int
    images: Sequence[str]  # their names
    known: LabelMatrix | None = None  # their labels


def cut(
    images: Sequence[str], shards: Sequence[int] | None = None, known: LabelMatrix | None = None
) -> list[Chunk]:
    """A list of images in chunks; `shards` says how many images belong together."""
    even = -(-len(images) // _CHUNKS) // 64 * 64
    size = MOST if shards is not None else min(max(FEWEST, even), MOST)
    cuts = [0]
    for together in shards or [len(images)]:
        end = cuts[-1] + together
        cuts += [*range(cuts[-1] + size, end, size), end]
    return [
        Chunk(number, images[start:stop], None if known is None else known[start:stop])
        for number, (start, stop) in enumerate(pairwise(cuts))
    ]


def digest(chunks: Sequence[Chunk]) -> str:
    """SHA-256 of the names, the known labels and the cuts."""
    sha256 = hashlib.sha256()
    for chunk in chunks:
        sha256.update(f"{len(chunk.images)}\0".encode())
        sha256.update("\0".join(chunk.images).encode())
        if chunk.known is not None:
            sha256.update(np.ascontiguousarray(chunk.known).data)
    return sha256.hexdigest()


class ChunkResult(NamedTuple):
    """What was made of a chunk: columns of its file, and numbers that can be summed."""

    number: int
    columns: Mapping[str, Any]
    counts: Mapping[str, int]
    unreadable: Sequence[str]  # images, with why


@dataclass
class Totals:
    """Sums over chunks, and some images that could not be read."""

    counts: Counter[str] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)

    def add(self, result: ChunkResult) -> ChunkResult:
        """Count one more chunk."""
        self.counts.update(result.counts)
        self.unreadable += result.unreadable[: _LISTED - len(self.unreadable)]
        return result

    @property
    def readable(self) -> int:
        """How many images could be read."""
        return self.counts["images"] - self.counts["unread"]


class ChunkMaker(Protocol):
    """Makes a table of each chunk, such as a classifier that scores it."""

    @property
    def kinds(self) -> Mapping[str, str]:
        """The columns, see `labels.io.writing.write_columns`."""
        ...

    @property
    def depends(self) -> Mapping[str, Any]:
        """What the results depend on next to the images, by what people call it."""
        ...

    def make(self, chunks: Iterable[Chunk], on_batch: OnBatch = None) -> Iterator[ChunkResult]:
        """One chunk after the other; they are taken as they are needed."""
        ...


@dataclass(frozen=True)
class ChunkWriter:
    """A folder of chunks that all depend on the same."""

    folder: Path

    @classmethod
    def begin(
        cls, folder: Path, command: str, depends: Mapping[str, Any], overwrite: bool = False
    ) -> "ChunkWriter":
        """Begin in an empty folder, or resume in one that depends on the same."""
        about = json.loads(json.dumps({"format": 1, "command": command, **depends}))
        path = folder / ABOUT
        check_no_links(folder)
        with friendly_os_errors(folder):
            if overwrite and path.exists():
                folder.rename(old_name(folder))
            folder.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                if any(file.name[0] not in "._" for file in folder.iterdir()):
                    raise InputError(f"{folder}: is not empty; choose another --output")
                write_json(path, about)
        before = read_json(path)
        if before is None:
            raise InputError(f"{path}: cannot be read; remove the folder and start again")
        changed = [key for key in about if before.get(key) != about[key]]
        if changed:
            raise InputError(
                f"{folder}: was started with other {', '.join(changed)}; choose another --output, "
                "or start again with --overwrite"
            )
        return cls(folder)

    def has(self, number: int) -> bool:
        """Whether a chunk is complete."""
        return self._path(number).is_file()

    def write(self, result: ChunkResult, kinds: Mapping[str, str]) -> None:
        """Write a chunk: complete or not at all, even if another process writes it too."""
        unreadable = result.unreadable
        if result.counts["images"] == len(unreadable) >= _ALL_BAD:
            raise InputError(
                f"none of {len(unreadable):,} images in a row can be read, and the first is "
                f"{unreadable[0]}; is --images the right place, and can it be reached?"
            )
        with friendly_os_errors(self.folder):
            write_parquet_columns(self._path(result.number), kinds, [result.columns])

    def _path(self, number: int) -> Path:
        return self.folder / f"part-{number:06d}.parquet"


class ImageFinder:
    """Paths of images by their names: as given, or by exact names at an address.

    An image that is not there is unreadable. Another process looks at the address itself.
    """

    def __init__(self, address: str, paths: Mapping[str, str] | None = None) -> None:
        self.address, self.paths = address, paths

    @cached_property
    def images(self) -> Catalogue:
        """All images at the address."""
        return images_at(self.address)

    def __call__(self, names: Sequence[str]) -> list[str]:
        """Their paths."""
        if self.paths is not None:
            return [self.paths[name] for name in names]
        return self.images.find(names, exactly=True).paths

    def missing(self, names: Sequence[str]) -> list[str]:
        """Those that are not there."""
        return [names[row] for row in self.images.find(names, exactly=True).missing]

    def __reduce__(self) -> tuple[Any, ...]:
        return ImageFinder, (self.address, self.paths)


class ScoredChunk(NamedTuple):
    """A chunk, the scores of its images, and those that could not be read."""

    chunk: Chunk
    scores: Scores
    unreadable: list[str]

    def result(self, columns: Mapping[str, Any], **counts: int) -> ChunkResult:
        """With the columns that were made of it, and more counts."""
        counts |= {"images": len(self.scores), "unread": len(self.unreadable)}
        return ChunkResult(self.chunk.number, columns, counts, self.unreadable)


def score_chunks(
    score_each: ScoreEach,
    find: ImageFinder,
    chunks: Iterable[Chunk],
    count: int,
    workers: int,
    on_batch: OnBatch,
) -> Iterator[ScoredChunk]:
    """Scores of one chunk after the other, of `count` images in all."""
    waiting: deque[tuple[Chunk, Sequence[str]]] = deque()

    def lists() -> Iterator[Sequence[str]]:
        for chunk in chunks:
            waiting.append((chunk, find(chunk.images)))
            yield waiting[-1][1]

    for scores in score_each(lists(), count, workers, on_batch=on_batch):
        chunk, paths = waiting.popleft()
        unreadable = np.flatnonzero(np.isnan(scores).any(axis=1)).tolist()
        yield ScoredChunk(chunk, scores, [paths[row] for row in unreadable])
