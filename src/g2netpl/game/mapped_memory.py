"""A memory of the label player that is too large for tensors: files in the run folder.

A file holds a generation and is mapped into memory; a checkpoint names the generation and a sum of
what is in it. `MemoryPlace` decides which memories are kept so.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from g2netpl.base.disk import reserve, sync
from g2netpl.base.files import appending, sync_folder
from g2netpl.base.processes import ALONE, Processes
from g2netpl.game.label_memory import LabelMemory, OfRows, State

WIDE = 2 * 1024**3  # bytes of a memory in files up to which a number has four of them
GENERATION = "generation"
_CHUNK = 4096  # rows at a time where all are gone through
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class MappedMemory(LabelMemory):
    """The same in files: `NAME.G` holds generation G, N·L numbers of 4 bytes, or of 2 above 2 GB.

    A sum of what is written is kept on the way, so that a checkpoint need not read it all again.
    The processes map the same files. The first one writes, the others open a generation
    when it is finished: so it may be written on one machine and read on another.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        shape: tuple[int, int],
        start: OfRows | float,
        processes: Processes = ALONE,
    ) -> None:
        self.folder, self.name, self.shape = folder, name, shape
        self.start, self.processes = start, processes
        wide = 4 * math.prod(shape) <= WIDE
        self.dtype = np.dtype(np.float32 if wide else np.float16)
        self.generation = -1  # until the first use: a resume must find the files as they were
        self._sum = Checksum(shape[1])
        self._sums = (0, 0)  # of the generation that is read, and of what is written of the next
        self._visited = torch.zeros(shape[0], dtype=torch.bool)

    @property
    def previous(self) -> Tensor:
        """All rows as the last finished epoch left them. Not to be changed."""
        self._begin()
        return self._previous.float()

    def reader(self) -> OfRows:
        """The rows as the last finished epoch left them, also while others follow."""
        self._begin()
        previous = self._previous
        return lambda rows: previous.index_select(0, rows.cpu()).to(rows.device, torch.float32)

    def write(self, rows: Tensor, latents: Tensor) -> None:
        """Put rows into the epoch in progress; no later step of it may write them again."""
        self._begin()
        here = rows.cpu()
        if self.processes.is_main:
            values = latents.detach().to("cpu", self._next.dtype)
            again = self._visited[here]
            if again.any():  # as if they had not been there before
                self._count(here[again], self._next[here[again]], -1)
            self._count(here, values)
            self._next.index_copy_(0, here, values)
        self._visited[here] = True

    def end_epoch(self) -> None:
        """The epoch in progress becomes the finished one; rows nobody visited are carried over."""
        self._begin()
        if self.processes.is_main:
            missed = torch.nonzero(~self._visited).flatten()
            for rows in missed.split(_CHUNK):  # type: ignore[no-untyped-call]
                values = self._previous[rows]
                self._count(rows, values)
                self._next[rows] = values
            sync(self._path(self.generation + 1))
        self.processes.barrier()
        self._turn(self.generation + 1, self._sums[1])

    def state(self) -> State:
        """The generation, and which rows of the next are written; with sums, on the first rank."""
        self._begin()
        state = {GENERATION: torch.tensor(self.generation), "sum": torch.tensor(self._sums[0])}
        if self._visited.any():
            if self.processes.is_main:
                sync(self._path(self.generation + 1))
            state |= {"visited": self._visited.clone(), "next_sum": torch.tensor(self._sums[1])}
        return state

    def load_state(self, state: State) -> None:
        """Go on from `state`; a file that is not what it was is a ValueError."""
        generation, visited = int(state[GENERATION]), state.get("visited")
        written = 0 if visited is None else int(state["next_sum"])
        if self.processes.is_main:
            self._verify(generation, None, int(state["sum"]))
            if visited is not None:
                self._verify(generation + 1, visited.cpu(), written)
        self._turn(generation, int(state["sum"]))
        if visited is not None:
            self._visited |= visited.cpu()
            self._sums = (self._sums[0], written)

    def _begin(self) -> None:
        """Write generation 0, if this is the first use."""
        if self.generation >= 0:
            return
        total = 0
        if self.processes.is_main:
            self.folder.mkdir(parents=True, exist_ok=True)
            sync_folder(self.folder.parent)
            self._reserve(0)
            first = self._open(0)
            for rows in self._chunks():
                index = torch.arange(rows.start, rows.stop)
                first[rows] = self.start(index) if callable(self.start) else self.start
            sync(self._path(0))
            total = self._sum_of(first, None)
        self.processes.barrier()
        self._turn(0, total)

    def _turn(self, generation: int, total: int) -> None:
        """Read `generation`, which is on the disk with the sum `total`, and write the next."""
        self._previous = self._open(generation)
        if self.processes.is_main:
            self._reserve(generation + 1)
            self._next = self._open(generation + 1)
        self.generation, self._sums = generation, (total, 0)
        self._visited = torch.zeros(self.shape[0], dtype=torch.bool)

    def _path(self, generation: int) -> Path:
        return self.folder / f"{self.name}.{generation}"

    @property
    def _size(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def _reserve(self, generation: int) -> None:
        """Make the file with all its space, so that a full disk is an error and not a crash."""
        path = self._path(generation)
        with appending(path) as file:
            try:
                reserve(file.fileno(), self._size)
            except OSError as problem:
                problem.filename = str(path)
                raise
        sync_folder(self.folder)

    def _open(self, generation: int) -> Tensor:
        path = self._path(generation)
        if not path.is_file() or path.stat().st_size != self._size:
            raise ValueError(f"{path} is missing or has another size")
        if not self._size:
            return torch.zeros(self.shape)
        return torch.from_numpy(np.memmap(path, self.dtype, "r+", shape=self.shape))

    def _count(self, rows: Tensor, values: Tensor, sign: int = 1) -> None:
        total = self._sums[1] + sign * self._sum.of(rows.numpy(), values.numpy())
        self._sums = (self._sums[0], _wrapped(total))

    def _sum_of(self, values: Tensor, visited: Tensor | None) -> int:
        """The sum of all rows, or of the visited ones."""
        total = 0
        for rows in self._chunks():
            chosen = torch.arange(rows.start, rows.stop)
            if visited is not None:
                chosen = chosen[visited[rows]]
            total += self._sum.of(chosen.numpy(), values[chosen].numpy())
        return _wrapped(total)

    def _verify(self, generation: int, visited: Tensor | None, total: int) -> None:
        if self._sum_of(self._open(generation), visited) != total:
            raise ValueError(f"{self._path(generation)} is damaged")

    def _chunks(self) -> Iterator[slice]:
        for start in range(0, self.shape[0], _CHUNK):
            yield slice(start, min(start + _CHUNK, self.shape[0]))


@dataclass(frozen=True)
class MemoryPlace:
    """Where label memories are kept: in RAM, or those above `limit` bytes as files in `folder`."""

    folder: Path | None = None
    limit: int = 512 * 1024**2
    processes: Processes = ALONE

    def memory(
        self, name: str, shape: tuple[int, int], start: OfRows | float, device: torch.device
    ) -> LabelMemory:
        """A memory that starts with one value, or with those of the rows, asked for in order."""
        if self.folder is not None and 4 * math.prod(shape) > self.limit:
            return MappedMemory(self.folder, name, shape, start, self.processes)
        if callable(start):
            return LabelMemory(start(torch.arange(shape[0])).to(device))
        return LabelMemory(torch.full(shape, start, device=device))


IN_RAM = MemoryPlace()


class Checksum:
    """A 64-bit sum over rows of numbers that changes with any bit of any row, in any order."""

    def __init__(self, width: int) -> None:
        factors = np.random.default_rng(0x7375).integers(2**63, size=width, dtype=np.uint64)
        self._factors = 2 * factors + np.uint64(1)  # odd: no bit is ever lost

    def of(self, rows: npt.NDArray[np.int64], values: npt.NDArray[Any]) -> int:
        """The sum over these rows; those of disjoint sets of rows add up."""
        bits = np.ascontiguousarray(values).view(f"u{values.itemsize}")
        places = (2 * rows.astype(np.uint64) + np.uint64(1)) * _GOLDEN
        sums = np.einsum("ij,j->i", bits, self._factors, dtype=np.uint64)
        return int((places * sums).sum(dtype=np.uint64))


def _wrapped(total: int) -> int:
    """As a signed 64-bit number, which a tensor can hold."""
    return (total + 2**63) % 2**64 - 2**63


def generation_of(state: State) -> int | None:
    """The generation of the files that a player's state counts on; None without files."""
    numbers = [int(v) for k, v in state.items() if k.rpartition(".")[2] == GENERATION]
    return min(numbers, default=None)


def drop_generations(folder: Path, before: int) -> None:
    """Remove the files of earlier generations than `before`, which nobody needs any more."""
    for path in folder.glob("*.*"):
        number = path.suffix[1:]
        if number.isdecimal() and int(number) < before:
            with suppress(PermissionError):  # on Windows, while somebody reads there: next time
                path.unlink(missing_ok=True)
