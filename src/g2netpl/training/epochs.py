"""Epochs of the game: validation after each, the best one kept, an early stop at equilibrium.

Nothing here sees test data. The best epoch is chosen by validation mAP; where the validation part
has no class with both signs observed, mAP cannot be had, and the last epoch is taken. Of a player
with several rounds the best epoch is that of the round which is played, so in the end of the last:
what an earlier round found lacks the labels that it was played for.
"""

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, nn

from g2netpl.base.errors import UserError
from g2netpl.base.processes import ALONE, Processes
from g2netpl.game.batches import Batch, training_batches
from g2netpl.game.loop import play_epoch
from g2netpl.game.network.network import bare
from g2netpl.game.network.predicting import opinions, predict_all
from g2netpl.game.network_step import Tally
from g2netpl.game.player import LabelPlayer, kept_state, take_up
from g2netpl.images.loader import Source
from g2netpl.runs.metrics import Truth, can_rank, mean_average_precision
from g2netpl.runs.records import Epoch
from g2netpl.training.average import Average
from g2netpl.training.equilibrium import Equilibrium
from g2netpl.training.snapshots import (
    Snapshot,
    copy_optimizer,
    copy_state,
    is_finite,
    load_network,
)

_NON_FINITE = 3  # batches in a row whose cost is not finite


class NumericalStop(UserError):
    """The cost, or the network, is no longer finite."""

    exit_code = 5


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
    scaler: torch.amp.GradScaler | None = None  # of 16-bit gradients; it has a state of its own
    processes: Processes = ALONE


@dataclass(frozen=True)
class Schedule:
    """How long and in what steps."""

    epochs: int
    batch_size: int
    seed: int
    first_epoch: int = 0  # epochs finished by an earlier phase; φ counts them
    total_epochs: int | None = None  # of all phases
    patience: int = 3  # epochs at equilibrium before an early stop; 0: never
    regret_tolerance: float = 1e-3
    movement_tolerance: float = 1e-3
    ema: float | None = None  # decay of the average of the weights; none: there is no average

    @property
    def total(self) -> int:
        """Epochs of all phases."""
        return self.total_epochs or self.first_epoch + self.epochs


@dataclass(frozen=True)
class Validation:
    """Images held out to choose the epoch by, and what is known about them."""

    source: Source
    truth: Truth


def fit(
    network: nn.Module,
    player: LabelPlayer,
    source: Source,
    observed: Tensor,
    expected: float,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    validation: Validation | None = None,
    *,
    start: Snapshot | None = None,
    loop: Loop | None = None,
) -> Snapshot:
    """Play all epochs; returns the last snapshot, which holds the best and the last network."""
    loop = loop or Loop()
    game = _Game(network, player, source, observed, expected, optimizer, schedule, validation, loop)
    now = game.resumed(start or Snapshot())
    while now.finished < schedule.epochs * player.needs.rounds and not now.converged:
        now = game.play(now)
        loop.on_epoch(now)
    return now


@dataclass
class _Game:
    """All that the epochs are played with."""

    network: nn.Module
    player: LabelPlayer
    source: Source
    observed: Tensor
    expected: float
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    validation: Validation | None
    loop: Loop

    def __post_init__(self) -> None:
        if self.player.needs.rounds > 1:  # each of them begins with these
            self.first = copy_state(self.network), copy.deepcopy(self.optimizer.state_dict())
        self.average = self._average()
        self.ranked = self.validation is not None and can_rank(self.validation.truth)
        self.equilibrium = Equilibrium(
            self.source, self.observed, self.expected, self.schedule.seed
        )

    def resumed(self, now: Snapshot) -> Snapshot:
        """Both players as they were at a snapshot."""
        if now.finished or now.step:  # else nothing has been played yet
            load_network(self.network, now.network)
            self.optimizer.load_state_dict(now.optimizer)
            if self.loop.scaler is not None and "scaler" in now.optimizer:
                self.loop.scaler.load_state_dict(now.optimizer["scaler"])
            take_up(self.player, now.player)
            self.average = self._average(now)
        self.equilibrium.remember(self.player)
        return now

    def _average(self, now: Snapshot | None = None) -> Average | None:
        """One that begins with the network's weights, or goes on from a snapshot."""
        if self.schedule.ema is None:
            return None
        average = Average(self.network, self.schedule.ema, now.learner if now else None)
        average.steps = now.averaged if now else 0
        return average

    def play(self, now: Snapshot) -> Snapshot:
        """The next epoch, or the rest of it."""
        if now.step == 0 and now.finished and now.finished % self.schedule.epochs == 0:
            self._begin_round(now.finished)
        epoch = self.schedule.first_epoch + now.finished
        progress = epoch / (self.schedule.total * self.player.needs.rounds)
        game = (self.network, self.player, self.optimizer, epoch, self.schedule.seed)
        steps = Steps(*game, now, self.loop, self.average)
        cost, seconds = self._train(steps, progress), steps.trained.seconds
        record: Epoch = {
            "epoch": epoch + 1,
            "cost": cost,
            "validation_map": self._score(),
            **self.equilibrium.read(self.network, self.player, progress),
            "seconds": seconds,
            "images_per_second": len(self.source) / max(seconds, 1e-9),
        }
        return self._after(now, steps, record)

    def _train(self, steps: "Steps", progress: float) -> float:
        """Let both players move; gives the network's mean cost."""
        batches = training_batches(
            self.source,
            self.observed,
            self.schedule.batch_size,
            self.schedule.seed,
            steps.epoch,
            first=steps.before.step,
            processes=self.loop.processes,
        )
        learning = nullcontext() if self.average is None else self.average.learning()
        with self.loop.stepping(), learning, torch.random.fork_rng(devices=_cuda_devices()):
            return play_epoch(
                self.network,
                self.player,
                steps.counted(batches),
                self.optimizer,
                progress,
                self.expected,
                backward=self.loop.backward,
                tally=steps.tally,
                on_non_finite=steps.non_finite,
                processes=self.loop.processes,
            )

    def _score(self) -> float | None:
        """The validation mAP, where it can be had."""
        if not self.ranked or self.validation is None:
            return None
        processes = self.loop.processes
        scores = predict_all(self.network, self.validation.source, processes=processes)
        return processes.broadcast(mean_average_precision(scores, self.validation.truth))

    def _after(self, before: Snapshot, steps: "Steps", record: Epoch) -> Snapshot:
        """The snapshot after an epoch, with the best network so far."""
        score, history = record["validation_map"], [*before.history, record]
        # ranks may differ in the last bit, but not in this
        quiet = int(self.loop.processes.broadcast(_quiet_epochs(history, self.schedule)))
        anew = before.finished % self.schedule.epochs == 0  # the first of a round
        better = anew or score is None or before.best_map is None or score > before.best_map
        state = steps.trained.network
        return Snapshot(
            finished=before.finished + 1,
            non_finite=steps.non_finite_in_a_row,
            network=state,
            learner=steps.trained.learner,
            averaged=steps.trained.averaged,
            optimizer=steps.trained.optimizer,
            player=kept_state(self.player),
            best_network=state if better else before.best_network,
            best_epoch=record["epoch"] if better else before.best_epoch,
            best_map=score if better else before.best_map,
            history=history,
            converged=0 < self.schedule.patience <= quiet,
        )

    def _begin_round(self, finished: int) -> None:
        """The player hears the last network's opinions, and a new one starts from the first."""
        with torch.random.fork_rng(devices=_cuda_devices()):
            torch.manual_seed(self.schedule.seed * 1_000_003 + finished)
            passes, processes = self.player.needs.passes, self.loop.processes
            self.player.begin_round(opinions(self.network, self.source, passes, processes))
        state, moments = self.first
        load_network(self.network, state)
        self.average = self._average()
        self.optimizer.load_state_dict(copy.deepcopy(moments))  # which it takes as its own
        self.equilibrium.remember(self.player)


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
        average: Average | None = None,
    ) -> None:
        self.network, self.player, self.optimizer = network, player, optimizer
        self.epoch, self.seed, self.before, self.loop = epoch, seed, before, loop
        self.average = average
        self.tally = Tally(before.cost, before.images)
        self.done = before.step
        self.began = time.perf_counter() - before.seconds  # without that between stop and resume
        self.non_finite_in_a_row = before.non_finite  # an epoch may be shorter than such a row
        self.trained = before
        self._has_gpus = torch.cuda.is_available()  # asking takes a while
        self._buffers = [*bare(network).buffers()]
        self._kept = [buffer.clone() for buffer in self._buffers]

    def counted(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Pass the batches on; what comes back for more has finished a step."""
        for batch in batches:
            self._seed_all(batch.number)
            images = self.tally.images
            _copy(self._buffers, self._kept)
            yield batch
            if self.tally.images > images:
                self.non_finite_in_a_row = 0
                if self.average is not None:
                    self.average.follow()
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
        averages: dict[str, Any] = {"network": network}
        if self.average is not None:
            averages = {"network": self.average.copy(), "learner": network}
            averages["averaged"] = self.average.steps
        return replace(
            self.before,
            **averages,
            step=self.done,
            cost=self.tally.cost,
            images=self.tally.images,
            seconds=time.perf_counter() - self.began,
            non_finite=self.non_finite_in_a_row,
            optimizer=optimizer,
            player=kept_state(self.player),
        )


def _is_quiet(record: Epoch, schedule: Schedule) -> bool:
    """Nobody moves any more; labels that are all in doubt have not begun to."""
    regret, movement, undecided = record["regret"], record["movement"], record["undecided"]
    return (
        regret is not None
        and movement is not None
        and undecided is not None
        and undecided < 1
        and regret < schedule.regret_tolerance
        and movement < schedule.movement_tolerance
    )


def _quiet_epochs(history: list[Epoch], schedule: Schedule) -> int:
    own = (record for record in reversed(history) if record["epoch"] > schedule.first_epoch)
    return sum(1 for _ in takewhile(lambda record: _is_quiet(record, schedule), own))


def _cuda_devices() -> list[int]:
    return list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []


def _copy(those: list[Tensor], into: list[Tensor]) -> None:
    if those:
        with torch.no_grad():
            torch._foreach_copy_(into, those)
