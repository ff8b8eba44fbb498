"""Several processes that play as one: the same batches, the same labels, the same network.

Every rank knows all rows of a batch and looks at its own share of the images. The predictions of
all ranks are put together, so that both players of every rank see the whole batch, exactly as one
process would: whatever a method does with a batch, it does the same on any number of ranks.
"""

import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as processes
from torch import Tensor

from g2netpl.errors import UserError

Rows = npt.NDArray[np.int64]


class RankLost(UserError):
    """Another process of the team is gone."""

    exit_code = 6


class Team:
    """One process on its own; `Ranks` is the same for several."""

    rank = 0
    size = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.rank == 0

    def shares(self, rows: Rows) -> list[Rows]:
        """The rows of a batch, for each rank; the first ranks have one more where it must be."""
        return np.array_split(rows, self.size) if self.size > 1 else [rows]

    def join(self, mine: Tensor, counts: Sequence[int]) -> Tensor:
        """The rows of all ranks, one rank after the other; the gradient flows through our own."""
        return mine

    def most(self, number: int) -> int:
        """The largest of all ranks' numbers."""
        return number

    def wait(self) -> None:
        """Until all are here."""

    def same(self, number: float) -> float:
        """The first rank's number."""
        return number


class Ranks(Team):
    """This process and its peers, as torchrun or `accelerate launch` started them."""

    def __init__(self) -> None:
        self.rank, self.size = processes.get_rank(), processes.get_world_size()
        self.device = (
            torch.device("cuda", torch.cuda.current_device())
            if processes.get_backend() == "nccl"
            else torch.device("cpu")
        )

    def join(self, mine: Tensor, counts: Sequence[int]) -> Tensor:
        """The rows of all ranks, (Σ counts, …); `mine` may have more rows than count, for nothing.

        A rank without a row passes a dummy, so that its part of the gradient is zero, not missing.
        """
        own = mine[: counts[self.rank]]
        largest = max(*counts, 1)
        sent = torch.zeros((largest, *mine.shape[1:]), dtype=mine.dtype, device=mine.device)
        sent[: len(own)] = own.detach()
        parts = [torch.empty_like(sent) for _ in counts]
        _call(processes.all_gather, parts, sent)
        kept = [part[:count] for part, count in zip(parts, counts, strict=True)]
        kept[self.rank] = own
        joined = torch.cat(kept)
        if mine.requires_grad and not len(own):
            joined = joined + 0.0 * mine.sum()
        return joined

    def most(self, number: int) -> int:
        """The largest of all ranks' numbers."""
        value = torch.tensor(number, device=self.device)
        _call(processes.all_reduce, value, processes.ReduceOp.MAX)
        return int(value)

    def wait(self) -> None:
        """Until all are here."""
        _call(processes.barrier)

    def same(self, number: float) -> float:
        """The first rank's number."""
        value = torch.tensor(number, dtype=torch.float64, device=self.device)
        _call(processes.broadcast, value, 0)
        return float(value)


ALONE = Team()


def find_team() -> Team:
    """The ranks, once they are connected; or this process alone."""
    return Ranks() if processes.is_available() and processes.is_initialized() else ALONE


def launched_rank() -> int:
    """The rank that a launcher gave this process; 0 without one."""
    return int(os.environ.get("RANK", "0"))


def lost_rank(problem: RuntimeError) -> RankLost | None:
    """What an error means where another rank is gone."""
    words = ("gloo", "nccl", "connection closed", "connection reset", "socket timeout", "peer")
    if not any(word in str(problem).lower() for word in words):
        return None
    return _gone(problem)


def _call(function: object, *arguments: object) -> None:
    try:
        function(*arguments)  # type: ignore[operator]
    except RuntimeError as problem:
        raise _gone(problem) from None


def _gone(problem: RuntimeError) -> RankLost:
    return RankLost(
        f"another process of this training is gone ({str(problem).splitlines()[0]}); start the "
        "whole group again with --resume"
    )
