"""Export the network of a run as a bundle (see bundle.py), checked before it is written.

onnxruntime and PyTorch score the same images, from files to calibrated scores. If any score
differs by more than 1e-4, no file is written.
"""

import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from g2netpl import __version__
from g2netpl.core.models import Model
from g2netpl.images.features import onnx_graph
from g2netpl.labels.files import Files, named, of_each
from g2netpl.runs.bundle import INPUT, KEY, LARGEST, OUTPUT, Contents, open_bundle
from g2netpl.runs.run import Run
from g2netpl.utils.console import shown
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import write_bytes, writing

TOLERANCE = 1e-4
_GENERATED = 17  # a full batch, and one image alone
_OF_DATA = ("fingerprints", "images", "training_images", "observed_fraction", "chosen_epoch")
_OF_CONFIG = {
    *("setting", "method", "options", "backbone", "pretrained", "mode", "hidden"),
    *("epochs", "batch_size", "seed"),
}


class BytesToScores(nn.Module):
    """The graph of a bundle: (B, size, size, 3) bytes in, scores (B, L) out."""

    def __init__(self, model: Model, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.model = model
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", 255.0 * torch.tensor(mean)[:, None, None])
        self.register_buffer("std", 255.0 * torch.tensor(std)[:, None, None])

    def forward(self, pixels: Tensor) -> Tensor:
        """As `ImageSource` and `predict_all` do it."""
        inputs = pixels.permute(0, 3, 1, 2).sub(self.mean).div(self.std)
        logits: Tensor = self.model.predict(inputs)
        return logits.sigmoid()


@dataclass(frozen=True)
class Exported:
    """What was written, and how well it agrees."""

    contents: Contents
    sha256: str
    size: int
    difference: float  # the largest between scores of PyTorch and onnxruntime
    images: int  # that were compared


def export(run: Run, path: str | Path, photos: Sequence[str] = ()) -> Exported:
    """Write a bundle; it is checked on `photos`, or else on drawn pictures."""
    path = Path(path)
    if run.prior_kind == "scores":
        raise InputError(
            f"{run.folder}: was trained with --prior FILE, whose scores a bundle cannot hold; "
            "train with --prior names or none"
        )
    contents = describe(run)
    content = _serialised(run, contents)
    difference, images = _difference(run, content, path, photos)
    if not difference <= TOLERANCE:
        raise InputError(
            f"{path}: not written: scores of onnxruntime and PyTorch differ by {difference:.2g}, "
            f"more than {TOLERANCE:g}; please report this with the backbone {run.config.backbone}"
        )
    with writing(path):
        write_bytes(path, content)
    digest = hashlib.sha256(content).hexdigest()
    return Exported(contents, digest, len(content), difference, images)


def describe(run: Run) -> Contents:
    """All that using the network takes, and what it was trained on; no path of this machine."""
    about, config = run.about, run.config
    return Contents(
        classes=run.classes,
        image_size=config.image_size,
        mean=run.mean,
        std=run.std,
        **cast(Any, run.thresholds.to_json()),
        training={
            "labels": file_names(config.labels),
            "test_labels": None if config.test_labels is None else file_names(config.test_labels),
            **{key: about["data"][key] for key in _OF_DATA},
            **config.model_dump(include=_OF_CONFIG),
            "expected_positives": run.expected_positives,
            "weights": None if config.weights is None else Path(config.weights).name,
            "validation_map": run.result["validation_map"],
            "test_map": run.result["test_map"],
            "versions": about["versions"],
        },
    )


def file_names(files: Files) -> str:
    """The names of label files, without their folders."""
    return shown(named(of_each(files, lambda path: Path(path).name)))


def _serialised(run: Run, contents: Contents) -> bytes:
    """The content of the file."""
    import onnx

    size = run.config.image_size
    graph = BytesToScores(run.model, run.mean, run.std).eval()
    pixels = torch.zeros(2, size, size, 3, dtype=torch.uint8)
    model = onnx_graph(graph, pixels, INPUT, OUTPUT)
    if model.ByteSize() > LARGEST - 2**20:
        raise InputError(
            f"{run.folder}: the network has over 2 GB, which one ONNX file cannot hold"
        )
    _remove_origin(model)
    model.producer_name, model.producer_version = "g2netpl", __version__
    text = json.dumps(contents.model_dump(mode="json"), ensure_ascii=False)
    onnx.helper.set_model_props(model, {KEY: text})
    onnx.checker.check_model(model)
    body: bytes = model.SerializeToString(deterministic=True)
    return body


def _remove_origin(model: Any) -> None:
    """Remove the notes of the exporter, which name files of this machine."""
    graph = model.graph
    parts = (*graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer)
    for part in (*parts, graph, model):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")


def _difference(run: Run, content: bytes, path: Path, photos: Sequence[str]) -> tuple[float, int]:
    """The largest difference of scores, before and after calibration, and over how many images."""
    bundle = open_bundle(content, path)
    with tempfile.TemporaryDirectory() as folder:
        paths = list(photos) or _generate(Path(folder), _GENERATED)
        scores = [
            classifier.predict(paths, max_unreadable=len(paths), calibrated=False)
            for classifier in (run, bundle)
        ]
    unreadable = [np.isnan(values).any(axis=1) for values in scores]
    if unreadable[0].all():
        raise InputError("--images: none of the photos to check with can be read")
    if (unreadable[0] != unreadable[1]).any():
        return np.inf, 0
    ours, theirs = (values[~unreadable[0]] for values in scores)
    calibrated = run.thresholds.calibrate(ours) - run.thresholds.calibrate(theirs)
    return float(max(np.abs(ours - theirs).max(), np.abs(calibrated).max())), len(ours)


def _generate(folder: Path, count: int) -> list[str]:
    """Pictures of soft random shapes with some noise, of several sizes, always the same."""
    random = np.random.default_rng(0)
    paths = []
    for number in range(count):
        shapes = Image.fromarray(random.integers(0, 256, (5, 7, 3), dtype=np.uint8))
        width, height = (int(side) for side in random.integers(80, 400, 2))
        pixels = np.asarray(shapes.resize((width, height), Image.Resampling.BICUBIC)).astype(int)
        noisy = (pixels + random.integers(-20, 21, pixels.shape)).clip(0, 255).astype(np.uint8)
        paths.append(str(folder / f"{number}.png"))
        Image.fromarray(noisy).save(paths[-1])
    return paths
