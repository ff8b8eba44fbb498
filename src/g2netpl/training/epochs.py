"""Epochs of the game: validation after each, the best one kept, an early stop at equilibrium.

Nothing here sees test data. The best epoch is chosen by validation mAP; where the validation part
has no class with both signs observed, mAP cannot be had, and the last epoch is taken. Of a player
with several rounds the best epoch is that of the round which is played, so in the end of the last:
what an earlier round found lacks the labels that it was played for.
"""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from g2netpl.base.processes import Processes
from g2netpl.game.batches import training_batches
from g2netpl.game.loop import play_epoch
from g2netpl.game.network.predicting import opinions, predict_all
from g2netpl.game.observed import ObservedLabels
from g2netpl.game.player import LabelPlayer, kept_state, take_up
from g2netpl.images.loader import Source
from g2netpl.runs.metrics import Truth, can_rank, mean_average_precision
from g2netpl.runs.records import Epoch
from g2netpl.training.equilibrium import Equilibrium
from g2netpl.training.snapshots import Snapshot, copy_state, load_network
from g2netpl.training.steps import Loop, Steps


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


def fit(
    network: nn.Module,
    player: LabelPlayer,
    source: Source,
    observed: ObservedLabels | Tensor,
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
    # before a resume
    rounds = _Rounds(network, player, source, optimizer, schedule, loop.processes)
    if not now.is_start:
        load_network(network, now.network)
        optimizer.load_state_dict(now.optimizer)
        if loop.scaler is not None and "scaler" in now.optimizer:
            loop.scaler.load_state_dict(now.optimizer["scaler"])
        take_up(player, now.player)
    equilibrium = Equilibrium(source, observed, expected, schedule.seed)
    equilibrium.remember(player)
    quiet = _quiet_epochs(now.history, schedule)
    while now.finished < schedule.epochs * player.needs.rounds and not now.converged:
        if now.step == 0 and rounds.begin(now.finished):
            equilibrium.remember(player)
        epoch = schedule.first_epoch + now.finished
        progress = epoch / (schedule.total * player.needs.rounds)
        steps = Steps(network, player, optimizer, epoch, schedule.seed, now, loop)
        batches = training_batches(
            source,
            observed,
            schedule.batch_size,
            schedule.seed,
            epoch,
            first=now.step,
            processes=loop.processes,
        )
        with loop.stepping(), torch.random.fork_rng(devices=_cuda_devices()):
            cost = play_epoch(
                network,
                player,
                steps.counted(batches),
                optimizer,
                progress,
                expected,
                backward=loop.backward,
                tally=steps.tally,
                on_non_finite=steps.non_finite,
                processes=loop.processes,
            )
        seconds = steps.trained.seconds
        score = None
        if ranked and validation is not None:
            scores = predict_all(network, validation.source, processes=loop.processes)
            score = loop.processes.broadcast(mean_average_precision(scores, validation.truth))
        record: Epoch = {
            "epoch": epoch + 1,
            "cost": cost,
            "validation_map": score,
            **equilibrium.read(network, player, progress),
            "seconds": seconds,
            "images_per_second": len(source) / max(seconds, 1e-9),
        }
        quiet = quiet + 1 if _is_quiet(record, schedule) else 0
        # ranks may differ in the last bit, but not in this
        quiet = int(loop.processes.broadcast(quiet))
        anew = now.finished % schedule.epochs == 0  # the first of a round
        better = anew or score is None or now.best_map is None or score > now.best_map
        state = steps.trained.network
        now = Snapshot(
            finished=now.finished + 1,
            non_finite=steps.non_finite_in_a_row,
            network=state,
            optimizer=steps.trained.optimizer,
            player=kept_state(player),
            best_network=state if better else now.best_network,
            best_epoch=epoch + 1 if better else now.best_epoch,
            best_map=score if better else now.best_map,
            history=[*now.history, record],
            converged=0 < schedule.patience <= quiet,
        )
        loop.on_epoch(now)
    return now


class _Rounds:
    """Between rounds: the player's opinion of the last network, and a new start from the first."""

    def __init__(
        self,
        network: nn.Module,
        player: LabelPlayer,
        source: Source,
        optimizer: torch.optim.Optimizer,
        schedule: Schedule,
        processes: Processes,
    ) -> None:
        self.network, self.player, self.source = network, player, source
        self.optimizer, self.schedule, self.processes = optimizer, schedule, processes
        if player.needs.rounds > 1:
            self._first = copy_state(network), copy.deepcopy(optimizer.state_dict())

    def begin(self, finished: int) -> bool:
        """Before an epoch: nothing, unless it is the first of a later round."""
        if self.player.needs.rounds == 1 or finished == 0 or finished % self.schedule.epochs:
            return False
        with torch.random.fork_rng(devices=_cuda_devices()):
            torch.manual_seed(self.schedule.seed * 1_000_003 + finished)
            self.player.begin_round(
                opinions(self.network, self.source, self.player.needs.passes, self.processes)
            )
        state, moments = self._first
        load_network(self.network, state)
        self.optimizer.load_state_dict(copy.deepcopy(moments))  # which it takes as its own
        return True


def _is_quiet(record: Epoch, schedule: Schedule) -> bool:
    regret, movement = record["regret"], record["movement"]
    return (
        regret is not None
        and movement is not None
        and regret < schedule.regret_tolerance
        and movement < schedule.movement_tolerance
    )


def _quiet_epochs(history: list[Epoch], schedule: Schedule) -> int:
    count = 0
    for record in reversed(history):
        if record["epoch"] <= schedule.first_epoch or not _is_quiet(record, schedule):
            break
        count += 1
    return count


def _cuda_devices() -> list[int]:
    return list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
