"""An exponential moving average of a network's weights: steadier than the last step's."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from g2netpl.game.network.network import bare
from g2netpl.training.snapshots import State


class Average:
    """Weights that follow those of a network; its buffers are copied.

    Between epochs the network has the average, so that whoever looks at it sees that. Within
    `learning` it has the weights that learn.
    """

    def __init__(self, network: nn.Module, decay: float, learner: State | None = None) -> None:
        module = bare(network)
        self.decay, self.steps = decay, 0
        self._shown: State = module.state_dict()  # no copy: what the network has
        self._other = {name: value.clone() for name, value in self._shown.items()}
        for name, value in (learner or {}).items():
            self._other[name].copy_(value)
        named = module.named_parameters(remove_duplicate=False)  # tied weights by all their names
        self._weights = [name for name, _ in named]
        self._buffers = [name for name in self._shown if name not in {*self._weights}]

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Let the network have the weights that learn."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def follow(self) -> None:
        """After a step: move towards the network, at first faster than `decay` says."""
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        self.steps += 1
        torch._foreach_lerp_(
            _of(self._other, self._weights), _of(self._shown, self._weights), 1.0 - decay
        )
        if self._buffers:
            torch._foreach_copy_(_of(self._other, self._buffers), _of(self._shown, self._buffers))

    def copy(self) -> State:
        """The average in main memory, while the network learns."""
        return {name: value.cpu().clone() for name, value in self._other.items()}

    def _swap(self) -> None:
        shown, other = [*self._shown.values()], [*self._other.values()]
        kept = [value.clone() for value in shown]
        torch._foreach_copy_(shown, other)
        torch._foreach_copy_(other, kept)


def _of(state: State, names: list[str]) -> list[Tensor]:
    return [state[name] for name in names]
