"""The tables of a finished training, per image and class: labels, soft labels, scores.

What is missing, torn, or of another kind is one line that names the file.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from g2netpl.labels.io.writing import csv_writer
from g2netpl.labels.missingness import informative_rows, observed_alike
from g2netpl.labels.table import (
    NEGATIVE,
    POSITIVE,
    UNOBSERVED,
    LabelMatrix,
    LabelTable,
    check_values,
)
from g2netpl.runs.folder import CLASSES, HELD_OUT, LABELS, LOGITS, SOFT_LABELS
from g2netpl.runs.thresholds import Thresholds, logits_of, sigmoid
from g2netpl.utils.arrays import Scores, first_line, read_npz, write_npz
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import atomic_write

PARTS = ("validation", "test")

Rows = slice | npt.NDArray[np.int64]


@dataclass(frozen=True)
class Predictions:
    """What the network says of every image; on disk, and read some images at a time."""

    logits: npt.NDArray[np.float16]  # (N, L)

    def scores(self, rows: Rows = slice(None), columns: Rows = slice(None)) -> Scores:
        """Of some images and classes, in [0, 1]; NaN where an image could not be read."""
        found = np.asarray(self.logits[rows][:, columns], dtype=np.float32)
        return sigmoid(found).astype(np.float32)


@dataclass(frozen=True)
class SavedLabels:
    """Labels, pseudo-labels and predictions of a finished run; the large ones mapped."""

    images: tuple[str, ...]
    classes: tuple[str, ...]
    observed: LabelMatrix  # (N, L): what the training knew
    has_soft: npt.NDArray[np.bool_]  # (N,): images with soft labels, and not predictions
    completed: npt.NDArray[np.float32]  # (N, L): observed, else soft label, else prediction
    predicted: Predictions
    groups: tuple[str, ...] | None = None  # (N,), as the training kept them together


def write_saved_labels(
    folder: Path,
    table: LabelTable,
    observed: LabelMatrix,
    has_soft: npt.NDArray[np.bool_],
    completed: Scores,
    predicted: Scores,
) -> None:
    """Write the labels of a finished training."""
    logits = logits_of(predicted).astype(np.float16)
    for name, numbers in ((SOFT_LABELS, completed), (LOGITS, logits)):
        with atomic_write(folder / name) as file:
            np.save(file, numbers, allow_pickle=False)
    arrays = {"images": np.array(table.images), "observed": observed, "soft": has_soft}
    if table.groups is not None:
        arrays["groups"] = np.array(table.groups)
    write_npz(folder / LABELS, arrays)


def read_saved_labels(folder: Path, classes: tuple[str, ...]) -> SavedLabels:
    """Open the label files of a finished training; soft labels and predictions stay on disk."""
    path = folder / LABELS
    arrays = _read_arrays(path, "images", "observed", "soft")
    try:
        if arrays["images"].ndim != 1 or arrays["images"].dtype.kind != "U":
            raise ValueError("images: expected their names")
        images = tuple(arrays["images"].tolist())
        groups = tuple(arrays["groups"].tolist()) if "groups" in arrays else None
        observed = check_values(arrays["observed"])
        has_soft = np.asarray(arrays["soft"], dtype=bool)
    except (ValueError, InputError) as problem:
        raise InputError(f"{path}: cannot be read ({problem}); train again") from None
    size = (len(images), len(classes))
    _check_table(path, observed, size, "i")
    _check_table(path, has_soft, size[:1], "b")
    completed, logits = (_open_table(folder / name, size) for name in (SOFT_LABELS, LOGITS))
    said = (has_soft, completed, Predictions(logits))
    return SavedLabels(images, classes, observed, *said, groups)


def _open_table(path: Path, size: tuple[int, int]) -> npt.NDArray[Any]:
    """A table of images and classes that stays on disk."""
    try:
        table: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as problem:
        raise InputError(f"{path}: cannot be read ({problem}); train again") from None
    _check_table(path, table, size, "f")
    return table


def _check_table(path: Path, table: npt.NDArray[Any], size: tuple[int, ...], kind: str) -> None:
    if table.shape != size or table.dtype.kind != kind:
        names = zip(size, ("images", "classes"), strict=False)
        expected = " × ".join(f"{count} {name}" for count, name in names)
        raise InputError(
            f"{path}: expected {expected}, got {table.dtype} of shape {table.shape}; train again"
        )


@dataclass(frozen=True)
class HeldOut:
    """Images that the training did not learn from: their scores, and what is known of them."""

    table: LabelTable
    scores: Scores  # (N, L) in [0, 1], as the network gives them; NaN: not readable

    @property
    def truth(self) -> LabelMatrix:
        """What is known of the images that could be read."""
        unread = np.isnan(self.scores).any(axis=1, keepdims=True)
        return np.where(unread, UNOBSERVED, self.table.values).astype(np.int8)

    def judged(self, k: float) -> "HeldOut | None":
        """The images by which decisions can be judged, where k positives are expected in each.

        All of them, or where positives are known far more often than negatives, those of which
        everything is known; None without any.
        """
        rows = np.arange(len(self.table))
        if not observed_alike(self.truth, k):
            rows = informative_rows(self.truth, k, self.scores)
        return HeldOut(self.table.take(rows), self.scores[rows]) if len(rows) else None


def write_classes(
    folder: Path, classes: Sequence[str], thresholds: Thresholds, held_out: LabelTable | None
) -> None:
    """A row per class: how it is decided, why, and by how many validation labels of each sign."""
    counts = [
        [0] * len(classes) if held_out is None else (held_out.values == sign).sum(axis=0).tolist()
        for sign in (POSITIVE, NEGATIVE)
    ]
    text = io.StringIO()
    write_row = csv_writer(text)
    write_row(("class", "threshold", "decided by", "validation positives", "validation negatives"))
    for row in zip(classes, thresholds.per_class, thresholds.grounds, *counts, strict=True):
        write_row(row)
    with atomic_write(folder / CLASSES) as file:
        file.write(text.getvalue().encode())


def write_held_out(folder: Path, parts: Mapping[str, HeldOut]) -> None:
    """Write the scores of the parts that a training had, some of PARTS."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for part, each in parts.items():
        arrays[f"{part}_images"] = np.array(each.table.images)
        arrays[f"{part}_logits"] = logits_of(each.scores).astype(np.float16)
        arrays[f"{part}_truth"] = each.table.values
    write_npz(folder / HELD_OUT, arrays)


def read_held_out(folder: Path, classes: tuple[str, ...]) -> dict[str, HeldOut]:
    """What was kept, by part."""
    path = folder / HELD_OUT
    arrays, parts = _read_arrays(path), {}
    for part in PARTS:
        if f"{part}_logits" not in arrays:
            continue
        try:
            names, logits, truth = (
                arrays[f"{part}_{key}"] for key in ("images", "logits", "truth")
            )
            table = LabelTable(tuple(str(name) for name in names), classes, truth)
            if logits.shape != truth.shape or logits.dtype.kind != "f":
                raise ValueError(f"{part}_logits: expected {truth.shape}, got {logits.shape}")
        except (KeyError, TypeError, ValueError, InputError) as problem:
            raise InputError(
                f"{path}: cannot be read ({first_line(problem)}); train again"
            ) from None
        parts[part] = HeldOut(table, sigmoid(logits.astype(np.float64)).astype(np.float32))
    return parts


def _read_arrays(path: Path, *needed: str) -> dict[str, Any]:
    """The arrays of an .npz file, those needed among them, or one line about it."""
    try:
        content = read_npz(path)
    except ValueError as problem:
        raise InputError(f"{path}: cannot be read ({problem}); train again") from None
    missing = [name for name in needed if name not in content]
    if missing:
        raise InputError(f"{path}: has no {missing[0]!r}; train again")
    return content
