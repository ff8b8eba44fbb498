"""Epochs of the game: validation after each, the best one kept, an early stop at equilibrium.

Nothing here sees test data. The best epoch is chosen by validation mAP; where the validation part
has no observed negatives, mAP cannot be had, and the last epoch is taken.
"""

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from g2netpl.data import Batch, Source, training_batches
from g2netpl.equilibrium import Equilibrium
from g2netpl.errors import UserError
from g2netpl.evaluation import Truth, can_rank, mean_average_precision, predict_all, predict_often
from g2netpl.game import LabelPlayer, Tally, play_epoch
from g2netpl.snapshots import Record, Snapshot, copy_optimizer, copy_state, load_network
from g2netpl.teams import ALONE, Team

_NONSENSE = 3  # batches in a row whose cost is no number


class NumericalStop(UserError):
    """The cost is no longer a number."""

    exit_code = 5


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

    @property
    def total(self) -> int:
        """Epochs of all phases."""
        return self.total_epochs or self.first_epoch + self.epochs


@dataclass(frozen=True)
class Validation:
    """Images held out to choose the epoch by, and what is known about them."""

    source: Source
    truth: Truth


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
    on_nonsense: Callable[[int, Batch, float], None] = lambda epoch, batch, cost: None
    stepping: Callable[[], AbstractContextManager[None]] = nullcontext
    backward: Callable[[Tensor], object] = Tensor.backward
    scaler: Scaler | None = None
    team: Team = ALONE


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
    ranked = validation is not None and can_rank(validation.truth)
    now = start or Snapshot()
    rounds = _Rounds(network, player, source, optimizer, schedule, loop.team)  # before a resume
    if not now.is_start:
        load_network(network, now.network)
        optimizer.load_state_dict(now.optimizer)
        if loop.scaler is not None and "scaler" in now.optimizer:
            loop.scaler.load_state_dict(now.optimizer["scaler"])
        player.load_state(now.player)
    equilibrium = Equilibrium(source, observed, expected, schedule.seed)
    quiet = _quiet_epochs(now.history, schedule)
    while now.finished < schedule.epochs * player.rounds and not now.converged:
        if now.step == 0:
            rounds.begin(now.finished)
        equilibrium.remember(player)
        epoch = schedule.first_epoch + now.finished
        progress = epoch / (schedule.total * player.rounds)
        steps = _Steps(network, player, optimizer, epoch, schedule.seed, now, loop)
        batches = training_batches(
            source,
            observed,
            schedule.batch_size,
            schedule.seed,
            epoch,
            first=now.step,
            team=loop.team,
        )
        with loop.stepping(), torch.random.fork_rng(devices=_cuda_devices()):
            cost = play_epoch(
                network,
                player,
                steps.counted(batches),
                optimizer,
                progress,
                expected,
                loop.backward,
                tally=steps.tally,
                on_nonsense=steps.nonsense,
                team=loop.team,
            )
        seconds = steps.trained.seconds
        score = None
        if ranked and validation is not None:
            scores = predict_all(network, validation.source, team=loop.team)
            score = loop.team.same(mean_average_precision(scores, validation.truth))
        record: Record = {
            "epoch": epoch + 1,
            "cost": cost,
            "validation_map": score,
            **equilibrium.read(network, player, progress),
            "seconds": seconds,
            "images_per_second": len(source) / max(seconds, 1e-9),
        }
        quiet = quiet + 1 if _is_quiet(record, schedule) else 0
        quiet = int(loop.team.same(quiet))  # ranks may differ in the last bit, but not in this
        better = score is None or now.best_map is None or score > now.best_map
        state = steps.trained.network
        now = Snapshot(
            finished=now.finished + 1,
            network=state,
            optimizer=steps.trained.optimizer,
            player=player.state(),
            best_network=state if better else now.best_network,
            best_epoch=epoch + 1 if better else now.best_epoch,
            best_map=score if better else now.best_map,
            history=[*now.history, record],
            converged=0 < schedule.patience <= quiet,
        )
        loop.on_epoch(now)
    return now


class _Steps:
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
        self.nonsense_in_a_row = 0
        self.trained = before

    @property
    def seconds(self) -> float:
        """Time that the epoch has taken, without the time between a stop and a resume."""
        return time.perf_counter() - self.began

    def counted(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Pass the batches on; what comes back for more has finished a step."""
        for batch in batches:
            _seed_all(self.seed, self.epoch, batch.number)
            images = self.tally.images
            yield batch
            if self.tally.images > images:
                self.nonsense_in_a_row = 0
            self.done = batch.number + 1
            self.loop.on_batch(len(batch))
            if self.nonsense_in_a_row == 0:
                self.loop.on_step(self.snapshot)
        self.trained = self.snapshot()
        self.loop.on_trained(self.trained)

    def nonsense(self, batch: Batch, cost: float) -> None:
        """The cost of a batch is no number; after some in a row there is no use in going on."""
        self.loop.on_nonsense(self.epoch + 1, batch, cost)
        self.nonsense_in_a_row += 1
        if self.nonsense_in_a_row == _NONSENSE:
            raise NumericalStop(
                f"epoch {self.epoch + 1}: the network's cost is {cost}, {_NONSENSE} batches in a "
                "row; use a smaller learning rate"
            )

    def snapshot(self) -> Snapshot:
        """All there is, copied."""
        optimizer = copy_optimizer(self.optimizer)
        if self.loop.scaler is not None:
            optimizer["scaler"] = self.loop.scaler.state_dict()
        return replace(
            self.before,
            step=self.done,
            cost=float(self.tally.cost),
            images=self.tally.images,
            seconds=self.seconds,
            network=copy_state(self.network),
            optimizer=optimizer,
            player=self.player.state(),
        )


class _Rounds:
    """Between rounds: the player's opinion of the last network, and a new start from the first."""

    def __init__(
        self,
        network: nn.Module,
        player: LabelPlayer,
        source: Source,
        optimizer: torch.optim.Optimizer,
        schedule: Schedule,
        team: Team,
    ) -> None:
        self.network, self.player, self.source = network, player, source
        self.optimizer, self.schedule, self.team = optimizer, schedule, team
        if player.rounds > 1:
            self._first = copy_state(network), copy.deepcopy(optimizer.state_dict())

    def begin(self, finished: int) -> None:
        """Before an epoch: nothing, unless it is the first of a later round."""
        if self.player.rounds == 1 or finished == 0 or finished % self.schedule.epochs:
            return
        with torch.random.fork_rng(devices=_cuda_devices()):
            torch.manual_seed(self.schedule.seed * 1_000_003 + finished)
            opinions = predict_often(self.network, self.source, self.player.passes, self.team)
        self.player.begin_round(*opinions)
        state, moments = self._first
        load_network(self.network, state)
        self.optimizer.load_state_dict(copy.deepcopy(moments))  # which it takes as its own


def _is_quiet(record: Record, schedule: Schedule) -> bool:
    regret, movement = record["regret"], record["movement"]
    return (
        regret is not None
        and movement is not None
        and regret < schedule.regret_tolerance
        and movement < schedule.movement_tolerance
    )


def _quiet_epochs(history: list[Record], schedule: Schedule) -> int:
    count = 0
    for record in reversed(history):
        if record["epoch"] <= schedule.first_epoch or not _is_quiet(record, schedule):
            break
        count += 1
    return count


def _seed_all(seed: int, epoch: int, step: int) -> None:
    """Dropout and the like depend on where we are, not on how we came here."""
    number = ((seed * 1_000_003 + epoch) * 1_000_003 + step) * 1_000_003
    torch.default_generator.manual_seed(number % 2**63)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(number % 2**63)


def _cuda_devices() -> list[int]:
    return list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
