"""Algorithm 1 of the paper, and the training step of every method in this package.

Two players. The *network* minimises a weighted soft cross-entropy (`network_step`). The *label
player* proposes targets and weights for the labels, observed or not, and responds to the network's
predictions (`player`). A method is its label player. Where labels are taken as draws the network
has another head as well, which this loop does not see (docs/method/observation.md).
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from g2netpl.base.processes import ALONE, Processes
from g2netpl.game.batches import Batch
from g2netpl.game.network_step import NetworkStep, Tally
from g2netpl.game.player import LabelPlayer


def play_epoch(
    network: nn.Module,
    player: LabelPlayer,
    batches: Iterable[Batch],
    optimizer: torch.optim.Optimizer,
    progress: float,
    expected: float,
    *,
    backward: Callable[[Tensor], object] = Tensor.backward,
    tally: Tally | None = None,
    on_non_finite: Callable[[Batch, float], None] | None = None,
    processes: Processes = ALONE,
) -> float:
    """One epoch of the game, or the rest of one; `progress` is φ, `expected` is k.

    Returns the network's mean cost.
    """
    step = NetworkStep(
        network, player, optimizer, expected, backward, tally, on_non_finite, processes
    )
    for batch in step.seated(batches):
        proposal = player.propose(batch, progress, step.predict)  # line 2: û and its weight ξ
        predicted = step(batch, proposal)  # lines 3 and 4: the network moves
        if predicted is not None:
            player.respond(batch, predicted, progress)  # lines 5 and 6: the labels move
    player.end_epoch()
    return step.tally.mean
