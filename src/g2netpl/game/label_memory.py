"""The memory of the label player: one row of latents per training image, in generations.

An epoch reads the generation of the epoch before and writes the next one, so what a row held at
the start of the epoch does not depend on what was visited since: an epoch that is begun again, or
taken up in the middle, gives the same answer again.

A checkpoint writes these tensors.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

State = dict[str, Tensor]
OfRows = Callable[[Tensor], Tensor]


class LabelMemory:
    """Latents (N, L), float32; `read` sees the last finished epoch, `write` the one in progress."""

    def __init__(self, start: Tensor) -> None:
        self._previous = start.to(torch.float32).clone()
        self._next = torch.empty_like(self._previous)
        self._visited = torch.zeros(len(start), dtype=torch.bool, device=start.device)
        self._given = False  # whether a state holds the last two, which stay as they are then

    @property
    def previous(self) -> Tensor:
        """All rows as the last finished epoch left them. Not to be changed."""
        return self._previous

    def read(self, rows: Tensor) -> Tensor:
        """The rows as the last finished epoch left them."""
        return self.reader()(rows)

    def reader(self) -> OfRows:
        """The same as a function, which stays with that epoch while others follow."""
        previous = self._previous
        return lambda rows: previous.index_select(0, rows)

    def write(self, rows: Tensor, latents: Tensor) -> None:
        """Put rows into the epoch in progress."""
        self._take_back()
        self._next.index_copy_(0, rows, latents)
        self._visited.index_fill_(0, rows, True)

    def end_epoch(self) -> None:
        """The epoch in progress becomes the finished one; rows nobody visited are carried over."""
        missed = ~self._visited
        if missed.any():
            self._take_back()
            self._next[missed] = self._previous[missed]
        # new tensors, since a checkpoint may still be writing the old ones
        self._previous, self._next = self._next, torch.empty_like(self._next)
        self._visited, self._given = torch.zeros_like(self._visited), False

    def state(self) -> State:
        """The finished generation, and of the one in progress what has been written.

        Nobody changes these tensors any more: where the epoch goes on, it does so with copies.
        """
        state = {"latents": self._previous}
        if self._visited.any():
            state |= {"next": self._next, "visited": self._visited}
            self._given = True
        return state

    def owns(self, value: Tensor) -> bool:
        """Whether this is one of the tensors that `state` gave just now."""
        return any(value is own for own in vars(self).values())

    def load_state(self, state: State) -> None:
        """Go on from `state`."""
        self._previous = state["latents"].to(self._previous, copy=True)
        self._next = torch.empty_like(self._previous)
        self._visited, self._given = torch.zeros_like(self._visited), False
        if "visited" in state:
            self._next = state["next"].to(self._previous, copy=True)
            self._visited |= state["visited"].to(self._visited.device)

    def _take_back(self) -> None:
        """Before the epoch in progress is written to: leave what was given as it is."""
        if self._given:
            self._next, self._visited = self._next.clone(), self._visited.clone()
            self._given = False


def join_states(memories: Mapping[str, LabelMemory]) -> State:
    """The states of several memories as one, under `NAME.KEY`."""
    return {
        f"{name}.{key}": value
        for name, memory in memories.items()
        for key, value in memory.state().items()
    }


def load_states(memories: Mapping[str, LabelMemory], state: State) -> None:
    """Give each memory its part of a joint state back."""
    for name, memory in memories.items():
        start = f"{name}."
        own = {k.removeprefix(start): v for k, v in state.items() if k.startswith(start)}
        memory.load_state(own)
