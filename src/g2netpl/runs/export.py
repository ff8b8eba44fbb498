"""Export the network of a run as a bundle (see bundle.py), with its model card.

onnxruntime and PyTorch score the same images, from files to calibrated scores. If any score
differs by more than 1e-4, no file is written. The card is the template card.md.
"""

import hashlib
import json
import os
import re
import shlex
import tempfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from huggingface_hub import ModelCardData
from jinja2 import Environment
from PIL import Image
from torch import Tensor, nn

from g2netpl import __version__
from g2netpl.core.methods import METHODS
from g2netpl.core.models import Model
from g2netpl.images.check import class_counts
from g2netpl.images.features import onnx_graph
from g2netpl.labels.files import Files, named, of_each
from g2netpl.runs.bundle import INPUT, KEY, LARGEST, MODEL, OUTPUT, SCHEME, Contents, load_bundle
from g2netpl.runs.run import Run
from g2netpl.utils.console import shown
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import write_bytes, writing

TOLERANCE = 1e-4
_PICTURES = 17  # a full batch, and one more
_OF_DATA = ("fingerprints", "images", "training_images", "observed_fraction", "chosen_epoch")
_OF_CONFIG = {
    *("setting", "method", "options", "backbone", "pretrained", "mode", "hidden"),
    *("epochs", "batch_size", "seed"),
}
_METRICS = {
    "mAP": "mean_average_precision",
    "precision": "precision",
    "recall": "recall",
    "F1": "f1",
    "accuracy": "accuracy",  # if each image has one class
}


class BytesToScores(nn.Module):
    """The graph of a bundle: (B, size, size, 3) bytes in, scores (B, L) out."""

    def __init__(self, model: Model, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.model = model
        self.mean = 255.0 * torch.tensor(mean)[:, None, None]
        self.std = 255.0 * torch.tensor(std)[:, None, None]

    def forward(self, pixels: Tensor) -> Tensor:
        """As `ImageSource` and `predict_all` do it."""
        inputs = pixels.permute(0, 3, 1, 2).sub(self.mean).div(self.std)
        return self.model.predict(inputs).sigmoid()


class Exported(NamedTuple):
    """What was written, and how well it agrees."""

    contents: Contents
    sha256: str
    size: int
    difference: float  # the largest between scores of PyTorch and onnxruntime


def export(run: Run, path: str | Path) -> Exported:
    """Write a bundle, once it is checked on generated pictures."""
    path, contents = Path(path), describe(run)
    if run.prior_kind == "scores":
        raise InputError(
            f"{run.folder}: was trained with --prior FILE, whose scores a bundle cannot hold; "
            "train with --prior names or none"
        )
    content = _serialized(run, contents)
    difference = _difference(run, content)
    if not difference <= TOLERANCE:
        raise InputError(
            f"{path}: not written: scores of onnxruntime and PyTorch differ by {difference:.2g}, "
            f"more than {TOLERANCE:g}; please report this with the backbone {run.config.backbone}"
        )
    with writing(path):
        write_bytes(path, content)
    return Exported(contents, hashlib.sha256(content).hexdigest(), len(content), difference)


def describe(run: Run) -> Contents:
    """All that using the network takes, and what it was trained on; no path of this machine."""
    about, config = run.about, run.config
    training = {key: about["data"][key] for key in _OF_DATA} | config.model_dump(include=_OF_CONFIG)
    training |= {key: run.result[key] for key in ("validation_map", "test_map")}
    for name in ("labels", "test_labels", "weights"):
        given = getattr(config, name)
        training[name] = None if given is None else file_names(given)
    training |= {"expected_positives": run.expected_positives, "versions": about["versions"]}
    return Contents(
        classes=run.classes,
        image_size=config.image_size,
        mean=about["mean"],
        std=about["std"],
        training=training,
        **run.thresholds.to_json(),
    )


def file_names(paths: Files) -> str:
    """The names of files, without their folders."""
    return shown(named(of_each(paths, lambda path: Path(path).name)))


def _serialized(run: Run, contents: Contents) -> bytes:
    """The content of the file, without the exporter's notes, which name files of this machine."""
    import onnx

    size, mean, std = run.pixels
    network = BytesToScores(run.model, mean, std).eval()
    model = onnx_graph(network, torch.zeros(2, size, size, 3, dtype=torch.uint8), INPUT, OUTPUT)
    if model.ByteSize() > LARGEST - 2**20:
        raise InputError(f"{run.folder}: the network has over 2 GB, too much for one ONNX file")
    graph = model.graph
    parts = (*graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer)
    for part in (*parts, graph, model):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    model.producer_name, model.producer_version = "g2netpl", __version__
    text = json.dumps(contents.to_json(), ensure_ascii=False)
    onnx.helper.set_model_props(model, {KEY: text})
    onnx.checker.check_model(model)
    body: bytes = model.SerializeToString(deterministic=True)
    return body


def _difference(run: Run, content: bytes) -> float:
    """The largest difference of scores, before and after calibration."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"{number}.png") for number in range(_PICTURES)]
        for picture in paths:  # soft shapes of several sizes
            shapes = Image.fromarray(random.integers(0, 256, (9, 9, 3), dtype=np.uint8))
            width, height = random.integers(80, 400, 2).tolist()
            shapes.resize((width, height), Image.Resampling.BICUBIC).save(picture)
        bundle = Path(folder, MODEL)
        bundle.write_bytes(content)
        ours, theirs = run.score(paths), load_bundle(bundle).score(paths)
    calibrated = run.thresholds.calibrate(ours) - run.thresholds.calibrate(theirs)
    return float(max(np.abs(ours - theirs).max(), np.abs(calibrated).max()))


def make_card(
    run: Run,
    exported: Exported,
    file: str,
    license: str | None = None,
    name: str | None = None,
    hub: str | None = None,
) -> str:
    """The card as Markdown; `file` is the bundle, `hub` the repository on the hub, if any."""
    name = name or Path(file).stem
    is_short = license is None or re.fullmatch(r"[A-Za-z0-9.-]+", license)
    head = ModelCardData(
        license=(license or "unknown").lower() if is_short else "other",
        license_name=None if is_short else license,
        library_name="onnx",
        pipeline_tag="image-classification",
        tags=["multi-label", "partial-labels", "g2netpl"],
        model_name=name,
    )
    environment = Environment(keep_trailing_newline=True)  # Markdown: `text` escapes, not HTML
    environment.filters["text"] = as_text
    template = (files("g2netpl.runs") / "card.md").read_text(encoding="utf-8")
    method = run.config.method
    return environment.from_string(template).render(
        name=name,
        file=file,
        head=head.to_yaml(),
        argument=shlex.quote(file if hub is None else f"{SCHEME}{hub}"),
        literal=json.dumps(file),
        license=license,
        key=KEY,
        input=INPUT,
        output=OUTPUT,
        about=exported.contents,
        training=exported.contents.training,
        exported=exported,
        summary=METHODS[method].summary if method in METHODS else "a method of a plugin",
        epochs=len(run.history),
        metrics=_METRICS,
        splits=run.evaluation,
        classes=class_counts(run.observed()),
    )


def as_text(value: object) -> str:
    """A value that Markdown and its tables show as it is, in one line."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", " ".join(str(value).split()))
