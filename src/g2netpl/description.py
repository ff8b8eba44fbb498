"""What a run says about itself: the content of run.json, and the lines at its start."""

import hashlib
import os
import platform
from importlib.metadata import version
from typing import Any

from g2netpl.config import RunConfig
from g2netpl.console import Console
from g2netpl.material import Material
from g2netpl.run_files import RUN_FORMAT


def describe(config: RunConfig, material: Material) -> dict[str, Any]:
    """The content of run.json."""
    packages = ("g2netpl", "torch", "timm", "accelerate", "numpy")
    return {
        "format": RUN_FORMAT,
        "command": "train",
        "config": config.model_dump(),
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in packages},
        "data": {
            "fingerprints": material.fingerprints,
            "image_files": _fingerprint(material),
            "backbone_weights": None if config.weights is None else _digest(config.weights),
            "earlier_network": None
            if config.resume_labels is None
            else _digest(f"{config.resume_labels}/model.safetensors"),
            "images": len(material.table),
            "training_images": len(material.training),
            "observed_fraction": material.visible.observed_fraction,
            "chosen_epoch": material.note,
        },
        "classes": list(material.table.classes),
    }


def _digest(path: str) -> str | None:
    """SHA-256 of a file; None where there is none, which is told later."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _fingerprint(material: Material) -> str:
    """SHA-256 over the sizes of all image files: a picture that was replaced has another one."""
    digest = hashlib.sha256()
    test = [] if material.test is None else material.test.paths
    for path in (*material.paths, *(material.validation_paths or []), *test):
        try:
            digest.update(b"%d\0" % os.stat(path).st_size)
        except OSError:
            digest.update(b"gone\0")
    return digest.hexdigest()


def announce(console: Console, config: RunConfig, material: Material, k: str) -> None:
    """What is trained on what, and everything a person should know about the data."""
    visible = material.visible
    for note in material.notes:
        console.print(f"note: {note}", highlight=False, soft_wrap=True)
    console.print(
        f"{len(material.table):,} images, {len(material.table.classes)} classes; training on "
        f"{len(visible):,} images with {visible.observed_fraction:.2%} of their labels observed\n"
        f"method {config.method}, {config.mode}, {config.backbone} at {config.image_size} px; "
        f"k = {k}; epoch: {material.note}",
        highlight=False,
    )
