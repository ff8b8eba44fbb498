"""The memory of the label player: one row of latents per training image, in two generations.

An epoch reads the generation of the epoch before and writes the next one, so what a row held at
the start of the epoch does not depend on what was visited since: an epoch that is begun again
gives the same answer again.
"""

import torch
from torch import Tensor


class LabelStore:
    """Latents (N, L), float32; `read` sees the last finished epoch, `write` the one in progress."""

    def __init__(self, start: Tensor) -> None:
        self.previous = start.to(torch.float32).clone()
        self._next = torch.empty_like(self.previous)
        self._visited = torch.zeros(len(start), dtype=torch.bool, device=start.device)

    def read(self, rows: Tensor) -> Tensor:
        """The rows as the last finished epoch left them."""
        return self.previous.index_select(0, rows)

    def write(self, rows: Tensor, latents: Tensor) -> None:
        """Put rows into the epoch in progress."""
        self._next.index_copy_(0, rows, latents)
        self._visited[rows] = True

    def end_epoch(self) -> None:
        """The epoch in progress becomes the finished one; rows nobody visited are carried over."""
        missed = ~self._visited
        if missed.any():
            self._next[missed] = self.previous[missed]
        self.previous, self._next = self._next, self.previous
        self._visited.zero_()

    def state(self) -> dict[str, Tensor]:
        """The finished generation; an epoch in progress is begun again from it."""
        return {"latents": self.previous}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from `state`."""
        self.previous.copy_(state["latents"])
        self._visited.zero_()
