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
from g2netpl.data import ArraySource, ImageSource, Part, Source
from g2netpl.errors import InputError, Refused, did_you_mean
from g2netpl.evaluation import Scores, mean_average_precision, predict_all
from g2netpl.features import cache_key, cached, compute_features
from g2netpl.fitting import Schedule, Snapshot, State, Validation, fit, load_network
from g2netpl.game import LabelPlayer, Setup
from g2netpl.images import locate
from g2netpl.labels import POSITIVE, UNOBSERVED, LabelTable
from g2netpl.material import Material, read_material
from g2netpl.methods import find_method, make_player, method_options
from g2netpl.network import Backbone, Network, build_backbone, build_network
from g2netpl.runs import RUN_FORMAT, Run, claim_folder, load_run, read_run
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
        _check_unchanged(folder, description)
        if (folder / "result.json").is_file():
            console.print(f"{folder}: this run is finished already")
            return load_run(folder)
    backbone = build_backbone(config.backbone, pretrained=config.pretrained, weights=config.weights)
    sources = _Sources(config, material, backbone, console)
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
    config: RunConfig, material: Material, sources: "_Sources", k: float, console: Console
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


def _finish(
    config: RunConfig,
    material: Material,
    sources: "_Sources",
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


class _Sources:
    """Where the inputs of each part come from: image files, or features of the frozen backbone."""

    def __init__(
        self, config: RunConfig, material: Material, backbone: Backbone, console: Console
    ) -> None:
        self.config, self.material, self.backbone, self.console = (
            config,
            material,
            backbone,
            console,
        )
        self._paths = locate(material.table.images, config.images)
        self._test_paths = self._located(material.test, config.test_images)
        own_validation = material.validation is not None and not len(material.held_out)
        self._validation_paths = self._located(
            material.validation if own_validation else None, config.images
        )
        self._features: dict[int, Source] = {}

    def all(self, linear: bool) -> Source:
        """Every image of the label file, in its order."""
        return self._source(self._paths, linear)

    def training(self, linear: bool) -> Source:
        """The training part."""
        return Part(self.all(linear), self.material.training)

    def validation(self, linear: bool) -> Validation | None:
        """The validation part with what is known about it."""
        if self.material.validation is None:
            return None
        source = (
            Part(self.all(linear), self.material.held_out)
            if self._validation_paths is None
            else self._source(self._validation_paths, linear)
        )
        return Validation(source, self.material.validation.values)

    def test(self, linear: bool) -> Source | None:
        """The test images."""
        return None if self._test_paths is None else self._source(self._test_paths, linear)

    def some_features(self, rows: Any) -> Any:
        """Features of some images of the file, for the estimate of k."""
        if id(self._paths) in self._features:
            source = self._features[id(self._paths)]
            assert isinstance(source, ArraySource)
            return source.inputs[torch.from_numpy(rows)].numpy()
        return compute_features(
            self.backbone.module, self._images([self._paths[row] for row in rows])
        )

    def _located(self, table: LabelTable | None, folder: str | None) -> list[str] | None:
        return None if table is None else locate(table.images, folder or self.config.images)

    def _images(self, paths: list[str]) -> ImageSource:
        config, backbone = self.config, self.backbone
        return ImageSource(
            paths,
            config.image_size,
            backbone.mean,
            backbone.std,
            seed=config.seed,
            flip=config.flip,
            workers=config.workers,
        )

    def _source(self, paths: list[str], linear: bool) -> Source:
        if not linear:
            return self._images(paths)
        if id(paths) not in self._features:
            module = self.backbone.module
            folder = Path(self.config.cache) if self.config.cache else None
            key = cache_key(module, paths, f"squash {self.config.image_size} {self.backbone.mean}")

            def compute() -> Any:
                with epoch_bar(self.console, 1, len(paths)) as bar:
                    return compute_features(module, self._images(paths), on_batch=bar.advance)

            self._features[id(paths)] = ArraySource(torch.from_numpy(cached(folder, key, compute)))
        return self._features[id(paths)]


def _expected_positives(
    config: RunConfig, material: Material, sources: _Sources
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

    precision = {"float32": "no"}.get(config.precision, config.precision)
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


def _check_unchanged(folder: Path, description: dict[str, Any]) -> None:
    """Refuse to go on with another configuration or other data than the run began with."""
    before = read_run(folder)
    old, new = before["config"], description["config"]
    changed = [key for key in sorted(new) if old.get(key) != new[key] and key != "workers"]
    if before["data"]["fingerprint"] != description["data"]["fingerprint"]:
        changed.append("the labels")
    if changed:
        raise Refused(
            f"{folder}: changed since the run began: {', '.join(changed)}; start a new run"
        )


def _announce(console: Console, config: RunConfig, material: Material, k: str) -> None:
    visible = material.visible
    console.print(
        f"{len(material.table):,} images, {len(material.table.classes)} classes; training on "
        f"{len(visible):,} images with {visible.observed_fraction:.2%} of their labels observed\n"
        f"method {config.method}, {config.mode}, {config.backbone} at {config.image_size} px; "
        f"k = {k}; epoch: {material.note}",
        highlight=False,
    )
