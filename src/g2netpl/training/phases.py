"""The phases of a training: who plays in each, and how it is kept on the disk meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from g2netpl.base.console import Console
from g2netpl.base.processes import Processes
from g2netpl.base.signals import Interrupts, Stopped
from g2netpl.game.mapped_memory import MemoryPlace
from g2netpl.game.methods import make_player, needs_of
from g2netpl.game.network.boostlu import boosted
from g2netpl.game.network.network import Backbone, Network, build_network
from g2netpl.game.network.optimizers import make_optimizer
from g2netpl.game.observed import ObservedLabels
from g2netpl.game.player import LabelPlayer, Setup, take_up
from g2netpl.runs.config import Mode, RunConfig
from g2netpl.training.checkpoints import checkpoint_bytes, load_checkpoint
from g2netpl.training.data import Material
from g2netpl.training.epochs import Schedule, fit
from g2netpl.training.equilibrium import collapsed, restless, restless_words
from g2netpl.training.inputs import Sources
from g2netpl.training.progress import epoch_bar, write_history
from g2netpl.training.saving import Keeper
from g2netpl.training.snapshots import Record, Snapshot, load_network
from g2netpl.training.steps import Loop

Watch = Callable[[Snapshot, nn.Module, LabelPlayer, Sources, bool], None]


def network_of(config: RunConfig, backbone: Backbone, classes: int) -> Network:
    """The network that a run asks for."""
    dropout = needs_of(config.method, config.options).dropout
    network = build_network(
        backbone, classes, hidden=config.hidden, dropout=dropout, seed=config.seed
    )
    if config.head == "boostlu":
        return boosted(network, config.backbone, config.image_size)
    return network


@dataclass(frozen=True)
class Players:
    """The two players on their device, ready for the first epoch."""

    network: Network
    player: LabelPlayer
    observed: ObservedLabels
    k: float
    accelerator: Any
    processes: Processes

    @classmethod
    def prepare(
        cls,
        config: RunConfig,
        material: Material,
        sources: Sources,
        accelerator: Any,
        processes: Processes,
        k: float,
    ) -> "Players":
        """A network for the classes, and the label player of the method."""
        observed = ObservedLabels.of(material.visible.held, accelerator.device)
        network = network_of(config, sources.backbone, len(material.table.classes))
        network.to(accelerator.device)
        phases = phases_of(config)
        first = phases[0].mode
        setup = Setup(
            observed,
            k,
            config.rate(first),
            config.seed,
            sum(phase.epochs for phase in phases),
            deep=first != "linear",
            memory_place=MemoryPlace(
                Path(config.output) / "labels", config.label_memory * 1024**2, processes
            ),
        )
        player = make_player(config.method, config.options, setup)
        return cls(network, player, observed, k, accelerator, processes)

    def bytes(self) -> int:
        """About the size of a checkpoint: two networks, two moments, the labels."""
        weights = dict(self.network.state_dict())
        images, classes = self.observed.shape
        memories = len(self.player.memories)
        return checkpoint_bytes([weights] * 4) + (8 * memories + 1) * images * classes


@dataclass(frozen=True)
class Phase:
    """One stretch of epochs with the same parameters free."""

    mode: Mode
    epochs: int
    first_epoch: int = 0


def phases_of(config: RunConfig) -> list[Phase]:
    """What is trained, one after the other."""
    if config.mode != "linear-init":
        return [Phase(config.mode, config.epochs)]
    return [
        Phase("linear", config.linear_epochs),
        Phase("end-to-end", config.epochs, config.linear_epochs),
    ]


def play(
    config: RunConfig,
    contest: Players,
    material: Material,
    sources: Sources,
    console: Console,
    watch: Watch | None,
    interrupts: Interrupts,
    begin: Callable[[], None],
    on_saved: Callable[[], None],
) -> Snapshot:
    """Play all phases, from the last checkpoint; without one, `begin` is called first.

    `on_saved` is called whenever a checkpoint is on the disk.
    """
    folder, player, processes = Path(config.output), contest.player, contest.processes

    def names(rows: list[int]) -> list[str]:
        return [material.table.images[material.training[row]] for row in rows]

    minutes, steps = config.checkpoint_minutes, config.checkpoint_steps
    keeper = Keeper(folder, interrupts, processes, minutes, steps, names, on_saved)
    found = _last_checkpoint(folder, player, processes, console)
    snapshot, first = found or (Snapshot(), 0)
    if found is None:
        begin()
    else:
        _say_where(console, snapshot, phases_of(config)[first])
        if processes.is_main:  # which may tell of an epoch that was not saved, or not at all
            write_history(folder / "history.jsonl", snapshot.history)
    try:
        return _play_phases(
            config, contest, sources, console, watch, interrupts, keeper, snapshot, first
        )
    except Stopped:
        raise keeper.stopped() from None
    except Exception:
        keeper.writer.settle()  # let it finish what it is writing
        raise


def _play_phases(
    config: RunConfig,
    contest: Players,
    sources: Sources,
    console: Console,
    watch: Watch | None,
    interrupts: Interrupts,
    keeper: Keeper,
    snapshot: Snapshot,
    first: int,
) -> Snapshot:
    folder, phases = Path(config.output), phases_of(config)
    network, player, processes = contest.network, contest.player, contest.processes
    for number, phase in enumerate(phases):
        if number < first:
            continue
        linear, keeper.phase = phase.mode == "linear", number
        free: nn.Module = network.head() if linear else network
        optimizer = make_optimizer(config.optimizer, free.parameters(), config.rate(phase.mode))
        with interrupts.noted():
            processes.barrier()  # what comes now needs all ranks, and all of them well
            free, optimizer = contest.accelerator.prepare(free, optimizer)
        player.begin_phase(config.rate(phase.mode), not linear)
        part = sources.training(linear)
        epochs = phase.epochs * player.needs.rounds - snapshot.finished
        with epoch_bar(console, epochs, len(part)) as bar:

            def after_epoch(
                now: Snapshot, bar: Any = bar, free: nn.Module = free, linear: bool = linear
            ) -> None:
                bar.epoch(now.history[-1])
                _warn_of_collapse(console, now.history, contest.k)
                _warn_of_jumps(console, now.history)
                if watch is not None:
                    watch(now, free, player, sources, linear)
                keeper.epoch(now)
                if processes.is_main:
                    write_history(folder / "history.jsonl", now.history)

            loop = Loop(
                on_epoch=after_epoch,
                on_batch=bar.advance,
                on_step=keeper.step,
                on_trained=keeper.trained,
                on_non_finite=keeper.non_finite,
                stepping=interrupts.noted,
                backward=contest.accelerator.backward,
                scaler=contest.accelerator.scaler,
                processes=processes,
            )
            snapshot = fit(
                free,
                player,
                part,
                contest.observed,
                contest.k,
                optimizer,
                _schedule(config, phase, phases),
                sources.validation(linear),
                start=snapshot,
                loop=loop,
            )
        keeper.writer.finish()
        if snapshot.converged:
            console.print(f"equilibrium after epoch {snapshot.history[-1]['epoch']}: stopped early")
        if linear:
            load_network(network.head(), snapshot.best_network)
        if number + 1 < len(phases):
            snapshot = Snapshot(history=snapshot.history, non_finite=snapshot.non_finite)
    return snapshot


def _last_checkpoint(
    folder: Path, player: LabelPlayer, processes: Processes, console: Console
) -> tuple[Snapshot, int] | None:
    """The last checkpoint and its phase, if there is one. The first rank chooses for all."""
    moment = (-1.0, -1.0)

    def accept(saved: Snapshot) -> None:
        if not processes.is_main and moment != (len(saved.history), saved.step):
            raise ValueError("is not the one that the first process has loaded")
        take_up(player, saved.player)

    found = load_checkpoint(folder, accept, console.print) if processes.is_main else None
    if found is not None:
        moment = (len(found[0].history), found[0].step)
    moment = (processes.broadcast(moment[0]), processes.broadcast(moment[1]))
    if not processes.is_main and moment[0] >= 0:
        found = load_checkpoint(folder, accept, console.print)
    return found


def _say_where(console: Console, saved: Snapshot, phase: Phase) -> None:
    """Where a resume goes on."""
    steps = f", {saved.step} steps into the next" if saved.step else ""
    console.print(
        f"going on after epoch {phase.first_epoch + saved.finished}{steps}", highlight=False
    )


def _schedule(config: RunConfig, phase: Phase, phases: list[Phase]) -> Schedule:
    return Schedule(
        epochs=phase.epochs,
        batch_size=config.batch_size,
        seed=config.seed,
        first_epoch=phase.first_epoch,
        total_epochs=sum(each.epochs for each in phases),
        patience=config.patience,
        regret_tolerance=config.regret_tolerance,
        movement_tolerance=config.movement_tolerance,
    )


def _warn_of_collapse(console: Console, history: list[Record], k: float) -> None:
    """Say once when the predictions of the game have run away from k, after the first epochs."""
    away = [collapsed(record, k) and record["soft_positives"] is not None for record in history]
    if len(history) >= 3 and away[-1] and not any(away[2:-1]):
        seen = history[-1]["predicted_positives"]
        console.print(
            f"warning: the network now predicts {seen:.2f} positives per image, k is {k:.2f}; "
            "if mAP suffers, try a smaller --learning-rate",
            highlight=False,
        )


def _warn_of_jumps(console: Console, history: list[Record]) -> None:
    """Say once when the soft labels do not settle."""
    if restless(history) and not any(restless(history[:n]) for n in range(len(history))):
        console.print(f"warning: {restless_words(history)}", highlight=False)
