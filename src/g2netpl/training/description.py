"""What a run says about itself: the content of run.json, and the lines at its start."""

import platform
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from g2netpl.base.console import Console
from g2netpl.base.disk import file_digest
from g2netpl.base.errors import counted
from g2netpl.runs.config import LINEAR_STEPS, RunConfig
from g2netpl.runs.records import RUN_FORMAT
from g2netpl.training.data import TrainingData


def describe(
    config: RunConfig, data: TrainingData, before: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The content of run.json; `before` is what it was, of a run that is resumed."""
    return {
        "format": RUN_FORMAT,
        "command": "train",
        "config": config.model_dump() | {"epochs": config.epochs_on(len(data.training))},
        "asked": _asked(config, before),
        "versions": versions(),
        "data": {
            "fingerprints": data.fingerprints,
            "backbone_weights": None if config.weights is None else _digest(config.weights),
            "earlier_network": None
            if config.resume_labels is None
            else _digest(f"{config.resume_labels}/model.safetensors"),
            "images": len(data.table),
            "training_images": len(data.training),
            "observed_fraction": data.visible.observed_fraction,
            "chosen_epoch": data.note,
        },
        "classes": list(data.table.classes),
    }


def _asked(config: RunConfig, before: dict[str, Any] | None) -> dict[str, Any]:
    """Keys as they were asked for, where the configuration has what came of that."""
    if before is None:
        return {"epochs": config.epochs}
    asked: dict[str, Any] = before.get("asked", {})  # an older version did not keep it
    return asked


def versions() -> dict[str, str]:
    """Of everything that the figures depend on."""
    packages = ("g2netpl", "torch", "timm", "accelerate", "numpy")
    found = {"python": platform.python_version()} | {name: version(name) for name in packages}
    return found | {"onnxruntime": version("onnxruntime") if find_spec("onnxruntime") else "none"}


def _digest(path: str) -> str | None:
    """SHA-256 of a file; None where there is none, which is told later."""
    digest = file_digest(path)
    return None if digest is None else digest.hex()


def announce(console: Console, config: RunConfig, data: TrainingData, known: str) -> None:
    """What is trained on what, and everything a person should know about the data."""
    visible = data.visible
    for note in (*data.notes, *_on_few_steps(config, len(visible))):
        console.print(f"note: {note}")
    console.print(
        f"{len(data.table):,} images, {len(data.table.classes)} classes; training on "
        f"{len(visible):,} images with {visible.observed_fraction:.2%} of their labels observed\n"
        f"method {config.method}, {config.mode}, {config.backbone} at {config.image_size} px; "
        f"epoch: {data.note}\n{known}"
    )


def _on_few_steps(config: RunConfig, images: int) -> list[str]:
    """What to say of linear epochs that are too few for a last layer."""
    given, needed = config.linear_epochs, config.epochs_of_a_layer(images)
    if config.mode != "linear-init" or given >= needed:
        return []
    return [
        f"{counted(given, 'linear epoch')} on {images:,} images: few for a last layer, which wants "
        f"{LINEAR_STEPS} steps; use --linear-epochs {needed}"
    ]
