"""The label player: what a method proposes for the labels nobody observed, and how they move.

To add a method, derive from `LabelPlayer` in `players/` and add a row to `METHODS`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import torch
from torch import Tensor

from g2netpl.game.batches import Batch
from g2netpl.game.label_memory import LabelMemory, OfRows, State, join_states, load_states

Predict = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Setup:
    """What both players know before the first move. There is no truth in it, nor in a batch."""

    observed: Tensor  # (N, L) int8: 1, 0, −1
    expected_positives: float  # k, per image
    learning_rate: float  # of the network
    seed: int = 0
    epochs: int = 10  # of the whole training
    deep: bool = False  # whether the backbone learns too, or the classifier alone


@dataclass(frozen=True)
class Needs:
    """What a method needs of the training around its player; its row of METHODS says it."""

    rounds: int = 1  # trainings of the network, each from its start
    passes: int = 0  # between two rounds: predictions of every image with dropout
    dropout: float = 0.0  # before the last layer
    pools: bool = False  # under `draw`: a second expert, of sigmoids, which learns from the labels
    prediction: Literal["reuse", "fresh"] = "reuse"  # to be answered: the step's, or one after it


@dataclass(frozen=True)
class Proposal:
    """What the network shall learn from one batch."""

    targets: Tensor  # (B, L) in [0, 1]
    weights: Tensor  # (B, L) ≥ 0; the cost is their weighted sum over B·L
    regulariser: float = 0.0  # weight of R
    reversed_weights: Tensor | None = None  # (B, L): entries that enter as CE(ŷ, target) instead
    entry_cost: Callable[[Tensor], Tensor] | None = None  # logits → (B, L), in place of CE
    depth: Tensor | None = None  # (B, L) in [0, 1]: the share that teaches the backbone too
    inputs: Tensor | None = None  # what the network sees, where it is not the batch's inputs

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

    It must `propose`. It may `respond`, have soft labels (`labels_now`, `regret`), and take notice
    of what begins and ends; what else a method needs is said by its row of METHODS.

    What it learns about each image it keeps in memories, which it asks for with `remember`: they
    are saved, gone on with and turned over at the end of an epoch without a word of its own.
    """

    observed: Tensor
    """What is known of all images, (N, L); a player with soft labels sets it."""

    memories: Mapping[str, LabelMemory] = MappingProxyType({})
    """All that `remember` gave, by name."""

    needs = Needs()
    """As the row of METHODS says."""

    method = ""
    """The name of that row."""

    def remember(
        self, setup: Setup, name: str, start: Tensor | float, *, width: int | None = None
    ) -> LabelMemory:
        """A memory of numbers per image, one for each class or `width`, that starts like this."""
        if not isinstance(start, Tensor):
            shape = (len(setup.observed), setup.observed.shape[1] if width is None else width)
            start = torch.full(shape, start, device=setup.observed.device)
        memory = LabelMemory(start)
        self.memories = {**self.memories, name: memory}
        return memory

    def begin_round(self, opinions: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Before every round but the first: mean and deviation of the passes, in blocks."""

    def begin_with(self, soft: Callable[[Tensor], Tensor]) -> None:
        """Before the first epoch: the labels of an earlier game, asked for by rows."""

    def begin_phase(self, learning_rate: float, deep: bool) -> None:
        """The network's learning rate, and whether the backbone learns, from here on."""

    def propose(self, batch: Batch, progress: float, predict: Predict) -> Proposal:
        """Targets and weights for this batch; `progress` is φ, the share of epochs finished."""
        raise NotImplementedError

    def respond(self, batch: Batch, predicted: Tensor, progress: float) -> None:
        """Move the labels, given the network's predictions for this batch."""

    def end_epoch(self) -> None:
        """After the last batch of an epoch: the next one reads what this one wrote."""
        for memory in self.memories.values():
            memory.end_epoch()

    def labels_now(self) -> OfRows | None:
        """Soft labels as a function of rows, which stays with this moment while epochs follow.

        They are in [0, 1], (B, L), with observed entries at their value; None: there are none.
        """
        return None

    def soft_labels(self, rows: Tensor | None = None) -> Tensor | None:
        """The same for some training images, or for all of them, (N, L)."""
        read = self.labels_now()
        if read is None:
            return None
        if rows is None:
            rows = torch.arange(len(self.observed), device=self.observed.device)
        return read(rows)

    def regret(self, rows: Tensor, predicted: Tensor) -> float | None:
        """Mean gain of the labels of some images by jumping to their best response."""
        return None

    def state(self) -> State:
        """Everything needed to go on exactly from here; the memories, unless there is more."""
        return join_states(self.memories)

    def load_state(self, state: State) -> None:
        """Go on from `state`."""
        load_states(self.memories, state)


def kept_state(player: LabelPlayer) -> State:
    """The player's state, as it stays while the game goes on; for a snapshot.

    What is in a memory is never changed any more; all else is copied.
    """

    def is_kept(value: Tensor) -> bool:
        return any(memory.owns(value) for memory in player.memories.values())

    return {
        name: value if is_kept(value) else value.detach().clone()
        for name, value in player.state().items()
    }


def take_up(player: LabelPlayer, kept: State) -> None:
    """Let the player go on from a state of a snapshot, which stays as it is."""
    own = tuple(f"{name}." for name in player.memories)  # which are copied when they are loaded
    player.load_state({k: v if k.startswith(own) else v.clone() for k, v in kept.items()})
