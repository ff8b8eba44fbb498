"""Tables for any number of images, written in chunks: a Parquet file for each.

    FOLDER/_parts.json           what the results depend on: classifier, thresholds, list of images
    FOLDER/part-000012.parquet   a chunk, complete or absent

A killed process loses the chunk in work; the same command resumes with what is left. Processes of
a launcher share a folder: each makes every n-th chunk. Ray hands chunks to actors, restarts those
that died and gives them the chunk again; images and folder must be available on every machine.
Programs that read a folder of Parquet files as one table ignore names that begin with `_`.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from g2netpl.images.features import OnBatch
from g2netpl.images.sources import images_at
from g2netpl.labels.io.writing import write_parquet_columns
from g2netpl.labels.table import LabelMatrix
from g2netpl.runs.bundle import is_bundle, load_bundle
from g2netpl.runs.classifier import Classifier
from g2netpl.runs.prior import read_scores
from g2netpl.runs.run import Run, load_run
from g2netpl.runs.thresholds import Thresholds
from g2netpl.utils import launch as launched
from g2netpl.utils.arrays import Scores, first_line
from g2netpl.utils.errors import InputError, UserError
from g2netpl.utils.files import (
    check_no_links,
    friendly_os_errors,
    old_name,
    read_json,
    write_json,
)

ABOUT = "_parts.json"
SIZE = 2048  # images of a chunk; whole batches, so that scores are the same
_ALL_BAD = 100  # images, all of them unreadable: the folder is probably not there


class Chunk(NamedTuple):
    """Some neighbouring images of a list."""

    number: int
    images: Sequence[str]  # their names
    known: LabelMatrix | None = None  # their labels


def cut(
    images: Sequence[str], shards: Sequence[int] | None = None, known: LabelMatrix | None = None
) -> list[Chunk]:
    """A list of images in chunks; `shards` says how many images belong together."""
    cuts = [0]
    for together in shards or [len(images)]:
        end = cuts[-1] + together
        cuts += [*range(cuts[-1] + SIZE, end, SIZE), end]
    return [
        Chunk(number, images[start:stop], None if known is None else known[start:stop])
        for number, (start, stop) in enumerate(pairwise(cuts))
    ]


def digest(chunks: Sequence[Chunk]) -> str:
    """SHA-256 of the names, the known labels and the cuts."""
    sha256 = hashlib.sha256()
    for chunk in chunks:
        sha256.update(f"{len(chunk.images)}\0".encode() + "\0".join(chunk.images).encode())
        if chunk.known is not None:
            sha256.update(np.ascontiguousarray(chunk.known).data)
    return sha256.hexdigest()


class ChunkResult(NamedTuple):
    """What was made of a chunk: columns of its file, and numbers that can be summed."""

    number: int
    columns: Mapping[str, Any]
    counts: Mapping[str, int]
    unreadable: Sequence[str]  # paths of images


catalogue = lru_cache(maxsize=1)(images_at)  # the images at an address are listed once


def load_classifier(
    name: str, device: str = "cpu", prior: str | None = None, images: str = ""
) -> Classifier:
    """A bundle, or the run in a folder; `auto` uses a GPU if there is one.

    `prior` is a file with the scores of `images`, for a run that was trained with one.
    """
    if prior is not None and (is_bundle(name) or Run.open(name).prior_kind != "scores"):
        raise InputError(f"--prior: {name} was not trained with a file of scores; leave it out")
    if is_bundle(name):
        return load_bundle(name)
    run = load_run(name)
    if prior is not None:
        run = replace(run, prior=replace(read_scores(prior, run.classes), root=images))
    if device == "auto":
        run.model.to(launched.device_of(device))
    return run


@dataclass(frozen=True, kw_only=True)
class ChunkMaker(ABC):
    """Makes a table of each chunk by a classifier, which every process loads for itself."""

    name: str  # of a run or a bundle
    images: str  # where they are; one that is not there is unreadable
    count: int  # of all images
    workers: int = 0
    device: str = "cpu"
    prior: str | None = None

    @cached_property
    def classifier(self) -> Classifier:
        """The run or the bundle."""
        return load_classifier(self.name, self.device, self.prior, self.images)

    @property
    @abstractmethod
    def thresholds(self) -> Thresholds:
        """What decides labels."""

    @property
    @abstractmethod
    def kinds(self) -> Mapping[str, str]:
        """The columns, see `labels.io.writing.write_columns`."""

    @property
    def depends(self) -> dict[str, Any]:
        """What the results depend on next to the images, by what people call it."""
        return {
            "classifier": self.classifier.digest,
            "thresholds": self.thresholds.to_json(),
            "columns": [*self.kinds],
        }

    @abstractmethod
    def columns(self, chunk: Chunk, scores: Scores) -> tuple[dict[str, Any], dict[str, int]]:
        """The columns of a chunk, and numbers that can be summed."""

    def make(self, chunk: Chunk, on_batch: OnBatch = None) -> ChunkResult:
        """The table of a chunk."""
        paths = catalogue(self.images).find(chunk.images, exactly=True).paths
        scores = self.classifier.score(paths, self.workers, on_batch=on_batch, count=self.count)
        unreadable = [paths[row] for row in np.flatnonzero(np.isnan(scores).any(axis=1))]
        columns, counts = self.columns(chunk, scores)
        counts |= {"images": len(paths), "readable": len(paths) - len(unreadable)}
        return ChunkResult(chunk.number, columns, counts, unreadable)


@dataclass(frozen=True)
class ChunkWriter:
    """A folder of chunks that all depend on the same."""

    folder: Path

    @classmethod
    def begin(
        cls, folder: Path, command: str, depends: Mapping[str, Any], overwrite: bool = False
    ) -> "ChunkWriter":
        """Begin in an empty folder, or resume in one that depends on the same."""
        about = json.loads(json.dumps({"format": 1, "command": command, **depends}))  # no tuples
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
        before = read_json(path) or {}
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


class _Worker:
    """What a process of Ray does with a chunk."""

    def __init__(self, writer: ChunkWriter, maker: ChunkMaker) -> None:
        self.writer, self.maker = writer, maker

    def make(self, chunk: Chunk) -> ChunkResult:
        """Make a chunk and write it; only the numbers are sent back."""
        result = self.maker.make(chunk)
        self.writer.write(result, self.maker.kinds)
        return result._replace(columns={})


def make_on_ray(
    writer: ChunkWriter, maker: ChunkMaker, chunks: Sequence[Chunk]
) -> Iterator[ChunkResult]:
    """Make chunks on the cluster of RAY_ADDRESS, or on the cores of this machine."""
    import ray
    from ray.util import ActorPool

    ray.init(ignore_reinit_error=True, log_to_driver=False, logging_level="ERROR")
    resources = ray.cluster_resources()
    kind = "GPU" if resources.get("GPU") else "CPU"
    count = min(max(1, int(resources.get(kind, 1))), len(chunks))
    actor: Any = ray.remote(max_restarts=-1, max_task_retries=-1, **{f"num_{kind.lower()}s": 1})
    # a copy of the maker: without the classifier, which the actors load
    actors = [actor(_Worker).remote(writer, replace(maker)) for _ in range(count)]
    try:
        yield from ActorPool(actors).map_unordered(
            lambda worker, chunk: worker.make.remote(chunk), chunks
        )
    except ray.exceptions.RayError as problem:
        raise _user_error(problem) from None
    finally:
        ray.shutdown()


def _user_error(problem: Exception) -> UserError:
    """A user's mistake as a worker raised it, or what Ray reports, in a line."""
    cause: Any = problem
    while cause is not None:
        if isinstance(cause, UserError):
            return cause
        cause = getattr(cause, "cause", None) or cause.__cause__
    return UserError(f"ray: {first_line(problem)}; run the same command again to resume")
