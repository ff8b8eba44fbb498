"""The model card of a bundle: for the person who gets the file and was not there when it was made.

Everything in it comes from the run folder; what is not known is said to be so.
"""

import json
import re
import shlex
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

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
_FIGURES = {
    "mAP": "mean_average_precision",
    "precision": "precision",
    "recall": "recall",
    "F1": "f1",
    "accuracy": "accuracy",  # where each image has one class
}


def make_card(
    run: Run,
    exported: Exported,
    file: str,
    licence: str | None = None,
    name: str | None = None,
    hub: str | None = None,
) -> str:
    """The card as Markdown; `file` is the bundle, `hub` the repository on the hub, if any."""
    from jinja2 import Environment

    contents, training = exported.contents, exported.contents.training
    parts = [part for part in ("validation", "test") if part in run.evaluation]
    counts = class_counts(run.observed())
    environment = Environment(keep_trailing_newline=True)  # Markdown: `text` escapes, not HTML
    environment.filters["text"] = as_text
    template = (files("g2netpl.runs") / "card.md").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        name=name or Path(file).stem,
        file=file,
        head=_head(run, contents, parts, name or Path(file).stem, licence),
        argument=shlex.quote(file if hub is None else f"{SCHEME}{hub}"),
        literal=json.dumps(file),
        licence=licence,
        key=KEY,
        input=INPUT,
        output=OUTPUT,
        about=contents,
        exported=exported,
        facts=_facts(run, contents),
        figures=[name for name in _FIGURES if name != "accuracy" or contents.single_label],
        parts=[{"name": part, "figures": _figures(run.evaluation[part])} for part in parts],
        chosen=training["chosen_epoch"] if "validation" in parts else None,
        limits=_limits(contents, counts),
        held_out=training["images"] - training["training_images"],
        classes=_classes(run, counts, parts),
        start=_start(training),
    )


def _head(
    run: Run, contents: Contents, parts: Sequence[str], name: str, licence: str | None
) -> str:
    """What the hub reads at the top of a card, as YAML, of which JSON is a part.

    Figures are those of the page; a part without any is not listed.
    """
    short = licence is None or re.fullmatch(r"[A-Za-z0-9.-]+", licence)
    head: dict[str, Any] = {"license": (licence or "unknown").lower() if short else "other"}
    if not short:
        head["license_name"] = licence
    head |= {"library_name": "onnx", "pipeline_tag": "image-classification"}
    head["tags"] = ["multi-label", "partial-labels", "g2netpl"]
    training, validation = contents.training, run.config.validation_labels
    files = {
        "validation": training["labels"] if validation is None else file_names(validation),
        "test": training["test_labels"] or training["labels"],
    }
    kind = "Image" if contents.single_label else "Multi-label image"
    results: list[dict[str, Any]] = [
        {
            "task": {"type": "image-classification", "name": f"{kind} classification"},
            "dataset": {"type": files[part], "name": files[part], "split": part},
            "metrics": metrics,
        }
        for part in parts
        if (metrics := _metrics(run.evaluation[part]))
    ]
    if results:
        head["metrics"] = sorted({each["type"] for one in results for each in one["metrics"]})
        head["model-index"] = [{"name": name, "results": results}]
    return "\n".join(f"{key}: {json.dumps(v, ensure_ascii=False)}" for key, v in head.items())


def _metrics(metrics: Metrics) -> list[dict[str, Any]]:
    """Figures as fractions, those that are known."""
    values = {name: cast(Content, metrics).get(key) for name, key in _FIGURES.items()}
    return [
        {"type": "mAP" if name == "mAP" else name.lower(), "name": name, "value": round(value, 4)}
        for name, value in values.items()
        if value is not None
    ]


def as_text(value: object) -> str:
    """A value that Markdown and its tables show as it is, in one line."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", " ".join(str(value).split()))


def one_line(licence: str) -> str:
    """A licence as it may stand in the head of the card; an SPDX name is best."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 .,()+/-]{0,99}", licence):
        raise InputError(
            f"--license: expected a short name such as Apache-2.0 or CC-BY-4.0, got {licence!r}"
        )
    return licence


def _facts(run: Run, contents: Contents) -> list[tuple[str, str]]:
    training = contents.training
    images, trained = training["images"], training["training_images"]
    options = ", ".join(f"{key} = {value}" for key, value in training["options"].items())
    method = training["method"] + (f" ({options})" if options else "")
    hidden = f", a hidden layer of {training['hidden']}" if training["hidden"] else ""
    return [
        ("label file", training["labels"]),
        ("images", f"{images:,} in all, {trained:,} of them trained on"),
        ("labels known to the training", f"{training['observed_fraction']:.2%}"),
        ("setting", _setting(training["setting"])),
        ("expected positives per image, k", f"{training['expected_positives']:.2f}"),
        ("method", f"{method}: {_summary(training['method'])}"),
        ("backbone", f"{training['backbone']}, {_start(training)}"),
        ("classifier", f"linear{hidden}"),
        ("image size", f"{contents.image_size} × {contents.image_size}"),
        ("mode", f"{training['mode']}, {counted(len(run.history), 'epoch')}"),
        ("batch size", str(training["batch_size"])),
        ("epoch", training["chosen_epoch"]),
        ("seed", str(training["seed"])),
        ("test label file", training["test_labels"] or "none"),
        ("fingerprint of the labels", training["fingerprints"]["training"]),
        ("made with", ", ".join(f"{k} {v}" for k, v in training["versions"].items())),
    ]


def _setting(name: str) -> str:
    return f"{name}: " + (
        "the labels as the file has them"
        if name == "own"
        else "for an experiment, labels were hidden"
    )


def _start(training: dict[str, Any]) -> str:
    if training["weights"] is not None:
        return f"from the weights {training['weights']}"
    pretrained = training["pretrained"] and training["backbone"] != "tiny"
    return "from its pretrained weights" if pretrained else "from a random start"


def _figures(metrics: Metrics) -> dict[str, str]:
    values = {name: cast(Content, metrics).get(key) for name, key in _FIGURES.items()}
    return {name: "unknown" if v is None else f"{v:.1%}" for name, v in values.items()}


def _classes(run: Run, counts: list[ClassCount], parts: Sequence[str]) -> list[dict[str, Any]]:
    measured = [run.evaluation[part]["average_precision"] for part in parts]
    single_label = run.thresholds.single_label
    return [
        {
            **each._asdict(),
            "threshold": "none" if threshold is None or single_label else f"{threshold:.3f}",
            "precision": ["" if v[place] is None else f"{v[place]:.1%}" for v in measured],
        }
        for place, (each, threshold) in enumerate(
            zip(counts, run.thresholds.per_class, strict=True)
        )
    ]


def _limits(contents: Contents, counts: list[ClassCount]) -> list[str]:
    """What the person should know before trusting a score."""
    method = contents.training["method"]
    negatives = sum(each.negative for each in counts)
    unknown = sum(each.unknown for each in counts)
    share = unknown / max(sum(each.positive + each.negative + each.unknown for each in counts), 1)
    limits = [
        f"Unknown is not negative: {share:.1%} of the labels were unknown, that is, nobody had "
        "said whether the class is there. What training made of them is up to its method, "
        f"{method}: {_summary(method)}."
    ]
    if not negatives:
        limits.append(
            "No negative was known, so no figure could be measured on the label file, and "
            "calibration and thresholds rest on the expected number of positives per image. Look "
            "at some results before you trust them."
        )
    few = [each for each in sorted(counts, key=lambda c: c.positive) if each.positive < FEW]
    if few:
        named = listed((f"{as_text(each.name)} ({each.positive})" for each in few), _NAMED)
        limits.append(f"Fewer than {FEW} known positives, so expect little: {named}.")
    silent = int(sum(each is None for each in contents.thresholds))
    if silent:
        limits.append(
            f"{silent} of {len(counts)} classes are never proposed: no threshold reached what was "
            "asked for."
        )
    limits += [
        "It knows the kind of images it was trained on. Other cameras, places or times need a test "
        "of their own.",
        "Images are squashed to a square, whatever their shape; things of a few pixels are lost.",
        "A score of a class says nothing about where in the image it is, or how often.",
    ]
    return limits


def _summary(method: str) -> str:
    """What a method does; of one that came with a plugin nothing is known here."""
    return METHODS[method].summary if method in METHODS else "a method of its author's own"
