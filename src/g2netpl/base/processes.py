"""Several processes that play as one: the same batches, the same labels, the same network.

Every rank knows all rows of a batch and looks at its own share of the images. The predictions of
all ranks are put together, so that both players of every rank see the whole batch, exactly as one
process would: whatever a method does with a batch, it does the same on any number of ranks.

Ranks exchange words, small ones over a group of their own that lives in main memory, and tensors,
on the device they are on. Every exchange begins with a word that says whether all is well. A rank
that fails says so instead, wherever the others are, and all end with its words and its exit code.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, distributed

from g2netpl.base import launch as launched
from g2netpl.base.errors import InputError, UserError
from g2netpl.base.signals import Interrupts, Stopped

Rows = npt.NDArray[np.int64]

_TENSORS = timedelta(minutes=10)  # a step, or the start of a process
_WORDS = timedelta(hours=2)  # what one rank may do alone, such as writing files
_FAREWELL, _HASTE = timedelta(seconds=30), timedelta(seconds=2)
_INTERRUPTED, _BUG = 130, 70
_BYTES = "surrogateescape"  # of paths that are not UTF-8

Kind = Literal["all_max", "broadcast", "barrier", "gather_text", "all_gather"]


class RankLost(UserError):
    """Another of the processes is gone."""

    exit_code = 6


class Ended(UserError):
    """Another rank has failed, and said how."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class Processes:
    """One process on its own; `Ranks` is the same for several."""

    rank = 0
    size = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.rank == 0

    def shares(self, rows: Rows) -> list[Rows]:
        """The rows of a batch, for each rank; the first ranks have one more where it must be."""
        return np.array_split(rows, self.size) if self.size > 1 else [rows]

    def all_gather(self, mine: Tensor, counts: Sequence[int]) -> Tensor:
        """The rows of all ranks, one rank after the other; the gradient flows through our own."""
        return mine

    def all_reduce_mean(self, tensors: Iterable[Tensor]) -> None:
        """Make each of these tensors the mean over all ranks, in place."""

    def all_max(self, number: int) -> int:
        """The largest of all ranks' numbers."""
        return number

    def broadcast(self, number: float) -> float:
        """The first rank's number."""
        return number

    def gather_text(self, text: str) -> list[str]:
        """What each rank has to say."""
        return [text]

    def barrier(self) -> None:
        """Until all are here."""

    @contextmanager
    def together(self) -> Iterator[None]:
        """Inside, what ends one rank ends all, with the same words and the same exit code."""
        yield


class Ranks(Processes):
    """This process and its peers, once they are connected."""

    def __init__(self, interrupts: Interrupts) -> None:
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()
        self.interrupts = interrupts
        self._words: Any = distributed.new_group(backend="gloo", timeout=_WORDS)
        self._is_over = False

    def all_gather(self, mine: Tensor, counts: Sequence[int]) -> Tensor:
        """The rows of all ranks, (Σ counts, …); `mine` may have more rows than count, for nothing.

        So a rank without a row has a gradient too, of zero.
        """
        own = mine[: counts[self.rank]]
        largest = max(*counts, 1)
        sent = torch.zeros((largest, *mine.shape[1:]), dtype=mine.dtype, device=mine.device)
        sent[: len(own)] = own.detach()
        with self._exchange("all_gather"):
            parts = self._gather(sent)
        kept = [part[:count] for part, count in zip(parts, counts, strict=True)]
        kept[self.rank] = own
        return torch.cat(kept)

    def all_reduce_mean(self, tensors: Iterable[Tensor]) -> None:
        """Make each of these tensors the mean over all ranks, in place. Not a place to fail at."""
        tensors = list(tensors)
        if not tensors:
            return
        flat = torch.cat([tensor.detach().float().flatten() for tensor in tensors])
        with _peers_there():
            distributed.all_reduce(flat)
        means = torch.split(flat / self.size, [tensor.numel() for tensor in tensors])
        for tensor, mean in zip(tensors, means, strict=True):
            tensor.copy_(mean.view_as(tensor))

    def all_max(self, number: int) -> int:
        """The largest of all ranks' numbers."""
        with self._exchange("all_max", number) as numbers:
            return int(max(numbers))

    def broadcast(self, number: float) -> float:
        """The first rank's number."""
        with self._exchange("broadcast", number) as numbers:
            return numbers[0]

    def gather_text(self, text: str) -> list[str]:
        """What each rank has to say."""
        content = text.encode("utf-8", _BYTES)
        with self._exchange("gather_text", len(content)) as lengths:
            return self._texts(content, [int(length) for length in lengths])

    def barrier(self) -> None:
        """Until all are here."""
        with self._exchange("barrier"):
            pass

    @contextmanager
    def together(self) -> Iterator[None]:
        """Inside, what ends one rank ends all, with the same words and the same exit code."""
        try:
            yield
        except RankLost:
            raise
        except BaseException as problem:
            if _is_loss(problem):
                raise _loss(problem) from None
            with self.interrupts.noted():
                if not self._is_over:
                    self._leave(problem)
                if isinstance(problem, UserError | Stopped):
                    problem.said = self._is_over and not self.is_main
                raise

    @contextmanager
    def _exchange(self, kind: Kind, number: float = 0.0) -> Iterator[list[float]]:
        """Hear everybody's number, then do the rest of an exchange; no signal comes between.

        Where a rank has failed, that is raised here.
        """
        with self.interrupts.noted():
            heard = self._say(0, get_args(Kind).index(kind), number)
            if any(code for code, _, _ in heard):
                raise self._hear(heard, b"")
            if len({which for _, which, _ in heard}) > 1:
                raise RuntimeError(f"the ranks are out of step at {kind!r}: {heard}")
            yield [number for _, _, number in heard]

    def _say(
        self, code: float, kind: float, number: float, limit: timedelta | None = None
    ) -> list[list[float]]:
        words = torch.tensor([code, kind, number], dtype=torch.float64)
        return [word.tolist() for word in self._gather(words, self._words, limit)]

    def _leave(self, problem: BaseException) -> None:
        """Tell the others why we end. Where several do, the first rank's reason is everybody's."""
        is_told = isinstance(problem, UserError | Stopped)
        text = str(problem) if is_told else f"rank {self.rank}: {type(problem).__name__}: {problem}"
        code, content = _exit_code(problem), text.encode("utf-8", _BYTES)
        limit = _HASTE if code == _INTERRUPTED else _FAREWELL
        try:
            reason = self._hear(self._say(code, -1, len(content), limit), content)
        except (RankLost, RuntimeError):
            return  # the others are gone, or do not listen: they will notice that we are gone
        if is_told:
            reason.said = not self.is_main
            raise reason from None

    def _hear(self, heard: list[list[float]], content: bytes) -> Ended | Stopped:
        """The reason of the first rank that has one."""
        self._is_over = True
        lengths = [int(length) if code else 0 for code, _, length in heard]
        texts = self._texts(content, lengths)
        code, text = next(
            (int(code), text) for (code, _, _), text in zip(heard, texts, strict=True) if code
        )
        return Stopped(text) if code == Stopped.exit_code else Ended(text, code)

    def _texts(self, content: bytes, lengths: Sequence[int]) -> list[str]:
        sent = torch.zeros(max(*lengths, 1), dtype=torch.uint8)
        if content:
            sent[: len(content)] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        received = self._gather(sent, self._words)
        return [
            part[:length].numpy().tobytes().decode("utf-8", _BYTES)
            for part, length in zip(received, lengths, strict=True)
        ]

    def _gather(
        self,
        sent: Tensor,
        group: Any = None,
        limit: timedelta | None = None,
    ) -> list[Tensor]:
        """A tensor of one shape from every rank."""
        parts = [torch.empty_like(sent) for _ in range(self.size)]
        with _peers_there():
            work = distributed.all_gather(parts, sent, group=group, async_op=True)
            work.wait() if limit is None else work.wait(limit)
        return parts


ALONE = Processes()


def connect(cpu: bool, interrupts: Interrupts) -> Processes:
    """This process alone; or the ranks of a launch, connected."""
    launched.check()
    connected = distributed.is_available() and distributed.is_initialized()
    if launched.size() == 1 and not connected:
        return ALONE
    with interrupts.noted(), _peers_there("could not be reached"):
        if not connected:
            _meet(cpu or not torch.accelerator.is_available())
        return Ranks(interrupts)


def _meet(cpu: bool) -> None:
    from accelerate import PartialState

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "OMP_NUM_THREADS")
        PartialState(cpu=cpu, timeout=_TENSORS)
    if not distributed.is_initialized():
        raise InputError(
            f"several processes cannot train on {torch.accelerator.current_accelerator()} "
            "together; use --device cpu"
        )


def disconnect() -> None:
    """The last thing that ranks do."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


@contextmanager
def _peers_there(what: str = "is gone") -> Iterator[None]:
    """An error of the connection means that a rank is not there."""
    try:
        yield
    except RuntimeError as problem:
        raise _loss(problem, what) from None


def _is_loss(problem: BaseException) -> bool:
    """Whether an error of torch comes from the connection between ranks."""
    return isinstance(problem, distributed.DistError) or (
        isinstance(problem, RuntimeError)
        and any(word in str(problem).lower() for word in ("gloo", "nccl"))
    )


def _exit_code(problem: BaseException) -> int:
    if isinstance(problem, UserError | Stopped):
        return problem.exit_code
    return _INTERRUPTED if isinstance(problem, KeyboardInterrupt) else _BUG


def _loss(problem: BaseException, what: str = "is gone") -> RankLost:
    first = (str(problem).splitlines() or [type(problem).__name__])[0]
    return RankLost(
        f"another process of this training {what} ({first}); start the whole group again, with "
        "--resume if the run had begun"
    )
