"""train(config): from a label file and a folder of images to a run folder.

end-to-end    everything is trained
linear        the backbone is frozen; its features are computed once, the last layer is trained
linear-init   linear first, then everything; the best linear weights, û and φ carry over
"""

import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import nn

from g2netpl import expected
from g2netpl.checkpoints import (
    load_checkpoint,
    remove_checkpoint,
    save_checkpoint,
    save_state,
    write_json,
)
from g2netpl.config import Mode, RunConfig
from g2netpl.equilibrium import collapsed
from g2netpl.errors import InputError, did_you_mean
from g2netpl.evaluation import Scores, mean_average_precision, predict_all
from g2netpl.fitting import Record, Schedule, Snapshot, State, fit, load_network
from g2netpl.game import LabelPlayer, Setup
from g2netpl.labels import POSITIVE, UNOBSERVED
from g2netpl.material import Material, read_material
from g2netpl.methods import find_method, make_player, method_options
from g2netpl.network import Network, build_backbone, build_network
from g2netpl.runs import RUN_FORMAT, Run, check_unchanged, claim_folder, load_run
from g2netpl.sources import Sources
from g2netpl.tracking import epoch_bar, write_history

_ESTIMATE_IMAGES = 4000


def train(
    config: RunConfig,
    *,
    resume: bool = False,
    overwrite: bool = False,
    console: Console | None = None,
) -> Run:
    """Train as the configuration says, write the run folder and give the run back."""
    console = console or Console(quiet=True)
    began = time.perf_counter()
    _check_choices(config)
    material = read_material(config)
    description = _describe(config, material)
    folder = Path(config.output)
    if resume:
        check_unchanged(folder, description)
        if (folder / "result.json").is_file():
            console.print(f"{folder}: this run is finished already")
            return load_run(folder)
    backbone = build_backbone(
        config.backbone, pretrained=config.pretrained, weights=config.weights, seed=config.seed
    )
    sources = Sources(config, material, backbone, console)
    if not resume:
        claim_folder(folder, overwrite=overwrite)
    k, how = _expected_positives(config, material, sources)
    description |= {"expected_positives": k, "mean": backbone.mean, "std": backbone.std}
    write_json(folder / "run.json", description)
    _announce(console, config, material, f"{k:.2f} ({how})")
    network, player, snapshot = _play(config, material, sources, k, console)
    result = _finish(config, material, sources, network, player, snapshot)
    result["seconds"] = round(time.perf_counter() - began, 3)
    write_json(folder / "result.json", result)
    remove_checkpoint(folder)
    return load_run(folder)


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
    config: RunConfig, material: Material, sources: Sources, k: float, console: Console
) -> tuple[Network, LabelPlayer, Snapshot]:
    """Play all phases, from the last checkpoint if there is one."""
    folder = Path(config.output)
    accelerator = _accelerator(config)
    observed = torch.from_numpy(np.array(material.visible.values)).to(accelerator.device)
    network = build_network(
        sources.backbone, len(material.table.classes), hidden=config.hidden, seed=config.seed
    ).to(accelerator.device)
    phases = _phases(config)
    setup = Setup(observed, k, config.rate(phases[0].mode), config.seed)
    player = make_player(config.method, config.options, setup)
    snapshot, first = load_checkpoint(folder) or (Snapshot(), 0)
    for number, phase in enumerate(phases):
        if number < first:
            continue
        linear = phase.mode == "linear"
        free: nn.Module = network.classifier if linear else network
        optimizer = _optimizer(config, free, config.rate(phase.mode))
        free, optimizer = accelerator.prepare(free, optimizer)
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
        with epoch_bar(console, phase.epochs - snapshot.finished, len(part)) as bar:

            def after_epoch(now: Snapshot, number: int = number, bar: Any = bar) -> None:
                bar.epoch(now.history[-1])
                _warn_of_collapse(console, now.history, k)
                write_history(folder / "history.jsonl", now.history)
                save_checkpoint(folder, now, number)

            snapshot = fit(
                free,
                player,
                part,
                observed,
                k,
                optimizer,
                schedule,
                sources.validation(linear),
                start=snapshot,
                on_epoch=after_epoch,
                on_batch=bar.advance,
                backward=accelerator.backward,
            )
        if snapshot.converged:
            console.print(f"equilibrium after epoch {snapshot.history[-1]['epoch']}: stopped early")
        if linear:
            load_network(network.classifier, snapshot.best_network)
        if number + 1 < len(phases):
            snapshot = Snapshot(history=snapshot.history)
    return network, player, snapshot


def _warn_of_collapse(console: Console, history: list[Record], k: float) -> None:
    """Say once when the predictions of the game have run away from k, after the first epochs."""
    away = [collapsed(record, k) and record["soft_positives"] is not None for record in history]
    if len(history) >= 3 and away[-1] and not any(away[2:-1]):
        seen = history[-1]["predicted_positives"]
        console.print(
            f"warning: the network now predicts {seen:.2f} positives per image, k is {k:.2f}; "
            "try another learning rate or --expected-positives",
            highlight=False,
        )


def _finish(
    config: RunConfig,
    material: Material,
    sources: Sources,
    network: Network,
    player: LabelPlayer,
    snapshot: Snapshot,
) -> dict[str, Any]:
    """Write the chosen network and the completed labels; returns the figures."""
    folder = Path(config.output)
    linear = config.mode == "linear"
    judged: nn.Module = network.classifier if linear else network

    def test_map(state: State) -> float | None:
        source = sources.test(linear)
        if source is None or material.test is None:
            return None
        load_network(judged, state)
        return mean_average_precision(predict_all(judged, source), material.test.values)

    last_map = test_map(snapshot.network)
    best_map = test_map(snapshot.best_network)
    load_network(judged, snapshot.best_network)
    network.eval()
    save_state(folder / "model.safetensors", {n: v.cpu() for n, v in network.state_dict().items()})
    soft = player.soft_labels()
    completed = _complete(material, predict_all(judged, sources.all(linear)), soft)
    np.save(folder / "soft_labels.npy", completed)
    truth = material.table.take(material.training).values
    return {
        "method": config.method,
        "setting": config.setting,
        "seed": config.seed,
        "learning_rate": config.rate(_phases(config)[-1].mode),
        "batch_size": config.batch_size,
        "best_epoch": snapshot.best_epoch,
        "validation_map": snapshot.best_map,
        "test_map": best_map,
        "last_test_map": last_map,
        "pseudo_label_map": None
        if soft is None or not material.hides_truth
        else mean_average_precision(soft.cpu().numpy(), truth),
        "undecided": snapshot.history[-1]["undecided"],
    }


def _complete(material: Material, predicted: Scores, soft: torch.Tensor | None) -> Scores:
    """Every label of the file: observed as observed, soft labels where there are, else ŷ."""
    completed = predicted.astype(np.float32)
    if soft is not None:
        completed[material.training] = soft.float().cpu().numpy()
    known = material.table.values.copy()
    known[material.training] = material.visible.values
    return np.where(known == UNOBSERVED, completed, known).astype(np.float32)


def _expected_positives(
    config: RunConfig, material: Material, sources: Sources
) -> tuple[float, str]:
    """k and where it comes from."""
    if isinstance(config.expected_positives, float):
        return config.expected_positives, "given"
    if config.expected_positives == "truth":
        if not material.table.is_complete:
            raise InputError("expected_positives: 'truth' needs a file with full labels")
        truth = material.table.values[material.training]
        return float((truth == POSITIVE).sum(axis=1).mean()), "the truth's mean"
    known = [material.visible.values]
    if material.validation is not None:
        known.append(material.validation.values)
    k = expected.from_both_signs(np.concatenate(known))
    if k is not None:
        return k, "estimated from observed positives and negatives"
    labelled = np.flatnonzero((material.visible.values == POSITIVE).any(axis=1))
    random = np.random.default_rng([config.seed, 0x6B6B])
    chosen = np.sort(random.permutation(labelled)[:_ESTIMATE_IMAGES])
    if config.mode != "end-to-end":
        sources.all(linear=True)  # computed for the training anyway
    features = sources.some_features(material.training[chosen])
    k = expected.from_positives(features, material.visible.values[chosen], config.seed)
    return k, "estimated from observed positives"


def _check_choices(config: RunConfig) -> None:
    if find_method(config.method).full_labels_only and config.setting != "full":
        raise InputError(f"method {config.method} needs full labels: use it with --setting full")
    method_options(config.method, config.options)
    if not isinstance(getattr(torch.optim, config.optimizer, None), type):
        known = [name for name in dir(torch.optim) if name[0].isupper() and name != "Optimizer"]
        raise InputError(
            f"unknown optimizer {config.optimizer!r} ({did_you_mean(config.optimizer, known)})"
        )


def _optimizer(config: RunConfig, module: nn.Module, rate: float) -> torch.optim.Optimizer:
    kind = getattr(torch.optim, config.optimizer)
    free = [parameter for parameter in module.parameters() if parameter.requires_grad]
    optimizer: torch.optim.Optimizer = kind(free, lr=rate)
    return optimizer


def _accelerator(config: RunConfig) -> Any:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    precision = {"float32": "no"}.get(config.precision, config.precision)
    AcceleratorState._reset_state(reset_partial_state=True)  # an earlier run may have differed
    return Accelerator(mixed_precision=precision, cpu=config.device == "cpu")


def _describe(config: RunConfig, material: Material) -> dict[str, Any]:
    """The content of run.json."""
    packages = ("g2netpl", "torch", "timm", "accelerate", "numpy")
    return {
        "format": RUN_FORMAT,
        "config": config.model_dump(),
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in packages},
        "data": {
            "fingerprint": material.table.fingerprint(),
            "images": len(material.table),
            "training_images": len(material.training),
            "observed_fraction": material.visible.observed_fraction,
            "epoch": material.note,
        },
        "classes": list(material.table.classes),
    }


def _announce(console: Console, config: RunConfig, material: Material, k: str) -> None:
    visible = material.visible
    console.print(
        f"{len(material.table):,} images, {len(material.table.classes)} classes; training on "
        f"{len(visible):,} images with {visible.observed_fraction:.2%} of their labels observed\n"
        f"method {config.method}, {config.mode}, {config.backbone} at {config.image_size} px; "
        f"k = {k}; epoch: {material.note}",
        highlight=False,
    )
