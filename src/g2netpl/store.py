"""The memory of the label player: one row of latents per training image, in generations.

An epoch reads the generation of the epoch before and writes the next one, so what a row held at
the start of the epoch does not depend on what was visited since: an epoch that is begun again, or
taken up in the middle, gives the same answer again.

These stores are tensors, which a checkpoint copies; `mapped_store.py` has those that do not fit.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

State = dict[str, Tensor]
OfRows = Callable[[Tensor], Tensor]


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
        return self.reader()(rows)

    def reader(self) -> OfRows:
        """The same as a function, which stays with that epoch while others follow."""
        previous = self._previous
        return lambda rows: previous.index_select(0, rows)

    def write(self, rows: Tensor, latents: Tensor) -> None:
        """Put rows into the epoch in progress."""
        self._next.index_copy_(0, rows, latents)
        self._visited.index_fill_(0, rows, True)

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
