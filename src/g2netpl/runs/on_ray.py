"""Chunks of images on a Ray cluster: the same files as `chunks` makes in one process.

Ray Data hands out the chunks, and hands those of a worker that died to another. Each worker holds
a maker and writes its chunks itself, so images and folder must be available on every machine.
"""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from g2netpl.runs.chunks import Chunk, ChunkMaker, ChunkResult, ChunkWriter
from g2netpl.utils.errors import UserError

_LISTED = 10  # images that cannot be read, of each chunk


class RayTrouble(UserError):
    """Ray could not do it."""


@dataclass
class _Worker:
    """What a process of Ray does with a chunk."""

    writer: ChunkWriter
    build: Callable[[], ChunkMaker]

    def __post_init__(self) -> None:
        self.maker = self.build()

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """Make a chunk and write it; only the numbers are sent back."""
        number, images, known = json.loads(batch["chunk"][0])
        labels = None
        if known is not None:
            labels = np.frombuffer(bytes.fromhex(known), np.int8).reshape(len(images), -1)
        (result,) = self.maker.make([Chunk(number, images, labels)])
        self.writer.write(result, self.maker.kinds)
        sent = result.number, dict(result.counts), list(result.unreadable[:_LISTED])
        return {"result": [json.dumps(sent)]}


def make_on_ray(
    writer: ChunkWriter, build: Callable[[], ChunkMaker], chunks: Sequence[Chunk]
) -> Iterator[ChunkResult]:
    """Make chunks on the cluster of RAY_ADDRESS, or on the cores of this machine."""
    import ray
    import ray.data

    is_ours = not ray.is_initialized()
    if is_ours:
        ray.init(log_to_driver=False, logging_level="ERROR")
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        resources = ray.cluster_resources()
        workers = max(1, int(resources.get("GPU", 0) or resources.get("CPU", 1)))
        data = ray.data.from_items(
            [{"chunk": _text(chunk)} for chunk in chunks], override_num_blocks=len(chunks)
        ).map_batches(
            _Worker,
            fn_constructor_args=(writer, build),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=min(workers, len(chunks))),
            **({"num_gpus": 1} if resources.get("GPU") else {"num_cpus": 1}),
        )
        for row in data.iter_rows():
            number, counts, unreadable = json.loads(row["result"])
            yield ChunkResult(number, {}, counts, unreadable)
    except ray.exceptions.RayError as problem:
        raise _user_error(problem) from None
    finally:
        if is_ours:
            ray.shutdown()


def _text(chunk: Chunk) -> str:
    """A chunk on its way to a worker."""
    known = None if chunk.known is None else chunk.known.tobytes().hex()
    return json.dumps([chunk.number, list(chunk.images), known])


def _user_error(problem: BaseException) -> UserError:
    """A user's mistake as a worker raised it, or what Ray says, in a line."""
    cause: Any = problem
    while cause is not None:
        if isinstance(cause, UserError):
            return cause
        cause = getattr(cause, "cause", None) or cause.__cause__
    lines = str(problem).strip().splitlines() or [type(problem).__name__]
    return RayTrouble(f"ray: {lines[-1][:300]}; run the same command again to resume")
