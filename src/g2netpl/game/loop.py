"""Algorithm 1 of the paper, and the training step of every method in this package.

Two players. The *network* minimises a weighted soft cross-entropy. The *label player* proposes
targets and weights for the labels, observed or not, and responds to the network's predictions.
Methods differ only in the label player: to add one, derive from `LabelPlayer` in `players/` and
add a row to `METHODS`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
from torch import Tensor, nn

from g2netpl.base.processes import ALONE, Team
from g2netpl.game.batches import Batch
from g2netpl.game.costs import expected_positives, reversed_bce, soft_bce
from g2netpl.game.label_memory import LabelStore, OfRows, State, join_states, load_states
from g2netpl.game.network.network import bare, batch_statistics, share_dropout
from g2netpl.game.observed import ObservedLabels
from g2netpl.game.shelf import IN_MEMORY, Shelf

Predict = Callable[[Tensor], Tensor]
Costed = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Setup:
    """What both players know before the first move. There is no truth in it, nor in a batch.

    The observed labels may be given as a tensor (N, L) of 1, 0 and −1.
    """

    observed: ObservedLabels
    expected_positives: float  # k, per image
    learning_rate: float  # of the network
    seed: int = 0
    epochs: int = 10  # of the whole training
    deep: bool = False  # whether the backbone learns too, or the classifier alone
    shelf: Shelf = IN_MEMORY  # where labels are kept

    def __post_init__(self) -> None:
        object.__setattr__(self, "observed", ObservedLabels.of(self.observed))


@dataclass(frozen=True)
class Proposal:
    """What the network shall learn from one batch."""

    targets: Tensor  # (B, L) in [0, 1]
    weights: Tensor  # (B, L) ≥ 0; the cost is their weighted sum over B·L
    regulariser: float = 0.0  # weight of R
    reversed_weights: Tensor | None = None  # (B, L): entries that enter as CE(ŷ, target) instead
    entry_cost: Callable[[Tensor], Tensor] | None = None  # logits → (B, L), in place of CE
    depth: Tensor | None = None  # (B, L) in [0, 1]: the share that teaches the backbone too

    def split(self) -> tuple["Proposal", "Proposal"]:
        """What the whole network learns, with R, and what the classifier alone learns besides."""
        deep = torch.ones_like(self.weights) if self.depth is None else self.depth

        def part(share: Tensor, regulariser: float) -> Proposal:
            other = self.reversed_weights
            return replace(
                self,
                weights=self.weights * share,
                regulariser=regulariser,
                reversed_weights=None if other is None else other * share,
                depth=None,
            )

        return part(deep, self.regulariser), part(1.0 - deep, 0.0)


class LabelPlayer:
    """The second player: one per method, built once per training from `Setup` and options.

    What it learns about each image it keeps in memories, which it asks for with `remember`: they
    are saved, gone on with and turned over at the end of an epoch without a word of its own.
    """

    memories: Mapping[str, LabelStore] = MappingProxyType({})
    """All that `remember` gave, by name."""

    fresh = False
    """Answer the prediction after the network's step, at the price of a second forward."""

    rounds = 1
    """How often the network is trained, each time from its start."""

    passes = 0
    """With several rounds: predictions of each image with dropout, before the next round."""

    def remember(
        self, setup: Setup, name: str, start: OfRows | float, *, width: int | None = None
    ) -> LabelStore:
        """A memory of numbers per image, one for each class or `width`, that starts like this."""
        shape = (len(setup.observed), setup.observed.shape[1] if width is None else width)
        memory = setup.shelf.store(name, shape, start, setup.observed.device)
        self.memories = {**self.memories, name: memory}
        return memory

    def begin_round(self, opinions: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Before every round but the first: their mean and deviation, in blocks."""

    def begin_with(self, soft: Callable[[Tensor], Tensor]) -> None:
        """Before the first epoch: the labels of an earlier game, asked for by rows."""

    def begin_phase(self, learning_rate: float, deep: bool) -> None:
        """The network's learning rate, and whether the backbone learns, from here on."""

    def inputs(self, batch: Batch) -> Tensor:
        """What the network sees; a player that asked for two views stacks them to (2B, …)."""
        return batch.inputs

    def propose(self, batch: Batch, progress: float, predict: Predict) -> Proposal:
        """Targets and weights for this batch; `progress` is φ, the share of epochs finished."""
        raise NotImplementedError

    def respond(self, batch: Batch, predicted: Tensor, progress: float) -> None:
        """Move the labels, given the network's predictions for this batch."""

    def end_epoch(self) -> None:
        """After the last batch of an epoch: the next one reads what this one wrote."""
        for memory in self.memories.values():
            memory.end_epoch()

    def soft_labels(self, rows: Tensor | None = None) -> Tensor | None:
        """(N, L) in [0, 1] with observed entries at their value; None where there are none.

        With `rows`, those of some images alone.
        """
        return None

    def labels_now(self) -> OfRows | None:
        """Soft labels as a function of rows, which stays with this moment while epochs follow."""
        return None

    def regret(self, rows: Tensor, predicted: Tensor) -> float | None:
        """Mean gain of the labels of some images by jumping to their best response."""
        return None

    def state(self) -> State:
        """Everything needed to go on exactly from here; the memories, unless there is more."""
        return join_states(self.memories)

    def load_state(self, state: State) -> None:
        """Go on from `state`."""
        load_states(self.memories, state)

    def owns(self, value: Tensor) -> bool:
        """Whether nobody changes this tensor of the state any more; all others are copied."""
        return any(memory.owns(value) for memory in self.memories.values())


def kept_state(player: LabelPlayer) -> State:
    """The player's state, as it stays while the game goes on; for a snapshot."""
    return {
        name: value if player.owns(value) else value.detach().clone()
        for name, value in player.state().items()
    }


def take_up(player: LabelPlayer, kept: State) -> None:
    """Let the player go on from a state of a snapshot, which stays as it is."""
    own = tuple(f"{name}." for name in player.memories)  # which are copied when they are loaded
    player.load_state({k: v if k.startswith(own) else v.clone() for k, v in kept.items()})


def batch_cost(
    network: nn.Module,
    inputs: Tensor,
    proposal: Proposal,
    expected: float,
    join: Callable[[Tensor], Tensor] = lambda logits: logits,
) -> Costed:
    """The network's cost for one batch, and its logits; `join` adds those of other processes."""
    if proposal.depth is None or not getattr(bare(network), "is_deep", False):
        logits = join(network(inputs).float())
        return network_cost(logits, proposal, expected), logits
    logits, apart = (join(each.float()) for each in network(inputs, apart=True))
    deep, shallow = proposal.split()
    cost = network_cost(logits, deep, expected) + network_cost(apart, shallow, expected)
    return cost, logits


def network_cost(logits: Tensor, proposal: Proposal, expected: float) -> Tensor:
    """L_obs + L_unobs of the paper for one batch, as the label player proposed it."""
    if proposal.entry_cost is None:
        cost = soft_bce(logits, proposal.targets, proposal.weights)
    else:
        cost = (proposal.weights * proposal.entry_cost(logits)).sum() / logits.numel()
    if proposal.reversed_weights is not None:
        cost = cost + reversed_bce(logits, proposal.targets, proposal.reversed_weights)
    if proposal.regulariser > 0:
        cost = cost + proposal.regulariser * expected_positives(logits, expected)
    return cost


@dataclass
class Tally:
    """What an epoch has come to so far."""

    cost: float | Tensor = 0.0  # Σ over images of the network's cost
    images: int = 0

    def count(self, cost: Tensor, images: int) -> None:
        """One more batch."""
        self.cost = self.cost + cost.detach() * images
        self.images += images

    @property
    def mean(self) -> float:
        """The network's mean cost."""
        return float(self.cost) / max(self.images, 1)


def play_epoch(
    network: nn.Module,
    player: LabelPlayer,
    batches: Iterable[Batch],
    optimizer: torch.optim.Optimizer,
    progress: float,
    expected: float,
    backward: Callable[[Tensor], object] = Tensor.backward,
    *,
    tally: Tally | None = None,
    on_nonsense: Callable[[Batch, float], None] | None = None,
    team: Team = ALONE,
) -> float:
    """One epoch of the game over `batches`, or the rest of one. Returns the network's mean cost.

    A batch whose cost is no number moves nobody; `on_nonsense` is told.
    """
    tally = tally or Tally()

    def predict(inputs: Tensor) -> Tensor:
        """Predictions without a gradient and without moving batch-norm statistics."""
        training = network.training
        network.eval()
        with torch.no_grad():
            predicted = team.join(bare(network)(inputs).float().sigmoid(), batch.counts)
        network.train(training)
        return predicted

    def join(logits: Tensor) -> Tensor:
        """The logits of all ranks, view by view where an image has several."""
        if team.size == 1:
            return logits
        views = logits.view(-1, len(batch.inputs), logits.shape[1])
        return torch.cat([team.join(view, batch.counts) for view in views])

    statistics = batch_statistics(network)
    network.train()
    for batch in batches:
        if team.size > 1:
            _take_seat(network, batch, team)
        proposal = player.propose(batch, progress, predict)  # line 2: û and its weight ξ

        optimizer.zero_grad()  # line 3: the network moves
        cost, logits = batch_cost(network, player.inputs(batch), proposal, expected, join)
        if on_nonsense is not None and not torch.isfinite(cost.detach()):
            on_nonsense(batch, float(cost.detach()))
            continue
        backward(cost * team.size)  # the mean over ranks of what each of them knows a part of
        team.average(statistics)
        optimizer.step()

        predicted = predict(batch.inputs) if player.fresh else logits.detach().sigmoid()  # line 4
        player.respond(batch, predicted, progress)  # lines 5–6: the labels move

        tally.count(cost, len(batch))
    if team.size > 1:
        network.train()
        share_dropout(network)
    player.end_epoch()
    return tally.mean


def _take_seat(network: nn.Module, batch: Batch, team: Team) -> None:
    """Tell the network what part of the batch it sees; without any, it is not to learn from it."""
    network.train(batch.counts[team.rank] > 0)
    share_dropout(network, sum(batch.counts[: team.rank]), sum(batch.counts[team.rank + 1 :]))
