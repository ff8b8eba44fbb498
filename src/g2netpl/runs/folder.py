"""A run folder read without torch: what each file must hold is checked here, once for everybody.

What is missing, torn, or of another kind is one line that names the file.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import FiniteFloat

from g2netpl.base.errors import InputError
from g2netpl.base.options import Shape
from g2netpl.labels.table import LabelMatrix, check_values
from g2netpl.runs.aside import recover
from g2netpl.runs.scores import read_arrays
from g2netpl.runs.thresholds import Decisions, Written

RUN_FORMAT = 2


Content = dict[str, Any]
Figure = FiniteFloat | None


class _AnyRun(Shape):
    """run.json of any command."""

    format: Literal[2]
    command: str


class _Data(Shape):
    """What run.json says of the data of a training; older versions wrote no more."""

    fingerprints: dict[str, str]
    images: int
    training_images: int
    observed_fraction: FiniteFloat
    chosen_epoch: str
    image_files: str | None = None
    image_stamps: str | None = None


class _Training(Shape):
    """run.json of a training."""

    config: Content
    versions: dict[str, str]
    data: _Data
    classes: list[str]
    expected_positives: FiniteFloat
    mean: list[FiniteFloat]
    std: list[FiniteFloat]


class Epoch(Shape):
    """A line of history.jsonl."""

    epoch: int
    cost: float | None = None
    validation_map: float | None = None
    undecided: float | None = None
    soft_positives: float | None = None
    soft_histogram: list[int] | None = None
    movement: float | None = None
    flips: float | None = None
    regret: float | None = None
    predicted_positives: float | None = None
    images_per_second: float | None = None


class Result(Shape):
    """result.json, and a row of a comparison."""

    method: str
    setting: str
    seed: int
    learning_rate: FiniteFloat
    batch_size: int
    weight: str
    best_epoch: int | None
    validation_map: Figure
    test_map: Figure
    last_test_map: Figure
    pseudo_label_map: Figure
    undecided: Figure
    seconds: Figure


class _Finished(Result):
    """result.json of a training, which took some time."""

    best_epoch: int
    seconds: FiniteFloat


class _Metrics(Shape):
    """A part of evaluation.json."""

    average_precision: list[float | None]
    mean_average_precision: float | None
    mean_over_present: float | None
    precision: float | None
    recall: float | None
    f1: float | None


def read_run(folder: str | Path, shape: type[Shape] = _AnyRun) -> Content:
    """The content of run.json; first, what a killed process had set aside is put back."""
    recover(Path(folder))
    path = Path(folder) / "run.json"
    if not path.is_file():
        raise InputError(f"{folder}: no run folder (run.json is missing)")
    content = Shape.parse(path.read_bytes(), str(path))
    if content.get("format") != RUN_FORMAT:
        raise InputError(f"{path}: expected a run.json of g2netpl, format {RUN_FORMAT}")
    _AnyRun.check(content, str(path))
    return shape.check(content, str(path))


def read_training(folder: str | Path) -> Content:
    """The content of run.json of a training, as opposed to a comparison or a demo."""
    content = read_run(folder)
    if content["command"] != "train":
        raise InputError(f"{folder}: was written by 'g2netpl {content['command']}', not by train")
    return _Training.check(content, str(Path(folder) / "run.json"))


def read_json(path: Path, shape: type[Shape]) -> Content:
    """The content of a JSON file of a run."""
    try:
        return shape.parse(path.read_bytes(), f"{path}: cannot be read")
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror}); train again") from None
    except InputError as problem:
        raise InputError(f"{problem}; train again") from None


def check_finished(folder: Path) -> None:
    """Refuse a run that has no results yet."""
    if not (folder / "result.json").is_file():
        raise InputError(f"{folder}: this run is not finished; go on with g2netpl train --resume")


def read_result(folder: Path) -> Content:
    """The figures of a finished training."""
    return read_json(folder / "result.json", _Finished)


def read_evaluation(folder: Path, classes: Sequence[str]) -> Content:
    """The figures of every class, on validation and test as far as there are any."""
    path = folder / "evaluation.json"
    content = read_json(path, Shape)
    for part in ("validation", "test"):
        if part in content:
            found = _Metrics.check(content[part], f"{path}: {part}")["average_precision"]
            _check_count(path, f"{part}: average_precision", found, classes)
    return content


def read_thresholds(folder: Path, classes: Sequence[str]) -> Decisions:
    """How the run decides."""
    path = folder / "decisions.json"
    decisions = Decisions.from_json(read_json(path, Written), str(path))
    _check_count(path, "thresholds", decisions.thresholds, classes)
    return decisions


def _check_count(path: Path, what: str, found: Sequence[Any], classes: Sequence[str]) -> None:
    if len(found) != len(classes):
        raise InputError(
            f"{path}: {what}: expected one for each of {len(classes)} classes, got {len(found)}; "
            "train again"
        )


def read_history(path: Path) -> list[Content]:
    """The finished epochs; a last line that is just being written is left out."""
    if not path.is_file():
        return []
    lines = path.read_bytes().splitlines()
    records = []
    for place, line in enumerate(lines, start=1):
        try:
            records.append(Epoch.parse(line, f"{path}:{place}: expected a line of JSON"))
        except InputError:
            if place < len(lines) or _is_json(line):
                raise
    return records


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


@dataclass(frozen=True)
class SavedLabels:
    """The label table of a finished training, and what both players say; the large ones mapped."""

    images: tuple[str, ...]
    classes: tuple[str, ...]
    observed: LabelMatrix  # (N, L): what the training knew
    has_soft: npt.NDArray[np.bool_]  # (N,): images with soft labels, and not predictions
    completed: npt.NDArray[np.float32]  # (N, L): observed, else soft label, else prediction
    predicted: npt.NDArray[np.float16] | None  # (N, L); None in the folder of an older run


def read_saved_labels(folder: str | Path) -> SavedLabels:
    """Open the label files of a finished training; soft labels and predictions stay on disk."""
    folder = Path(folder)
    classes = tuple(read_training(folder)["classes"])
    check_finished(folder)
    path = folder / "labels.npz"
    arrays = read_arrays(path, "images", "observed", "soft")
    try:
        if arrays["images"].ndim != 1 or arrays["images"].dtype.kind != "U":
            raise ValueError("images: expected their names")
        images = tuple(arrays["images"].tolist())
        observed = check_values(arrays["observed"])
        has_soft = np.asarray(arrays["soft"], dtype=bool)
        path = folder / "soft_labels.npy"
        completed = np.load(path, mmap_mode="r", allow_pickle=False)
        path = folder / "predictions.npy"
        predicted = np.load(path, mmap_mode="r", allow_pickle=False) if path.is_file() else None
    except (OSError, ValueError, KeyError, EOFError, InputError) as problem:
        raise InputError(f"{path}: cannot be read ({problem}); train again") from None
    for name, matrix, wanted, kind in (
        ("labels.npz", observed, (len(images), len(classes)), "i"),
        ("labels.npz", has_soft, (len(images),), "b"),
        ("soft_labels.npy", completed, (len(images), len(classes)), "f"),
        ("predictions.npy", predicted, (len(images), len(classes)), "f"),
    ):
        if matrix is not None and (matrix.shape != wanted or matrix.dtype.kind != kind):
            size = " × ".join((f"{len(images)} images", f"{len(classes)} classes")[: len(wanted)])
            raise InputError(
                f"{folder / name}: expected {size}, got {matrix.dtype} of shape {matrix.shape}; "
                "train again"
            )
    return SavedLabels(images, classes, observed, has_soft, completed, predicted)
