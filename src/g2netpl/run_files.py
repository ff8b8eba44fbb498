"""A run folder read without torch: run.json, and what is known and said about every label."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from g2netpl.arrays import read_npz
from g2netpl.aside import recover
from g2netpl.errors import InputError
from g2netpl.labels import LabelMatrix, check_values

RUN_FORMAT = 2


def read_run(folder: str | Path) -> dict[str, Any]:
    """The content of run.json; first, what a killed process had set aside is put back."""
    recover(Path(folder))
    path = Path(folder) / "run.json"
    if not path.is_file():
        raise InputError(f"{folder}: no run folder (run.json is missing)")
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise InputError(f"{path}: not valid JSON ({problem})") from None
    if not isinstance(content, dict) or content.get("format") != RUN_FORMAT:
        raise InputError(f"{path}: expected a run.json of g2netpl, format {RUN_FORMAT}")
    return content


def read_training(folder: str | Path) -> dict[str, Any]:
    """The content of run.json of a training, as opposed to a comparison or a demo."""
    content = read_run(folder)
    if content.get("command") != "train":
        raise InputError(
            f"{folder}: was written by 'g2netpl {content.get('command')}', not by train"
        )
    return content


def read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file of a run."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise InputError(f"{path}: cannot be read ({problem}); train again") from None
    return content


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
    if not (folder / "result.json").is_file():
        raise InputError(f"{folder}: this run is not finished; go on with g2netpl train --resume")
    path = folder / "labels.npz"
    try:
        arrays = read_npz(path)
        images = tuple(arrays["images"].tolist())
        observed = check_values(arrays["observed"])
        has_soft = np.asarray(arrays["soft"], dtype=bool)
        path = folder / "soft_labels.npy"
        completed = np.load(path, mmap_mode="r", allow_pickle=False)
        path = folder / "predictions.npy"
        predicted = np.load(path, mmap_mode="r", allow_pickle=False) if path.is_file() else None
    except (OSError, ValueError, KeyError, EOFError, InputError) as problem:
        raise InputError(f"{path}: cannot be read ({problem}); train again") from None
    shape = (len(images), len(classes))
    for name, matrix in (
        ("labels.npz", observed),
        ("soft_labels.npy", completed),
        ("predictions.npy", predicted),
    ):
        if matrix is not None and matrix.shape != shape:
            raise InputError(
                f"{folder / name}: expected {shape[0]} images × {shape[1]} classes, got shape "
                f"{matrix.shape}; train again"
            )
    return SavedLabels(images, classes, observed, has_soft, completed, predicted)
