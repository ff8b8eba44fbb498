"""What a configuration stands for: what does not fit is rejected before any data are read, and
every `auto` and `none` is resolved before the first epoch, printed once and saved with the run."""

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from g2netpl.core.lite import SHA256
from g2netpl.core.methods import find_method
from g2netpl.core.models import build_optimizer, is_pretrained
from g2netpl.labels.files import of_each
from g2netpl.labels.missingness import infer_mechanism
from g2netpl.labels.settings import Setting
from g2netpl.runs.config import PATHS, RunConfig, is_path
from g2netpl.runs.train_config import AskedMode, PhaseMode, TrainConfig
from g2netpl.training.splits import TrainingData
from g2netpl.utils import distributed
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.image_refs import file_digest

if TYPE_CHECKING:
    from g2netpl.training.trainer import Trainer


def on_cpu(config: TrainConfig) -> bool:
    """Whether a run trains on the CPU."""
    return config.device == "cpu" or not torch.accelerator.is_available()


def resolve_mode(config: TrainConfig) -> tuple[PhaseMode, str]:
    """The mode that `auto` stands for, and why."""
    if config.train_from is not None:
        return "partial", f"blocks from {config.train_from} on"
    if not is_pretrained(config.backbone, config.pretrained, config.weights):
        return "full", f"the backbone {config.backbone} starts with random weights"
    if find_method(config.method).method.augmentations == 2:
        return "full", f"{config.method} compares two augmentations"
    if config.augment not in ("plain", "paper"):
        return "full", f"a frozen backbone has no {config.augment} augmentations"
    if on_cpu(config):
        return "linear", "pretrained backbone without a GPU"
    return "full", "on a GPU"


def obstacle(
    name: str, changes: Mapping[str, Any], *, full: bool, mode: AskedMode, images: bool = True
) -> str | None:
    """Why a method cannot be trained on such labels in such a mode; None if it can."""
    entry = find_method(name)
    if entry.full_labels and not full:
        return "needs full labels (setting full)"
    if entry.method.augmentations == 2 and (mode in ("linear", "partial") or not images):
        return "compares two augmentations of images (mode full)"
    if mode == "lp-ft" and getattr(entry.options(changes), "rounds", 1) > 1:
        return "trains the model from scratch in each round (mode linear or full)"
    return None


def check_method(
    name: str, changes: Mapping[str, Any], *, full: bool, mode: AskedMode, images: bool = True
) -> None:
    """Reject a method that cannot be trained like this."""
    why = obstacle(name, changes, full=full, mode=mode, images=images)
    if why is not None:
        raise InputError(f"method {name} {why}")


def check_settings(config: TrainConfig, *, full: bool, images: bool = True) -> None:
    """Reject a method, an augmentation or single-label settings that do not fit."""
    check_method(config.method, config.options, full=full, mode=config.mode, images=images)
    last = config.phases[-1]
    has_pairs = find_method(config.method).method.augmentations == 2
    if last != "full" and (has_pairs or config.augment not in ("plain", "paper")):
        raise InputError(
            f"augment {config.augment}: frozen blocks see an image and its mirror image only; use "
            "--set augment=paper, or --mode full"
        )
    if config.single_label and config.expected_positives not in ("estimate", "truth", 1.0):
        raise InputError(
            f"expected_positives: {config.expected_positives:g}, but with --single-label it is "
            "1: leave one of them out"
        )
    if config.single_label and config.thresholds.startswith("precision"):
        raise InputError(
            f"thresholds {config.thresholds}: with --single-label every image gets its most "
            "probable class; leave it out, and use g2netpl complete --confidence P or "
            "predict --threshold P"
        )


def check_config(config: RunConfig) -> RunConfig:
    """The configuration with mode, options and paths resolved; what does not fit is rejected."""
    if config.mode == "auto":
        config = config.model_copy(update={"mode": resolve_mode(config)[0]})
    check_settings(config, full=Setting.parse(config.setting).kind == "full")
    last = config.phases[-1]
    if config.train_from is not None and last != "partial":
        raise InputError(
            f"train_from: there is no such block in mode {config.mode}: use --mode partial"
        )
    if config.precision == "fp16" and on_cpu(config):
        raise InputError("precision: fp16 needs a GPU, and there is none; use bf16 or float32")
    for kind in (name.partition(":")[0] for name in config.log_with):
        if find_spec(kind) is None:
            raise InputError(
                f"--log-with {kind}: the package {kind} is not installed; "
                "install it, or all with pip install 'g2netpl[trackers]'"
            )
    build_optimizer(config.optimizer, [{"params": [nn.Parameter(torch.zeros(1))]}], config.lr(last))
    options = find_method(config.method).options(config.options)
    changes: dict[str, Any] = {"options": {name: getattr(options, name) for name in config.options}}
    for name in PATHS:  # a run can be resumed from any folder
        value = getattr(config, name)
        if value is not None and is_path(name, value):
            changes[name] = of_each(value, os.path.abspath)
    return config.model_copy(update=changes)


def resolve_annotation(
    config: TrainConfig, data: TrainingData, k: float, at_random: bool
) -> tuple[str, str]:
    """The annotation model of the labels, and why.

    `at_random`: likely labels are known as often as others, as far as anybody looked.
    """
    wanted = config.annotation or find_method(config.method).annotation
    if wanted == "sampled" and len(data.table.classes) < 2:
        raise InputError(
            "annotation sampled: expected two classes or more, got one; use --annotation random"
        )
    if wanted != "auto":
        return wanted, "given" if config.annotation else "default of the method"
    if config.single_label and len(data.table.classes) > 1:
        return "sampled", "one class per image"
    if config.mode != "linear" and not is_pretrained(
        config.backbone, config.pretrained, config.weights
    ):
        return "random", "the backbone starts with random weights"
    return infer_mechanism(data.visible.values, k, at_random)


def resolved_configuration(trainer: "Trainer") -> dict[str, Any]:
    """Every value that the configuration leaves open, as it is used; nothing is `auto` or None."""
    config = trainer.config
    resolved: dict[str, Any] = {
        "mode": config.mode,
        "epochs": {phase.mode: phase.epochs for phase in trainer.phases},
        "learning_rate": {phase.mode: config.lr(phase.mode) for phase in trainer.phases},
        "annotation": trainer.annotation,
        "expected_positives": trainer.k,
        "prior": trainer.prior.kind,
        "options": trainer.method.resolved_options(),
        "device": trainer.device.type,
        "ranks": distributed.size(),
        "max_unreadable": config.most_unreadable(len(trainer.data.table)),
        "epoch_chosen_by": trainer.data.note,
    }
    if trainer.annotation == "sampled":
        resolved["softmax_learning_rate_scale"] = trainer.softmax_scale
    if trainer.choice is not None:
        resolved["chosen"] = asdict(trainer.choice)
    if trainer.mode == "partial":
        resolved["train_from"] = trainer.inputs.split.at
    return resolved


def weights_identity(config: TrainConfig) -> dict[str, Any]:
    """Which weights the backbone starts with: name, SHA-256 if known, and resolution."""
    name, digest, source = config.backbone, None, "random"
    if config.weights is not None:
        digest, source = digest_of(config.weights), "file"
    elif is_pretrained(name, config.pretrained, None):
        digest, source = SHA256.get(name), "pretrained" if name in SHA256 else "timm"
    return {"name": name, "source": source, "sha256": digest, "image_size": config.image_size}


def digest_of(path: str) -> str | None:
    """SHA-256 of a file; None if it does not exist, which is reported later."""
    digest = file_digest(path)
    return None if digest is None else digest.hex()


def versions() -> dict[str, str]:
    """Versions of everything that the results depend on."""
    packages = ("g2netpl", "torch", "timm", "numpy")
    numbers = {"python": platform.python_version()} | {name: version(name) for name in packages}
    return numbers | {"onnxruntime": version("onnxruntime") if find_spec("onnxruntime") else "none"}


def print_summary(console: Console, trainer: "Trainer") -> None:
    """The resolved configuration, and notes about the data."""
    config, data, prior = trainer.config, trainer.data, trainer.prior
    for note in data.notes:
        console.print(f"note: {note}")
    resolved = resolved_configuration(trainer)
    open_options = [name for name, value in trainer.method.options if value is None]
    options = ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in resolved["options"].items()
        if name in (*config.options, *open_options)
    )
    epochs = ", ".join(
        f"{count} {name} (learning rate {resolved['learning_rate'][name]:g})"
        for name, count in resolved["epochs"].items()
    )
    begins = f", from {resolved['train_from']} on" if "train_from" in resolved else ""
    lines = {
        "data": f"{len(data.table):,} images, {len(data.table.classes)} classes; training on "
        f"{len(data.visible):,} images with {data.visible.observed_fraction:.2%} of their labels "
        "observed",
        "method": f"{config.method} ({options})" if options else config.method,
        "annotation": f"{trainer.annotation} ({trainer.annotation_reason})",
        "k": f"{trainer.k:.2f} expected positives per image ({trainer.k_origin})",
        "prior": prior.reason if prior.kind == "names" else f"{prior.kind} ({prior.reason})",
        "model": f"{config.backbone} at {config.image_size} px, {resolved['mode']}{begins}",
        "epochs": f"{epochs}; batch size {config.batch_size}, {config.optimizer}, "
        f"seed {config.seed}, {resolved['device']}, {counted(resolved['ranks'], 'rank')}",
        "best epoch": data.note,
    }
    if trainer.choice is not None:
        lines["head"] = f"solved; {trainer.choice}"
    for name, text in lines.items():
        console.print(f"{name + ':':12}{text}")
