"""The run folder: the names of its files, and what its JSON files hold, checked once for everybody.

docs/reference/run-folder.md says what is in each file. Observed values are in soft_labels.npy as
they are; logits.npy has logits, since probabilities would need more bits near 0 and 1. A missing,
torn or wrong file is one line that names it.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, TypeVar

from pydantic import FiniteFloat
from typing_extensions import TypedDict

from g2netpl.utils.errors import InputError
from g2netpl.utils.files import atomic_write, check_no_links, friendly_os_errors
from g2netpl.utils.locks import LOCK
from g2netpl.utils.options import check_record, parse_record

RUN, RUN_FORMAT = "run.json", 3
HISTORY, NON_FINITE, CHECKPOINTS = "history.jsonl", "non_finite.jsonl", "checkpoints"
MODEL, SOFT_LABELS = "model.safetensors", "soft_labels.npy"
LOGITS, LABELS, HELD_OUT = "logits.npy", "labels.npz", "scores.npz"
THRESHOLDS, RESULT, EVALUATION = "decisions.json", "result.json", "evaluation.json"
CLASSES, NAMES, COMPLETED = "classes.csv", "names.csv", "completed.csv"
REPORT, TRACKERS = "report.html", "trackers.json"
DECIDED, REVIEW = "decided.jsonl", "review.jsonl"
RESULTS = ("results.json", "results.csv")  # of a comparison

Content = dict[str, Any]
Number = FiniteFloat | None
Record = TypeVar("Record")


class TrainingData(TypedDict):
    """The data of a training run, in run.json."""

    fingerprints: dict[str, str]
    images: int
    training_images: int
    observed_fraction: FiniteFloat
    chosen_epoch: str
    earlier_model: str | None


class TrainingRun(TypedDict):
    """run.json of a training run."""

    config: Content
    asked: Content  # keys as they were given
    versions: dict[str, str]
    data: TrainingData
    classes: list[str]
    expected_positives: FiniteFloat
    annotation: Literal["sampled", "random", "complete"]
    resolved: Content  # what `auto` and `none` stand for
    weights: Content  # identity of the backbone's weights
    mean: list[FiniteFloat]
    std: list[FiniteFloat]


class EquilibriumMetrics(TypedDict, total=False):
    """How far model and pseudo-labels are from an equilibrium, as far as it was measured."""

    unresolved: float | None
    soft_positives: float | None
    soft_histogram: list[int] | None
    movement: float | None
    flips: float | None
    regret: float | None
    predicted_positives: float | None
    gradient_norm: float | None


class Epoch(EquilibriumMetrics):
    """A line of history.jsonl."""

    epoch: int
    cost: NotRequired[float | None]
    validation_map: NotRequired[float | None]
    seconds: NotRequired[float | None]
    images_per_second: NotRequired[float | None]


class Result(TypedDict):
    """Settings and results of a run: result.json, and a row of a comparison."""

    method: str
    setting: str
    seed: int
    learning_rate: FiniteFloat
    batch_size: int
    weight: str
    validation_map: Number
    test_map: Number
    last_test_map: Number
    pseudo_label_map: Number
    unresolved: Number
    best_epoch: int | None
    seconds: Number


class Metrics(TypedDict):
    """A split in evaluation.json."""

    average_precision: list[float | None]
    mean_average_precision: float | None
    mean_over_present: float | None
    precision: float | None
    recall: float | None
    f1: float | None
    accuracy: NotRequired[float | None]


class Evaluation(TypedDict):
    """evaluation.json: metrics of the splits that exist."""

    validation: NotRequired[Metrics]
    test: NotRequired[Metrics]


def is_begun(folder: Path) -> bool:
    """Whether a command has begun to write there."""
    return (folder / RUN).is_file()


def is_finished(folder: Path) -> bool:
    """Whether the training run there has its results."""
    return (folder / RESULT).is_file()


def read_run(folder: str | Path) -> Content:
    """The content of run.json, of any command."""
    folder = Path(folder)
    check_no_links(folder)
    path = folder / RUN
    if not path.is_file():
        if (folder / LOCK).is_file():
            raise InputError(f"{folder}: nothing was saved yet; run the original command again")
        raise InputError(f"{folder}: no run folder ({RUN} is missing)")
    content = parse_record(dict[str, Any], path.read_bytes(), str(path))
    if content.get("format") != RUN_FORMAT or not isinstance(content.get("command"), str):
        raise InputError(f"{path}: expected a {RUN} of g2netpl 1.0; train again")
    return content


def read_training(folder: str | Path) -> Content:
    """The content of run.json of a training run, as opposed to a comparison or a demo."""
    content = read_run(folder)
    if content["command"] != "train":
        raise InputError(f"{folder}: was written by 'g2netpl {content['command']}', not by train")
    check_record(TrainingRun, content, str(Path(folder) / RUN))
    return content


def read_json(path: Path, kind: type[Record]) -> Record:
    """The content of a JSON file of a run."""
    try:
        with friendly_os_errors(path):
            return parse_record(kind, path.read_bytes(), f"{path}: cannot be read")
    except InputError as problem:
        raise InputError(f"{problem}; train again") from None


def write_history(path: Path, history: Sequence[Mapping[str, Any]]) -> None:
    """Write all epochs, a JSON object per line; not synced, since checkpoints hold them too."""
    lines = "".join(json.dumps(record) + "\n" for record in history)
    with atomic_write(path, durable=False) as file:
        file.write(lines.encode())
