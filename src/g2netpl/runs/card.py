"""The model card of a bundle, for people who were not there when it was made.

Everything in it comes from the run folder; what is not known is marked so.
"""

import json
import re
import shlex
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from huggingface_hub import EvalResult, ModelCardData
from jinja2 import Environment

from g2netpl.core.methods import METHODS
from g2netpl.images.check import ClassCount, class_counts
from g2netpl.runs.bundle import INPUT, KEY, OUTPUT, Contents
from g2netpl.runs.export import Exported, file_names
from g2netpl.runs.hub import SCHEME
from g2netpl.runs.records import Content, Metrics
from g2netpl.runs.run import Run
from g2netpl.utils.errors import InputError, counted, listed

FEW = 10  # positives; a class with fewer is named among the limits
_NAMED = 20
_METRICS = {
    "mAP": "mean_average_precision",
    "precision": "precision",
    "recall": "recall",
    "F1": "f1",
    "accuracy": "accuracy",  # if each image has one class
}


def make_card(
    run: Run,
    exported: Exported,
    file: str,
    license: str | None = None,
    name: str | None = None,
    hub: str | None = None,
) -> str:
    """The card as Markdown; `file` is the bundle, `hub` the repository on the hub, if any."""
    contents, training = exported.contents, exported.contents.training
    splits = [split for split in ("validation", "test") if split in run.evaluation]
    counts, name = class_counts(run.observed()), name or Path(file).stem
    environment = Environment(keep_trailing_newline=True)  # Markdown: `text` escapes, not HTML
    environment.filters["text"] = as_text
    template = (files("g2netpl.runs") / "card.md").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        name=name,
        file=file,
        head=_head(run, contents, splits, name, license),
        argument=shlex.quote(file if hub is None else f"{SCHEME}{hub}"),
        literal=json.dumps(file),
        license=license,
        key=KEY,
        input=INPUT,
        output=OUTPUT,
        about=contents,
        training=training,
        exported=exported,
        options=", ".join(f"{key} = {value}" for key, value in training["options"].items()),
        summary=_summary(training["method"]),
        epochs=counted(len(run.history), "epoch"),
        metrics=[name for name in _METRICS if name != "accuracy" or contents.single_label],
        splits=[{"name": split, "values": _percent(run.evaluation[split])} for split in splits],
        chosen=training["chosen_epoch"] if "validation" in splits else None,
        limits=_limits(contents, counts),
        classes=_classes(run, counts, splits),
        start=_start(training),
    )


def _head(
    run: Run, contents: Contents, splits: Sequence[str], name: str, license: str | None
) -> str:
    """What the hub reads at the top of a card, as YAML; a split without results is left out."""
    is_short = license is None or re.fullmatch(r"[A-Za-z0-9.-]+", license)
    training, validation = contents.training, run.config.validation_labels
    data = {
        "validation": training["labels"] if validation is None else file_names(validation),
        "test": training["test_labels"] or training["labels"],
    }
    kind = "Image" if contents.single_label else "Multi-label image"
    results = [
        EvalResult(
            task_type="image-classification",
            task_name=f"{kind} classification",
            dataset_type=data[split],
            dataset_name=data[split],
            dataset_split=split,
            metric_type=metric if metric == "mAP" else metric.lower(),
            metric_name=metric,
            metric_value=round(value, 4),
        )
        for split in splits
        for metric, value in _values(run.evaluation[split]).items()
        if value is not None
    ]
    head = ModelCardData(
        license=(license or "unknown").lower() if is_short else "other",
        license_name=None if is_short else license,
        library_name="onnx",
        pipeline_tag="image-classification",
        tags=["multi-label", "partial-labels", "g2netpl"],
        metrics=sorted({result.metric_type for result in results}) or None,
        model_name=name,
        eval_results=results or None,
    )
    return str(head.to_yaml())


def as_text(value: object) -> str:
    """A value that Markdown and its tables show as it is, in one line."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", " ".join(str(value).split()))


def check_license(license: str) -> str:
    """A licence for the head of the card; an SPDX name is best."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 .,()+/-]{0,99}", license):
        raise InputError(
            f"--license: expected a short name such as Apache-2.0 or CC-BY-4.0, got {license!r}"
        )
    return license


def _values(metrics: Metrics) -> dict[str, float | None]:
    return {name: cast(Content, metrics).get(key) for name, key in _METRICS.items()}


def _percent(metrics: Metrics) -> dict[str, str]:
    values = _values(metrics).items()
    return {name: "unknown" if value is None else f"{value:.1%}" for name, value in values}


def _start(training: dict[str, Any]) -> str:
    if training["weights"] is not None:
        return f"from the weights {training['weights']}"
    pretrained = training["pretrained"] and training["backbone"] != "tiny"
    return "from its pretrained weights" if pretrained else "from a random start"


def _classes(run: Run, counts: list[ClassCount], splits: Sequence[str]) -> list[dict[str, Any]]:
    measured = [run.evaluation[split]["average_precision"] for split in splits]
    thresholds, rows = run.thresholds, []
    for column, (count, limit) in enumerate(zip(counts, thresholds.per_class, strict=True)):
        precisions = [values[column] for values in measured]
        shown = "none" if limit is None or thresholds.single_label else f"{limit:.3f}"
        cells = ["" if value is None else f"{value:.1%}" for value in precisions]
        rows.append({**count._asdict(), "threshold": shown, "precision": cells})
    return rows


def _limits(contents: Contents, counts: list[ClassCount]) -> list[str]:
    """What to know before trusting a score."""
    unknown = sum(count.unknown for count in counts)
    known = sum(count.positive + count.negative for count in counts)
    method = contents.training["method"]
    limits = [
        f"Unknown is not negative: {unknown / max(unknown + known, 1):.1%} of the labels were "
        f"unknown: nobody had looked. The method decides what training made of them, {method}: "
        f"{_summary(method)}."
    ]
    if not any(count.negative for count in counts):
        limits.append(
            "No negative was known, so nothing could be measured on the label file, and "
            "calibration and thresholds rest on the expected positives per image. Look at some "
            "results before you trust them."
        )
    few = [count for count in sorted(counts, key=lambda c: c.positive) if count.positive < FEW]
    if few:
        named = listed((f"{as_text(count.name)} ({count.positive})" for count in few), _NAMED)
        limits.append(f"Fewer than {FEW} known positives, so expect little: {named}.")
    never = sum(limit is None for limit in contents.thresholds)
    if never:
        limits.append(
            f"{never} of {len(counts)} classes are never proposed: no threshold reaches the "
            "precision."
        )
    return [
        *limits,
        "It knows the kind of images it was trained on. Test it again on other cameras, places or "
        "times.",
        "Images are squashed to a square, whatever their shape; objects of a few pixels are lost.",
        "The score of a class does not say where in the image it is, or how often.",
    ]


def _summary(method: str) -> str:
    """What a method does; nothing is known about one from a plugin."""
    return METHODS[method].summary if method in METHODS else "a method of a plugin"
