"""Blocks of images on a cluster of Ray: the same files as `parts` makes in one process.

Ray Data hands out the blocks and gives those of a worker that died to another one. Each worker
holds a maker of its own and writes its blocks itself, so images and folder must be there on every
machine. Needs ray[data], the extra `ray`.
"""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from g2netpl.runs.parts import Block, Blocks, Made, Maker, Parts
from g2netpl.utils.errors import UserError

_TOLD = 10  # images that cannot be read, of each block


class RayTrouble(UserError):
    """Ray could not do it."""


@dataclass
class _Worker:
    """What a process of Ray does with a block."""

    parts: Parts
    build: Callable[[], Maker]

    def __post_init__(self) -> None:
        self.maker = self.build()

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """Make a block and write it; of what was made only the numbers travel."""
        (text,) = batch["block"]
        (made,) = self.maker.make([_block(text)])
        self.parts.write(made, self.maker.kinds)
        told = (made.number, dict(made.counts), list(made.unread[:_TOLD]))
        return {"made": [json.dumps(told)]}


def make_on_ray(
    parts: Parts,
    build: Callable[[], Maker],
    blocks: Blocks,
    numbers: Sequence[int],
) -> Iterator[Made]:
    """Make some blocks on the cluster of RAY_ADDRESS, or on one of this machine's cores."""
    import ray
    import ray.data

    ours = not ray.is_initialized()
    if ours:
        ray.init(log_to_driver=False, logging_level="ERROR")
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        resources = ray.cluster_resources()
        workers = max(1, int(resources.get("GPU", 0) or resources.get("CPU", 1)))
        data = ray.data.from_items(
            [{"block": _text(blocks[number])} for number in numbers],
            override_num_blocks=len(numbers),
        ).map_batches(
            _Worker,
            fn_constructor_args=(parts, build),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=min(workers, len(numbers))),
            **({"num_gpus": 1} if resources.get("GPU") else {"num_cpus": 1}),
        )
        for row in data.iter_rows():
            number, counts, unread = json.loads(row["made"])
            yield Made(number, {}, counts, unread)
    except ray.exceptions.RayError as problem:
        raise _told(problem) from None
    finally:
        if ours:
            ray.shutdown()


def _text(block: Block) -> str:
    """A block on its way to a worker."""
    known = None if block.known is None else block.known.tobytes().hex()
    return json.dumps([block.number, list(block.images), known])


def _block(text: str) -> Block:
    """What came there."""
    number, images, known = json.loads(text)
    if known is None:
        return Block(number, images)
    labels = np.frombuffer(bytes.fromhex(known), dtype=np.int8)
    return Block(number, images, labels.reshape(len(images), -1))


def _told(problem: BaseException) -> UserError:
    """A user's mistake as it was told in a worker, or what Ray says, in a line."""
    cause: Any = problem
    while cause is not None:
        if isinstance(cause, UserError):
            return cause
        cause = getattr(cause, "cause", None) or cause.__cause__
    lines = str(problem).strip().splitlines() or [type(problem).__name__]
    return RayTrouble(f"ray: {lines[-1][:300]}; run the same command again, it goes on")
