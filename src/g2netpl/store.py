"""The memory of the label player: one row of latents per training image, in generations.

An epoch reads the generation of the epoch before and writes the next one, so what a row held at
the start of the epoch does not depend on what was visited since: an epoch that is begun again, or
taken up in the middle, gives the same answer again.

Small stores are tensors, which a checkpoint copies. Large ones are files in the run folder, a file
per generation, mapped into memory; a checkpoint names the generation and a digest of it.
"""

import hashlib
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from g2netpl.teams import ALONE, Team

State = dict[str, Tensor]

_KEPT = 4  # generations on disk: those of the last three checkpoints, and the one in progress
_CHUNK = 4096  # rows at a time where all are gone through


class LabelStore:
    """Latents (N, L), float32; `read` sees the last finished epoch, `write` the one in progress."""

    def __init__(self, start: Tensor) -> None:
        self._previous = start.to(torch.float32).clone()
        self._next = torch.empty_like(self._previous)
        self._visited = torch.zeros(len(start), dtype=torch.bool, device=start.device)

    @property
    def previous(self) -> Tensor:
        """All rows as the last finished epoch left them. Not to be changed."""
        return self._previous

    def read(self, rows: Tensor) -> Tensor:
        """The rows as the last finished epoch left them."""
        return self._previous.index_select(0, rows)

    def write(self, rows: Tensor, latents: Tensor) -> None:
        """Put rows into the epoch in progress."""
        self._next.index_copy_(0, rows, latents)
        self._visited[rows] = True

    def end_epoch(self) -> None:
        """The epoch in progress becomes the finished one; rows nobody visited are carried over."""
        missed = ~self._visited
        if missed.any():
            self._next[missed] = self._previous[missed]
        # a new tensor, since a checkpoint may still be writing the old one
        self._previous, self._next = self._next, torch.empty_like(self._next)
        self._visited = torch.zeros_like(self._visited)

    def state(self) -> State:
        """The finished generation, and of the one in progress what has been written."""
        state = {"latents": self._previous}
        if self._visited.any():
            state |= {"next": self._next.clone(), "visited": self._visited.clone()}
        return state

    def load_state(self, state: State) -> None:
        """Go on from `state`."""
        self._previous = state["latents"].to(self._previous, copy=True)
        self._visited = torch.zeros_like(self._visited)
        if "visited" in state:
            self._next = state["next"].to(self._previous, copy=True)
            self._visited |= state["visited"].to(self._visited.device)


class MappedStore(LabelStore):
    """The same in files: `NAME.G` holds generation G, N·L numbers of 4 bytes, or of 2 above 2 GB.

    The processes of a team map the same files. The first one writes, the others open a generation
    when it is finished: so it may be written on one machine and read on another.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        shape: tuple[int, int],
        start: Tensor | float,
        team: Team = ALONE,
    ) -> None:
        self.folder, self.name, self.shape, self.start, self.team = folder, name, shape, start, team
        wide = 4 * math.prod(shape) <= 2 * 1024**3
        self.dtype = np.dtype(np.float32 if wide else np.float16)
        self.generation = -1  # until the first use: a resume must find the files as they were
        self._digest: tuple[int, bytes] | None = None
        self._visited = torch.zeros(shape[0], dtype=torch.bool)

    @property
    def previous(self) -> Tensor:
        """All rows as the last finished epoch left them. Not to be changed."""
        if self.generation < 0:
            self._begin()
        return self._previous

    def read(self, rows: Tensor) -> Tensor:
        """The rows as the last finished epoch left them."""
        return self.previous.index_select(0, rows.cpu()).to(rows.device, torch.float32)

    def write(self, rows: Tensor, latents: Tensor) -> None:
        """Put rows into the epoch in progress."""
        here = rows.cpu()
        if self.team.leads:
            self._next.index_copy_(0, here, latents.to("cpu", self._next.dtype))
        self._visited[here] = True

    def end_epoch(self) -> None:
        """The epoch in progress becomes the finished one; rows nobody visited are carried over."""
        before = self.previous
        if self.team.leads:
            missed = torch.nonzero(~self._visited).flatten()
            for rows in missed.split(_CHUNK):  # type: ignore[no-untyped-call]
                self._next[rows] = before[rows]
            self._flush(self.generation + 1)
        self.team.wait()
        self._turn(self.generation + 1)
        if self.team.leads:
            for path in self.folder.glob(f"{self.name}.*"):
                if int(path.suffix[1:]) <= self.generation + 1 - _KEPT:
                    path.unlink(missing_ok=True)

    def state(self) -> State:
        """The generation, and which rows of the next are written; with digests of both.

        Only what the first process of a team says is complete.
        """
        before = self.previous
        if not self.team.leads:
            return {}
        self._flush(self.generation + 1)
        if self._digest is None or self._digest[0] != self.generation:
            self._digest = (self.generation, self._hash(before, None))
        state = {"generation": torch.tensor(self.generation), "digest": _bytes(self._digest[1])}
        if self._visited.any():
            digest = self._hash(self._next, self._visited)
            state |= {"visited": self._visited.clone(), "next_digest": _bytes(digest)}
        return state

    def load_state(self, state: State) -> None:
        """Go on from `state`; a file that is not what it was is a ValueError."""
        generation, visited = int(state["generation"]), state.get("visited")
        if self.team.leads:
            digest = self._hash(self._open(generation), None)
            if not _bytes(digest).equal(state["digest"].cpu()):
                raise ValueError(f"{self._path(generation)} is damaged")
            if visited is not None:
                written = self._hash(self._open(generation + 1), visited.cpu())
                if not _bytes(written).equal(state["next_digest"].cpu()):
                    raise ValueError(f"{self._path(generation + 1)} is damaged")
            self._digest = (generation, digest)
        self._turn(generation)
        if visited is not None:
            self._visited |= visited.cpu()

    def _begin(self) -> None:
        """Write generation 0."""
        if self.team.leads:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._reserve(0)
            first = self._open(0)
            for rows in self._chunks():
                start = self.start
                first[rows] = start[rows].to(first.dtype) if isinstance(start, Tensor) else start
            self._flush(0)
        self.team.wait()
        self._turn(0)

    def _turn(self, generation: int) -> None:
        """Read `generation`, which is on the disk, from here on, and write the next."""
        self._previous, self.generation = self._open(generation), generation
        if self.team.leads:
            self._reserve(generation + 1)
            self._next = self._open(generation + 1)
        self._visited = torch.zeros(self.shape[0], dtype=torch.bool)

    def _path(self, generation: int) -> Path:
        return self.folder / f"{self.name}.{generation}"

    @property
    def _size(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def _reserve(self, generation: int) -> None:
        """Make the file with all its space, so that a full disk is an error and not a crash."""
        with open(self._path(generation), "ab") as file:
            os.truncate(file.fileno(), self._size)
            if hasattr(os, "posix_fallocate") and self._size:
                os.posix_fallocate(file.fileno(), 0, self._size)

    def _open(self, generation: int) -> Tensor:
        path = self._path(generation)
        if not path.is_file() or path.stat().st_size != self._size:
            raise ValueError(f"{path} is missing or has another size")
        if not self._size:
            return torch.zeros(self.shape)
        return torch.from_numpy(np.memmap(path, self.dtype, "r+", shape=self.shape))

    def _flush(self, generation: int) -> None:
        descriptor = os.open(self._path(generation), os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _hash(self, values: Tensor, visited: Tensor | None) -> bytes:
        """SHA-256 of all rows, or of the visited ones, in their order."""
        digest = hashlib.sha256()
        for rows in self._chunks():
            block = values[rows] if visited is None else values[rows][visited[rows]]
            digest.update(block.contiguous().numpy().data)
        return digest.digest()

    def _chunks(self) -> Iterator[slice]:
        for start in range(0, self.shape[0], _CHUNK):
            yield slice(start, min(start + _CHUNK, self.shape[0]))


@dataclass(frozen=True)
class Shelf:
    """Where stores are kept: in memory, or those above `limit` bytes as files in `folder`."""

    folder: Path | None = None
    limit: int = 512 * 1024**2
    team: Team = ALONE

    def store(
        self, name: str, shape: tuple[int, int], start: Tensor | float, device: torch.device
    ) -> LabelStore:
        """A store that starts with one value, or with one per entry."""
        if self.folder is not None and 4 * math.prod(shape) > self.limit:
            return MappedStore(self.folder, name, shape, start, self.team)
        if not isinstance(start, Tensor):
            start = torch.full(shape, start, device=device)
        return LabelStore(start.to(device))


IN_MEMORY = Shelf()


def join_states(stores: Mapping[str, LabelStore]) -> State:
    """The states of several stores as one, under `NAME.KEY`."""
    return {
        f"{name}.{key}": value
        for name, store in stores.items()
        for key, value in store.state().items()
    }


def load_states(stores: Mapping[str, LabelStore], state: State) -> None:
    """Give each store its part of a joint state back."""
    for name, store in stores.items():
        start = f"{name}."
        store.load_state(
            {k.removeprefix(start): v for k, v in state.items() if k.startswith(start)}
        )


def _bytes(digest: bytes) -> Tensor:
    return torch.tensor(list(digest), dtype=torch.uint8)
