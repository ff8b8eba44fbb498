"""One training, however its data come: photos, a features folder, arrays, scenes.

    session = Session(config, data, inputs)    # a network and a label player
    snapshot = session.play()                  # phases of epochs

end-to-end    everything is trained
top           the upper blocks are trained; what the frozen ones make of images is computed once
linear        the backbone is frozen; its features are computed once, the last layer is trained
linear-init   linear first, then everything; the best linear weights, û and φ carry over

`train` does it in a run folder; comparisons, plans and the estimator do it in memory.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from g2netpl.base.arrays import Scores
from g2netpl.base.console import Console
from g2netpl.base.errors import InputError
from g2netpl.base.launch import device_of
from g2netpl.base.processes import ALONE, Processes
from g2netpl.game.methods import find_method, make_player, needs_of
from g2netpl.game.network.network import Backbone, Network, build_network, starts_trained
from g2netpl.game.network.optimizers import make_optimizer
from g2netpl.game.network.predicting import predict_all
from g2netpl.game.network.presence import Presence
from g2netpl.game.player import LabelPlayer, Setup
from g2netpl.images.features import Features
from g2netpl.images.loader import Source
from g2netpl.labels.observation import Observation, look
from g2netpl.labels.table import LabelTable
from g2netpl.runs.config import PhaseMode, RunConfig
from g2netpl.runs.records import read_training
from g2netpl.training import expected_positives as expected
from g2netpl.training.checkpoints import bytes_of
from g2netpl.training.checks import FULL, VIEWS, check_method, check_view
from g2netpl.training.data import TrainingData, observe_data
from g2netpl.training.devices import OneDevice
from g2netpl.training.epochs import Loop, Schedule, fit
from g2netpl.training.inputs import ArrayInputs, ImageInputs, Inputs, backbone_of
from g2netpl.training.progress import Epochs, warn_of_collapse, warn_of_jumps, warn_of_loss
from g2netpl.training.saving import CheckpointSaver
from g2netpl.training.snapshots import Snapshot, State, load_network

_FEW_STEPS = 1000  # of a network of shares at the usual learning rate; with more it is smaller
_SMALLEST_RATE = 0.3  # times the usual one
_WAYS_OUT = {FULL: "some are unobserved", VIEWS: "give image paths and mode='end-to-end'"}

Watch = Callable[[Snapshot, nn.Module, LabelPlayer, Inputs, PhaseMode], None]


@dataclass(frozen=True)
class Phase:
    """One stretch of epochs with the same parameters free."""

    mode: PhaseMode
    epochs: int
    first_epoch: int = 0


def phases_of(config: RunConfig, images: int) -> list[Phase]:
    """What is trained on so many images, one after the other."""
    *before, last = config.modes
    return [
        *(Phase(mode, config.linear_epochs) for mode in before),
        Phase(last, config.epochs_on(images), len(before) * config.linear_epochs),
    ]


class Session:
    """Data and inputs, a network and its label player on their device, ready to play.

    Without `k` it is found as the configuration says; `accelerator` is accelerate's where there are
    several devices or another precision.
    """

    def __init__(
        self,
        config: RunConfig,
        data: TrainingData,
        inputs: Inputs,
        k: expected.Expected | None = None,
        accelerator: Any = None,
        processes: Processes = ALONE,
    ) -> None:
        self.config, self.data, self.inputs, self.processes = config, data, inputs, processes
        self.accelerator: Any = accelerator or OneDevice(torch.device(device_of(config.device)))
        self.phases = phases_of(config, len(data.training))
        found, self.origin_of_k, alike = k or expected.find(config, data, inputs)
        self.k = processes.broadcast(found)
        alike = bool(processes.broadcast(float(alike)))
        self.observation, self.reason = observation_of(config, data, self.k, alike)
        self.network = network_of(
            config,
            inputs.backbone,
            len(data.table.classes),
            self.k if self.observation == "draw" else None,
        )
        self.network.to(self.device)
        self.observed = torch.tensor(data.visible.values, device=self.device)
        first = self.phases[0]
        setup = Setup(
            self.observed,
            self.k,
            self.rate(first.mode),
            config.seed,
            self._epochs,
            deep=first.mode != "linear",
        )
        self.player = make_player(config.method, config.options, setup)

    def rate(self, mode: PhaseMode) -> float:
        """The learning rate of everything, but for shares that are one of two experts."""
        rate = self.config.rate(mode)
        alone = self.network.draws and not self.network.pools
        return rate * self._patience if alone and self.config.given_rate(mode) is None else rate

    @property
    def _epochs(self) -> int:
        """Of all phases."""
        return sum(phase.epochs for phase in self.phases)

    @property
    def _patience(self) -> float:
        """Shares are learnt faster, so of many steps each is smaller."""
        steps = self._epochs * -(-len(self.data.training) // self.config.batch_size)
        return min(1.0, max(_SMALLEST_RATE, _FEW_STEPS / max(steps, 1)))

    @property
    def told(self) -> str:
        """What is taken to be so about the labels, in one line."""
        return (
            f"observation: {self.observation} ({self.reason}); "
            f"k = {self.k:.2f} ({self.origin_of_k})"
        )

    @property
    def device(self) -> torch.device:
        """Where it is trained."""
        device: torch.device = self.accelerator.device
        return device

    @property
    def mode(self) -> PhaseMode:
        """What learns in the last phase."""
        return self.phases[-1].mode

    @property
    def learner(self) -> Network:
        """What is trained in the last phase, and predicts in the end."""
        return self.part_of_network(self.mode)

    def part_of_network(self, mode: PhaseMode) -> Network:
        """What learns in a phase, for inputs of that phase; its modules are the network's own."""
        if mode == "end-to-end":
            return self.network
        return self.network.above(self.inputs.cut.upper if mode == "top" else nn.Identity())

    def play(
        self,
        *,
        console: Console | None = None,
        watch: Watch | None = None,
        saver: CheckpointSaver | None = None,
        start: tuple[Snapshot, int] | None = None,
    ) -> Snapshot:
        """Play all phases, or what is left of them after a snapshot and its phase.

        `watch` is called after every epoch; a saver keeps checkpoints.
        """
        console = console or Console(quiet=True)
        snapshot, first = start or (Snapshot(), 0)
        for number, phase in list(enumerate(self.phases))[first:]:
            if number > first:
                snapshot = Snapshot(history=snapshot.history, non_finite=snapshot.non_finite)
            if saver is not None:
                saver.phase = number
            snapshot = self._play_phase(phase, snapshot, console, watch, saver)
        warn_of_loss(console, snapshot.history, self.phases[-1].first_epoch)
        return snapshot

    def _play_phase(
        self,
        phase: Phase,
        start: Snapshot,
        console: Console,
        watch: Watch | None,
        saver: CheckpointSaver | None,
    ) -> Snapshot:
        learner, optimizer = self._begin_phase(phase, saver)
        source = self.inputs.training(phase.mode)
        left = phase.epochs * self.player.needs.rounds - start.finished
        finished, held = phase.first_epoch + start.finished, self.inputs.validation(phase.mode)
        shown = (left, len(source), finished, 0 if held is None else len(held.source))
        with Epochs(console, *shown) as bar:

            def after_epoch(now: Snapshot) -> None:
                bar.epoch(now.history[-1])
                warn_of_collapse(console, now.history, self.k, self._epochs)
                warn_of_jumps(console, now.history)
                if watch is not None:
                    watch(now, learner, self.player, self.inputs, phase.mode)
                if saver is not None:
                    saver.epoch(now)
                    saver.write_history(now)

            loop = Loop(
                on_epoch=after_epoch,
                on_batch=bar.advance,
                backward=self.accelerator.backward,
                scaler=self.accelerator.scaler,
                processes=self.processes,
                **({} if saver is None else saver.hooks),
            )
            game = (learner, self.player, source, self.observed, self.k, optimizer)
            snapshot = fit(*game, self._schedule(phase), held, start=start, loop=loop)
        if saver is not None:
            saver.writer.finish()
        if snapshot.converged:
            console.print(f"equilibrium after epoch {snapshot.history[-1]['epoch']}: stopped early")
        if phase.mode == "linear":
            load_network(self.part_of_network(phase.mode), snapshot.best_network)
        return snapshot

    def _begin_phase(
        self, phase: Phase, saver: CheckpointSaver | None
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """What learns and how, on its device; the player is told."""
        rate = self.rate(phase.mode)
        learner: nn.Module = self.part_of_network(phase.mode)
        # linear epochs went by what batch norm gathered in pretraining: to gather anew undoes them
        self.network.keeps_statistics = phase.first_epoch > 0 and _is_trained(self.config)
        optimizer = self._optimizer(learner, rate)
        with nullcontext() if saver is None else saver.interrupts.noted():
            self.processes.barrier()  # what comes now needs all ranks, and all of them well
            learner, optimizer = self.accelerator.prepare(learner, optimizer)
        self.player.begin_phase(rate, phase.mode != "linear")
        return learner, optimizer

    def _optimizer(self, learner: nn.Module, rate: float) -> torch.optim.Optimizer:
        """Of all that learns; shares that are one of two experts have a rate of their own."""
        classifier, name = self.network.classifier, self.config.optimizer
        if not isinstance(classifier, Presence) or not self.network.pools:
            return make_optimizer(name, learner.parameters(), rate)
        shares = list(classifier.shares.parameters())
        slow = {id(each) for each in shares}
        rest = [each for each in learner.parameters() if id(each) not in slow]
        optimizer = make_optimizer(name, rest, rate)
        optimizer.add_param_group({"params": shares, "lr": rate * self._patience})
        return optimizer

    def _schedule(self, phase: Phase) -> Schedule:
        config = self.config
        return Schedule(
            epochs=phase.epochs,
            batch_size=config.batch_size,
            seed=config.seed,
            first_epoch=phase.first_epoch,
            total_epochs=self._epochs,
            patience=config.patience,
            regret_tolerance=config.regret_tolerance,
            movement_tolerance=config.movement_tolerance,
            ema=config.ema,
        )

    def predict(self, state: State, source: Source) -> Scores:
        """Scores (N, L) with these weights, which the network then has."""
        load_network(self.learner, state)
        return predict_all(self.learner, source, processes=self.processes)

    def unsettle(self) -> None:
        """Let a network of shares that was calibrated learn again."""
        if isinstance(self.network.classifier, Presence):
            self.network.classifier.begin_anew(self.k)

    def checkpoint_bytes(self) -> int:
        """About the size of a checkpoint: two networks, or three, two moments, the labels."""
        images, classes = self.observed.shape
        labels = (8 * len(self.player.memories) + 1) * images * classes
        return (4 + (self.config.ema is not None)) * bytes_of(self.network.state_dict()) + labels


def observation_of(
    config: RunConfig, data: TrainingData, k: float, alike: bool
) -> tuple[Observation, str]:
    """How the labels of a training came to be known, and who says so."""
    asked = config.observation or find_method(config.method).observation
    if asked == "auto" and config.one_of and len(data.table.classes) > 1:
        return "draw", "one class per image: its share is its chance"
    if asked == "auto" and config.resume_labels is not None:
        before = read_training(config.resume_labels)  # a review asks what it likes
        return before.get("observation", "random"), "as before the review"
    if asked == "auto" and config.mode != "linear" and not _is_trained(config):
        return "random", "the backbone starts at random"
    if asked == "auto":
        return look(data.visible.values, k, alike)
    if asked == "draw" and len(data.table.classes) < 2:
        raise InputError(
            "observation draw: expected two classes or more to draw from, got one; use method "
            "g2netpl without --observation"
        )
    return asked, "given" if config.observation else "as the method has it"


def _is_trained(config: RunConfig) -> bool:
    return starts_trained(config.backbone, config.pretrained, config.weights)


def network_of(
    config: RunConfig, backbone: Backbone, classes: int, draws: float | None = None
) -> Network:
    """The network that a run asks for; `draws` is k where labels are named by draws."""
    needs = needs_of(config.method, config.options)
    return build_network(
        backbone,
        classes,
        hidden=config.hidden,
        dropout=needs.dropout,
        seed=config.seed,
        draws=draws,
        pools=needs.pools,
    )


def on_features(config: RunConfig, features: Features, table: LabelTable) -> Session:
    """A training on feature vectors (N, D)."""
    config = config.model_copy(update={"mode": "linear"})
    _check_method(config, table, images=False)
    data = observe_data(config, table)
    return Session(config, data, ArrayInputs(data, torch.from_numpy(features)))


def on_images(config: RunConfig, paths: list[str], table: LabelTable, console: Console) -> Session:
    """A training on image files, or on what the frozen part of the backbone makes of them."""
    _check_method(config, table, images=True)
    data = replace(observe_data(config, table), paths=paths)
    backbone = backbone_of(config)
    backbone.module.to(device_of(config.device))
    inputs = ImageInputs(config, data, backbone, console)
    inputs.prepare()
    return Session(config, data, inputs)


def _check_method(config: RunConfig, table: LabelTable, images: bool) -> None:
    check_view(config, "mode='end-to-end'")
    given, full = (config.method, config.options), table.is_complete
    check_method(*given, full=full, mode=config.mode, images=images, ways_out=_WAYS_OUT)
