"""Epochs of the game: validation after each, the best one kept, an early stop at equilibrium.

Nothing here sees test data. The best epoch is chosen by validation mAP; where the validation part
has no observed negatives, mAP cannot be had, and the last epoch is taken.
"""

import copy
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from g2netpl.data import Source, training_batches
from g2netpl.equilibrium import Equilibrium
from g2netpl.errors import InputError, UserError, did_you_mean
from g2netpl.evaluation import Truth, can_rank, mean_average_precision, predict_all, predict_often
from g2netpl.game import LabelPlayer, play_epoch
from g2netpl.observed import ObservedLabels

Record = dict[str, Any]
State = dict[str, Tensor]


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


@dataclass
class Snapshot:
    """Everything after a finished epoch: what a checkpoint holds and a resume starts from.

    Optimizer and player state are the live tensors, which the next epoch moves: save, or copy.
    """

    finished: int = 0
    network: State = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    player: State = field(default_factory=dict)
    best_network: State = field(default_factory=dict)
    best_epoch: int = 0  # from 1; 0 before the first
    best_map: float | None = None
    history: list[Record] = field(default_factory=list)
    converged: bool = False


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
    on_epoch: Callable[[Snapshot], None] | None = None,
    on_batch: Callable[[int], None] | None = None,
    backward: Callable[[Tensor], object] = Tensor.backward,
) -> Snapshot:
    """Play all epochs; returns the last snapshot, which holds the best and the last network."""
    ranked = validation is not None and can_rank(validation.truth)
    now = start or Snapshot()
    rounds = _Rounds(network, player, source, optimizer, schedule)  # before a resume loads both
    if now.finished:
        load_network(network, now.network)
        optimizer.load_state_dict(now.optimizer)
        player.load_state(now.player)
    equilibrium = Equilibrium(source, observed, expected, schedule.seed)
    equilibrium.remember(player)
    quiet = _quiet_epochs(now.history, schedule)
    while now.finished < schedule.epochs * player.rounds and not now.converged:
        rounds.begin(now.finished)
        epoch = schedule.first_epoch + now.finished
        progress = epoch / (schedule.total * player.rounds)
        began = time.perf_counter()
        batches = training_batches(source, observed, schedule.batch_size, schedule.seed, epoch)
        if on_batch is not None:
            batches = _counted(batches, on_batch)
        with torch.random.fork_rng(devices=_cuda_devices()):
            torch.manual_seed(schedule.seed * 1_000_003 + epoch)  # dropout and the like
            cost = play_epoch(network, player, batches, optimizer, progress, expected, backward)
        seconds = time.perf_counter() - began
        if not cost < float("inf"):
            raise NumericalStop(
                f"epoch {epoch + 1}: the network's cost is {cost}; use a smaller learning rate"
            )
        score = None
        if ranked and validation is not None:
            score = mean_average_precision(
                predict_all(network, validation.source), validation.truth
            )
        record: Record = {
            "epoch": epoch + 1,
            "cost": cost,
            "validation_map": score,
            **equilibrium.read(network, player, progress),
            "seconds": seconds,
            "images_per_second": len(source) / max(seconds, 1e-9),
        }
        quiet = quiet + 1 if _is_quiet(record, schedule) else 0
        state = copy_state(network)
        better = score is None or now.best_map is None or score > now.best_map
        now = Snapshot(
            finished=now.finished + 1,
            network=state,
            optimizer=optimizer.state_dict(),
            player=player.state(),
            best_network=state if better else now.best_network,
            best_epoch=epoch + 1 if better else now.best_epoch,
            best_map=score if better else now.best_map,
            history=[*now.history, record],
            converged=0 < schedule.patience <= quiet,
        )
        if on_epoch is not None:
            on_epoch(now)
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
    ) -> None:
        self.network, self.player, self.source = network, player, source
        self.optimizer, self.schedule = optimizer, schedule
        if player.rounds > 1:
            self._first = copy_state(network), copy.deepcopy(optimizer.state_dict())

    def begin(self, finished: int) -> None:
        """Before an epoch: nothing, unless it is the first of a later round."""
        if self.player.rounds == 1 or finished == 0 or finished % self.schedule.epochs:
            return
        with torch.random.fork_rng(devices=_cuda_devices()):
            torch.manual_seed(self.schedule.seed * 1_000_003 + finished)
            opinions = predict_often(self.network, self.source, self.player.passes)
        self.player.begin_round(*opinions)
        state, moments = self._first
        load_network(self.network, state)
        self.optimizer.load_state_dict(copy.deepcopy(moments))  # which it takes as its own


def make_optimizer(
    name: str, parameters: Iterable[nn.Parameter], rate: float
) -> torch.optim.Optimizer:
    """An optimizer of torch.optim by name; one that cannot train here is refused."""
    kind = getattr(torch.optim, name, None)
    if not isinstance(kind, type) or not issubclass(kind, torch.optim.Optimizer):
        known = [each for each in dir(torch.optim) if each[0].isupper() and each != "Optimizer"]
        raise InputError(f"unknown optimizer {name!r} ({did_you_mean(name, known)})")
    trial = nn.Parameter(torch.zeros(1))
    trial.grad = torch.zeros(1)
    try:
        kind([trial], lr=rate).step()  # type: ignore[call-arg]
        optimizer = _fused(kind, list(parameters), rate)
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as problem:
        first = str(problem).splitlines()[0]
        raise InputError(f"optimizer {name}: cannot be used here ({first})") from None
    return optimizer


def _fused(
    kind: type[torch.optim.Optimizer], parameters: list[nn.Parameter], rate: float
) -> torch.optim.Optimizer:
    """In one kernel where there is one: a step of a linear layer is about a sixth cheaper."""
    build: Callable[..., torch.optim.Optimizer] = kind
    if all(parameter.is_contiguous() for parameter in parameters):  # it asks for one layout
        try:
            return build(parameters, lr=rate, fused=True)
        except (TypeError, RuntimeError):
            pass
    return build(parameters, lr=rate)


def copy_state(network: nn.Module) -> State:
    """A copy of the network's tensors in main memory."""
    module = getattr(network, "module", network)
    return {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in module.state_dict().items()
    }


def load_network(network: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Put a copied state back."""
    getattr(network, "module", network).load_state_dict(state)


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


def _counted(batches: Any, on_batch: Callable[[int], None]) -> Any:
    for batch in batches:
        yield batch
        on_batch(len(batch))


def _cuda_devices() -> list[int]:
    return list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
