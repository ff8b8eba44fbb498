"""The steps of one epoch, seen from outside: counted, and with a snapshot between any two."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from g2netpl.base.errors import UserError
from g2netpl.base.processes import ALONE, Processes
from g2netpl.game.batches import Batch
from g2netpl.game.network.network import bare
from g2netpl.game.network_step import Tally
from g2netpl.game.player import LabelPlayer, kept_state
from g2netpl.training.snapshots import Snapshot, copy_optimizer, copy_state, is_finite

_NON_FINITE = 3  # batches in a row whose cost is not finite


class NumericalStop(UserError):
    """The cost, or the network, is no longer finite."""

    exit_code = 5


class Scaler(Protocol):
    """What scales the cost for 16-bit gradients; it has a state of its own."""

    def state_dict(self) -> dict[str, Any]:
        """Its numbers."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with these."""
        ...


@dataclass(frozen=True)
class Loop:
    """What the loop tells and asks while it runs; each may be left out.

    `on_step` is called after every step with a function that takes a snapshot, `on_trained` with
    one after the last step, before anything is measured. `stepping` is entered around the steps.
    """

    on_epoch: Callable[[Snapshot], None] = lambda snapshot: None
    on_batch: Callable[[int], None] = lambda images: None
    on_step: Callable[[Callable[[], Snapshot]], None] = lambda take: None
    on_trained: Callable[[Snapshot], None] = lambda snapshot: None
    on_non_finite: Callable[[int, Batch, float], None] = lambda epoch, batch, cost: None
    stepping: Callable[[], AbstractContextManager[None]] = nullcontext
    backward: Callable[[Tensor], object] = Tensor.backward
    scaler: Scaler | None = None
    processes: Processes = ALONE


class Steps:
    """The steps of one epoch: random numbers keyed by the step, a snapshot between any two."""

    def __init__(
        self,
        network: nn.Module,
        player: LabelPlayer,
        optimizer: torch.optim.Optimizer,
        epoch: int,
        seed: int,
        before: Snapshot,
        loop: Loop,
    ) -> None:
        self.network, self.player, self.optimizer = network, player, optimizer
        self.epoch, self.seed, self.before, self.loop = epoch, seed, before, loop
        self.tally = Tally(before.cost, before.images)
        self.done = before.step
        self.began = time.perf_counter() - before.seconds
        self.non_finite_in_a_row = before.non_finite  # an epoch may be shorter than such a row
        self.trained = before
        self._has_gpus = torch.cuda.is_available()  # asking takes a while
        self._buffers = [*bare(network).buffers()]
        self._kept = [buffer.clone() for buffer in self._buffers]

    @property
    def seconds(self) -> float:
        """Time that the epoch has taken, without the time between a stop and a resume."""
        return time.perf_counter() - self.began

    def counted(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Pass the batches on; what comes back for more has finished a step."""
        for batch in batches:
            self._seed_all(batch.number)
            images = self.tally.images
            _copy(self._buffers, self._kept)
            yield batch
            if self.tally.images > images:
                self.non_finite_in_a_row = 0
            self.done = batch.number + 1
            self.loop.on_batch(len(batch))
            if self.non_finite_in_a_row == 0:
                self.loop.on_step(self.snapshot)
        self.trained = self.snapshot()
        self.loop.on_trained(self.trained)

    def _seed_all(self, step: int) -> None:
        """Dropout and the like depend on where we are, not on how we came here."""
        number = ((self.seed * 1_000_003 + self.epoch) * 1_000_003 + step) * 1_000_003
        torch.default_generator.manual_seed(number % 2**63)
        if self._has_gpus:
            torch.cuda.manual_seed_all(number % 2**63)

    def non_finite(self, batch: Batch, cost: float) -> None:
        """The cost of a batch is not finite; after some in a row there is no use in going on.

        Statistics that the network keeps of what it sees are put back.
        """
        _copy(self._kept, self._buffers)
        self.loop.on_non_finite(self.epoch + 1, batch, cost)
        self.non_finite_in_a_row += 1
        if self.non_finite_in_a_row == _NON_FINITE:
            raise NumericalStop(
                f"epoch {self.epoch + 1}: the network's cost is {cost}, {_NON_FINITE} batches in a "
                "row; use a smaller learning rate"
            )

    def snapshot(self) -> Snapshot:
        """All there is, copied; of a network that is made of numbers."""
        network = copy_state(self.network)
        if not is_finite(network):
            raise NumericalStop(
                f"epoch {self.epoch + 1}, step {self.done}: the network's weights are no longer "
                "numbers; use a smaller learning rate"
            )
        optimizer = copy_optimizer(self.optimizer)
        if self.loop.scaler is not None:
            optimizer["scaler"] = self.loop.scaler.state_dict()
        return replace(
            self.before,
            step=self.done,
            cost=float(self.tally.cost),
            images=self.tally.images,
            seconds=self.seconds,
            non_finite=self.non_finite_in_a_row,
            network=network,
            optimizer=optimizer,
            player=kept_state(self.player),
        )


def _copy(those: list[Tensor], into: list[Tensor]) -> None:
    if those:
        with torch.no_grad():
            torch._foreach_copy_(into, those)
