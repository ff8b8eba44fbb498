"""train(config): from a label file and a folder of images to a run folder.

end-to-end    everything is trained
linear        the backbone is frozen; its features are computed once, the last layer is trained
linear-init   linear first, then everything; the best linear weights, û and φ carry over
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor, nn

from g2netpl import expected
from g2netpl.boostlu import boosted
from g2netpl.checkpoints import (
    load_checkpoint,
    remove_checkpoint,
    save_checkpoint,
    write_json,
)
from g2netpl.config import PATHS, Mode, RunConfig
from g2netpl.description import announce, describe
from g2netpl.equilibrium import collapsed
from g2netpl.errors import InputError
from g2netpl.finishing import finish
from g2netpl.fitting import Record, Schedule, Snapshot, fit, load_network, make_optimizer
from g2netpl.game import LabelPlayer, Setup
from g2netpl.labels import POSITIVE, UNOBSERVED
from g2netpl.material import Material, read_material
from g2netpl.methods import dropout_of, find_method, make_player, method_options
from g2netpl.network import Network, build_backbone, build_network
from g2netpl.runs import (
    Run,
    check_folder,
    check_unchanged,
    claim_folder,
    load_run,
)
from g2netpl.sources import Sources
from g2netpl.trackers import Trackers, check_trackers, open_trackers
from g2netpl.tracking import epoch_bar, write_history

Watch = Callable[[Snapshot, nn.Module, LabelPlayer, Sources, bool], None]


def train(
    config: RunConfig,
    *,
    resume: bool = False,
    overwrite: bool = False,
    console: Console | None = None,
    on_epoch: Watch | None = None,
) -> Run:
    """Train as the configuration says, write the run folder and give the run back.

    `on_epoch` is called after every epoch with all there is: for experiments.
    """
    console = console or Console(quiet=True)
    began = time.perf_counter()
    config = _checked(config)
    if not resume:
        check_folder(Path(config.output), "train", overwrite=overwrite)
    material = read_material(config)
    description = describe(config, material)
    folder = Path(config.output)
    if resume:
        check_unchanged(folder, description)
        if (folder / "result.json").is_file():
            console.print(f"{folder}: this run is finished already")
            return load_run(folder)
    accelerator = _accelerator(config)
    backbone = build_backbone(
        config.backbone,
        pretrained=config.pretrained,
        weights=config.weights,
        image_size=config.image_size,
        seed=config.seed,
    )
    backbone.module.to(accelerator.device)
    sources = Sources(config, material, backbone, console)
    k, how = _expected_positives(config, material, sources)
    contest = _Contest.prepare(config, material, sources, accelerator, k)
    sources.prepare()
    if not resume:  # after everything that a mistake of the user could stop
        claim_folder(folder, "train", overwrite=overwrite)
    description |= {"expected_positives": k, "mean": backbone.mean, "std": backbone.std}
    write_json(folder / "run.json", description)
    announce(console, config, material, f"{k:.2f} ({how})")
    say = None if console.quiet else partial(console.print, markup=False, highlight=False)
    trackers = open_trackers(config.track, folder, config.model_dump(), say)
    with trackers:
        snapshot = _play(config, contest, sources, console, on_epoch, trackers)
    result = finish(config, material, sources, contest.network, contest.player, snapshot, k)
    for problem in sources.bad_images():
        console.print(f"left out: {problem}", highlight=False, soft_wrap=True)
    if material.test is not None and result["test_map"] is None:
        console.print(
            "the test labels have no observed negatives: no mAP can be had from them; where they "
            "are complete, say so with g2netpl convert --absent negative"
        )
    result["seconds"] = round(time.perf_counter() - began, 3)
    write_json(folder / "result.json", result)
    trackers.finish(result)
    remove_checkpoint(folder)
    return load_run(folder)


@dataclass(frozen=True)
class _Contest:
    """The two players on their device, ready for the first epoch."""

    network: Network
    player: LabelPlayer
    observed: Tensor
    k: float
    accelerator: Any

    @classmethod
    def prepare(
        cls, config: RunConfig, material: Material, sources: Sources, accelerator: Any, k: float
    ) -> "_Contest":
        observed = torch.from_numpy(np.array(material.visible.values)).to(accelerator.device)
        classes = len(material.table.classes)
        network = build_network(
            sources.backbone,
            classes,
            hidden=config.hidden,
            dropout=dropout_of(config.method, config.options),
            seed=config.seed,
        )
        if config.head == "boostlu":
            network = boosted(network, config.backbone, config.image_size)
        network.to(accelerator.device)
        first = _phases(config)[0].mode
        setup = Setup(observed, k, config.rate(first), config.seed, deep=first != "linear")
        player = make_player(config.method, config.options, setup)
        return cls(network, player, observed, k, accelerator)


@dataclass(frozen=True)
class _Phase:
    """One stretch of epochs with the same parameters free."""

    mode: Mode
    epochs: int
    first_epoch: int = 0


def _phases(config: RunConfig) -> list[_Phase]:
    if config.mode != "linear-init":
        return [_Phase(config.mode, config.epochs)]
    return [
        _Phase("linear", config.linear_epochs),
        _Phase("end-to-end", config.epochs, config.linear_epochs),
    ]


def _play(
    config: RunConfig,
    contest: _Contest,
    sources: Sources,
    console: Console,
    watch: Watch | None,
    trackers: Trackers,
) -> Snapshot:
    """Play all phases, from the last checkpoint if there is one."""
    folder, phases = Path(config.output), _phases(config)
    network, player = contest.network, contest.player
    snapshot, first = load_checkpoint(folder) or (Snapshot(), 0)
    for number, phase in enumerate(phases):
        if number < first:
            continue
        linear = phase.mode == "linear"
        free: nn.Module = network.head() if linear else network
        optimizer = make_optimizer(config.optimizer, free.parameters(), config.rate(phase.mode))
        free, optimizer = contest.accelerator.prepare(free, optimizer)
        player.begin_phase(config.rate(phase.mode), not linear)
        schedule = Schedule(
            epochs=phase.epochs,
            batch_size=config.batch_size,
            seed=config.seed,
            first_epoch=phase.first_epoch,
            total_epochs=sum(each.epochs for each in phases),
            patience=config.patience,
            regret_tolerance=config.regret_tolerance,
            movement_tolerance=config.movement_tolerance,
        )
        part = sources.training(linear)
        epochs = phase.epochs * player.rounds - snapshot.finished
        with epoch_bar(console, epochs, len(part)) as bar:

            def after_epoch(
                now: Snapshot,
                number: int = number,
                bar: Any = bar,
                free: nn.Module = free,
                linear: bool = linear,
            ) -> None:
                bar.epoch(now.history[-1])
                _warn_of_collapse(console, now.history, contest.k)
                write_history(folder / "history.jsonl", now.history)
                trackers.epoch(now.history[-1])
                if watch is not None:
                    watch(now, free, player, sources, linear)
                save_checkpoint(folder, now, number)

            snapshot = fit(
                free,
                player,
                part,
                contest.observed,
                contest.k,
                optimizer,
                schedule,
                sources.validation(linear),
                start=snapshot,
                on_epoch=after_epoch,
                on_batch=bar.advance,
                backward=contest.accelerator.backward,
            )
        if snapshot.converged:
            console.print(f"equilibrium after epoch {snapshot.history[-1]['epoch']}: stopped early")
        if linear:
            load_network(network.head(), snapshot.best_network)
        if number + 1 < len(phases):
            snapshot = Snapshot(history=snapshot.history)
    return snapshot


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


def _expected_positives(
    config: RunConfig, material: Material, sources: Sources
) -> tuple[float, str]:
    """k and where it comes from."""
    classes = len(material.table.classes)
    if isinstance(config.expected_positives, float):
        if config.expected_positives > classes:
            raise InputError(
                f"expected_positives: {config.expected_positives:g} per image, but there are only "
                f"{classes} classes"
            )
        return config.expected_positives, "given"
    if config.expected_positives == "truth":
        truth = material.table.values[material.training]
        truth = truth[(truth != UNOBSERVED).any(axis=1)]
        if not len(truth) or (truth == UNOBSERVED).any():
            raise InputError("expected_positives: 'truth' needs a file with full labels")
        return float((truth == POSITIVE).sum(axis=1).mean()), "the truth's mean"
    linear = config.mode != "end-to-end"
    return expected.estimate(
        material.visible.values,
        None if material.validation is None else material.validation.values,
        lambda rows: sources.some_features(rows, linear),
        config.seed,
    )


def _checked(config: RunConfig) -> RunConfig:
    """The configuration with its method's options read, or one line about what does not fit."""
    if find_method(config.method).full_labels_only and config.setting != "full":
        raise InputError(f"method {config.method} needs full labels: use it with --setting full")
    if find_method(config.method).two_views and config.mode != "end-to-end":
        raise InputError(f"method {config.method} compares views of images: use --mode end-to-end")
    if config.head == "boostlu" and config.mode == "linear":
        raise InputError("head boostlu: needs feature maps of the images: use --mode end-to-end")
    options = method_options(config.method, config.options)
    if config.mode == "linear-init" and getattr(options, "rounds", 1) > 1:
        raise InputError(
            f"method {config.method} trains the network anew each round: use --mode linear or "
            "end-to-end"
        )
    check_trackers(config.track)
    make_optimizer(config.optimizer, [nn.Parameter(torch.zeros(1))], 1e-3)
    changes: dict[str, Any] = {"options": {name: getattr(options, name) for name in config.options}}
    for name in PATHS:  # a run can be resumed from any folder
        if getattr(config, name) is not None:
            changes[name] = os.path.abspath(getattr(config, name))
    return config.model_copy(update=changes)


def _accelerator(config: RunConfig) -> Any:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    precision = {"float32": "no"}.get(config.precision, config.precision)
    AcceleratorState._reset_state(reset_partial_state=True)  # an earlier run may have differed
    accelerator = Accelerator(mixed_precision=precision, cpu=config.device == "cpu")
    if precision == "fp16" and accelerator.device.type == "cpu":
        raise InputError("precision: fp16 needs a GPU, and there is none; use bf16 or float32")
    return accelerator
