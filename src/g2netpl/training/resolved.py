"""What `auto` and `none` stand for in a run: resolved before training, printed and saved."""

import platform
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch

from g2netpl.core.lite import SHA256
from g2netpl.core.methods import find_method
from g2netpl.core.models import is_pretrained
from g2netpl.labels.missingness import infer_mechanism
from g2netpl.runs.train_config import LINEAR_STEPS, PhaseMode, TrainConfig
from g2netpl.training.splits import TrainingData
from g2netpl.utils import distributed
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.image_refs import file_digest
from g2netpl.utils.options import short_number

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
    trained: PhaseMode = "partial" if on_cpu(config) and config.augment != "weak" else "full"
    if find_method(config.method).method.augmentations == 2:
        return trained, f"{config.method} compares two augmentations"
    if config.augment not in ("plain", "paper"):
        return trained, f"a frozen backbone has no {config.augment} augmentations"
    if on_cpu(config):
        return "linear", "pretrained backbone without a GPU"
    return "full", "on a GPU"


def resolve_annotation(
    config: TrainConfig, data: TrainingData, k: float, at_random: bool
) -> tuple[str, str]:
    """The annotation model of the labels, and why.

    `at_random`: likely labels are known as often as others, as far as anybody looked.
    """
    wanted = config.annotation or find_method(config.method).annotation
    if wanted == "auto" and config.single_label and len(data.table.classes) > 1:
        return "sampled", "one class per image"
    is_trained = is_pretrained(config.backbone, config.pretrained, config.weights)
    if wanted == "auto" and config.mode != "linear" and not is_trained:
        return "random", "the backbone starts with random weights"
    if wanted == "auto":
        kind, why = infer_mechanism(data.visible.values, k, at_random)
        return kind, why
    if wanted == "sampled" and len(data.table.classes) < 2:
        raise InputError(
            "annotation sampled: expected two classes or more, got one; use --annotation random"
        )
    return wanted, "given" if config.annotation else "default of the method"


def resolved_configuration(trainer: "Trainer") -> dict[str, Any]:
    """Every value that the configuration leaves open, as it is used; nothing is `auto` or None."""
    config = trainer.config
    found: dict[str, Any] = {
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
        found["softmax_learning_rate_scale"] = trainer.softmax_scale
    if trainer.mode == "partial":
        found["train_from"] = trainer.inputs.split.at
    return found


def weights_identity(config: TrainConfig) -> dict[str, Any]:
    """Which weights the backbone starts with: name, SHA-256 if known, and resolution."""
    digest, source = None, "random"
    if config.weights is not None:
        digest, source = _digest(config.weights), "file"
    elif is_pretrained(config.backbone, config.pretrained, None):
        digest, source = SHA256.get(config.backbone), "pretrained"
        if digest is None:
            source = "timm"
    return {
        "name": config.backbone,
        "source": source,
        "sha256": digest,
        "image_size": config.image_size,
    }


def versions() -> dict[str, str]:
    """Versions of everything that the results depend on."""
    packages = ("g2netpl", "torch", "timm", "numpy")
    found = {"python": platform.python_version()} | {name: version(name) for name in packages}
    return found | {"onnxruntime": version("onnxruntime") if find_spec("onnxruntime") else "none"}


def print_summary(console: Console, trainer: "Trainer") -> None:
    """The resolved configuration, and notes about the data."""
    config, data = trainer.config, trainer.data
    for note in (*data.notes, *_few_linear_steps(config, len(data.training))):
        console.print(f"note: {note}")
    found = resolved_configuration(trainer)
    open_options = [name for name, value in trainer.method.options if value is None]
    shown = {name: found["options"][name] for name in (*config.options, *open_options)}
    options = ", ".join(f"{name} {_shown(value)}" for name, value in shown.items())
    mode = found["mode"]
    if "train_from" in found:
        mode += f", from {found['train_from']} on"
    epochs = ", ".join(
        f"{count} {name} (learning rate {short_number(found['learning_rate'][name])})"
        for name, count in found["epochs"].items()
    )
    visible = data.visible
    lines = {
        "data": f"{len(data.table):,} images, {len(data.table.classes)} classes; training on "
        f"{len(visible):,} images with {visible.observed_fraction:.2%} of their labels observed",
        "method": f"{config.method} ({options})" if options else config.method,
        "annotation": f"{trainer.annotation} ({trainer.annotation_reason})",
        "k": f"{trainer.k:.2f} expected positives per image ({trainer.k_origin})",
        "prior": trainer.prior.reason
        if trainer.prior.kind == "names"
        else f"{trainer.prior.kind} ({trainer.prior.reason})",
        "model": f"{config.backbone} at {config.image_size} px, {mode}",
        "epochs": f"{epochs}; batch size {config.batch_size}, {config.optimizer}, "
        f"seed {config.seed}, {found['device']}"
        + (f", {found['ranks']} ranks" if found["ranks"] > 1 else ""),
        "best epoch": data.note,
    }
    for name, text in lines.items():
        console.print(f"{name + ':':12}{text}")


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _few_linear_steps(config: TrainConfig, images: int) -> list[str]:
    given, needed = config.linear_epochs, config.epochs_of_a_head(images)
    if config.mode != "lp-ft" or given >= needed:
        return []
    return [
        f"{counted(given, 'linear epoch')} on {images:,} images are few for a head, which needs "
        f"{LINEAR_STEPS} steps; use --linear-epochs {needed}"
    ]


def _digest(path: str) -> str | None:
    """SHA-256 of a file; None if there is none, which is reported later."""
    digest = file_digest(path)
    return None if digest is None else digest.hex()
