"""A snapshot: everything a training is made of between two steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from g2netpl.game.network.network import bare
from g2netpl.runs.records import Epoch

State = dict[str, Tensor]


@dataclass
class Snapshot:
    """What a checkpoint holds and a resume starts from: after an epoch, or in the middle of one.

    In the middle of an epoch `step` of its batches are done, at the `cost` and over the `images`
    given, and the player's state has what they wrote. Where the weights are averaged, `network` and
    `best_network` are averages.
    """

    finished: int = 0
    step: int = 0
    cost: float = 0.0
    images: int = 0
    seconds: float = 0.0
    non_finite: int = 0  # batches in a row, up to here, whose cost is not finite
    network: State = field(default_factory=dict)
    learner: State = field(default_factory=dict)  # the weights that `network` is the average of
    averaged: int = 0  # steps in that average
    optimizer: dict[str, Any] = field(default_factory=dict)
    player: State = field(default_factory=dict)
    best_network: State = field(default_factory=dict)
    best_epoch: int = 0  # from 1; 0 before the first
    best_map: float | None = None
    history: list[Epoch] = field(default_factory=list)
    converged: bool = False


def copy_state(network: nn.Module) -> State:
    """A copy of the network's tensors in main memory."""
    return {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in bare(network).state_dict().items()
    }


def is_finite(state: State) -> bool:
    """Whether a network's tensors are all numbers."""
    return all(bool(torch.isfinite(value).all()) for value in state.values())


def load_network(network: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Put a copied state back."""
    bare(network).load_state_dict(state)


def copy_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """A copy of the optimizer's state in main memory."""
    content = optimizer.state_dict()
    return {
        "state": {
            number: {
                key: value.detach().cpu().clone() if isinstance(value, Tensor) else value
                for key, value in values.items()
            }
            for number, values in content["state"].items()
        },
        "param_groups": [dict(group) for group in content["param_groups"]],
    }
