"""The tables of a finished run, per image and class: labels, pseudo-labels, scores.

A missing, torn or wrong file is one line that names it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from g2netpl.labels.io.writing import write_rows
from g2netpl.labels.missingness import informative_rows, observed_alike
from g2netpl.labels.table import (
    NEGATIVE,
    POSITIVE,
    UNOBSERVED,
    LabelMatrix,
    LabelTable,
    check_values,
    per_class,
)
from g2netpl.runs.records import CLASSES, HELD_OUT, LABELS, LOGITS, SOFT_LABELS
from g2netpl.runs.thresholds import Thresholds, logits_of
from g2netpl.utils.arrays import Scores, first_line, read_npz, write_npz
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import atomic_write

SPLITS = ("validation", "test")

Rows = slice | npt.NDArray[np.int64]


@dataclass(frozen=True)
class SavedLabels:
    """Labels, pseudo-labels and predictions of a finished run; the large ones are mapped."""

    images: tuple[str, ...]
    classes: tuple[str, ...]
    observed: LabelMatrix  # (N, L): what the training run knew
    has_soft: npt.NDArray[np.bool_]  # (N,): images with pseudo-labels, and not predictions
    completed: npt.NDArray[np.float32]  # (N, L): observed, else pseudo-label, else prediction
    logits: npt.NDArray[np.float16]  # (N, L)
    groups: tuple[str, ...] | None = None  # (N,), as the training run kept them together

    def predictions(self, rows: Rows = slice(None)) -> Scores:
        """Scores of some images in [0, 1], before calibration; NaN if unreadable."""
        return np.asarray(expit(np.asarray(self.logits[rows], dtype=np.float32)))


def write_saved_labels(
    folder: Path,
    table: LabelTable,
    observed: LabelMatrix,
    has_soft: npt.NDArray[np.bool_],
    completed: Scores,
    predicted: Scores,
) -> None:
    """Write the labels of a finished run."""
    logits = logits_of(predicted).astype(np.float16)
    for name, numbers in ((SOFT_LABELS, completed), (LOGITS, logits)):
        with atomic_write(folder / name) as file:
            np.save(file, numbers, allow_pickle=False)
    arrays = {"images": np.array(table.images), "observed": observed, "soft": has_soft}
    if table.groups is not None:
        arrays["groups"] = np.array(table.groups)
    write_npz(folder / LABELS, arrays)


def read_saved_labels(folder: Path, classes: tuple[str, ...]) -> SavedLabels:
    """Open the label files of a finished run; pseudo-labels and predictions stay on disk."""
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
    return SavedLabels(images, classes, observed, has_soft, completed, logits, groups)


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
        expected = " × ".join(f"{count}" for count in size)
        raise InputError(
            f"{path}: expected {expected} (images × classes), got {table.dtype} of shape "
            f"{table.shape}; train again"
        )


@dataclass(frozen=True)
class HeldOut:
    """Images that were not trained on: their scores, and what is known of them."""

    table: LabelTable
    scores: Scores  # (N, L) in [0, 1], before calibration; NaN if unreadable

    @property
    def truth(self) -> LabelMatrix:
        """What is known of the images that could be read."""
        unreadable = np.isnan(self.scores).any(axis=1, keepdims=True)
        return np.where(unreadable, UNOBSERVED, self.table.values).astype(np.int8)

    def judged(self, k: float) -> "HeldOut | None":
        """The images by which decisions can be measured, if k positives are expected in each.

        All of them; or if positives are known far more often than negatives, those whose labels
        are all known; None without any.
        """
        rows = np.arange(len(self.table))
        if not observed_alike(self.truth, k):
            rows = informative_rows(self.truth, k, self.scores)
        return HeldOut(self.table.take(rows), self.scores[rows]) if len(rows) else None


def write_classes(
    folder: Path, classes: Sequence[str], thresholds: Thresholds, held_out: LabelTable | None
) -> None:
    """A row per class: its threshold, the reason for it, and the counts of validation labels."""
    none = [0] * len(classes)
    counts = [
        none if held_out is None else per_class(held_out.values, sign).tolist()
        for sign in (POSITIVE, NEGATIVE)
    ]
    header = ("class", "threshold", "decided by", "validation positives", "validation negatives")
    rows = zip(classes, thresholds.per_class, thresholds.reasons, *counts, strict=True)
    write_rows(folder / CLASSES, header, rows)


def write_held_out(folder: Path, splits: Mapping[str, HeldOut]) -> None:
    """Write the scores of the splits that a run had, some of SPLITS."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for split, held_out in splits.items():
        arrays[f"{split}_images"] = np.array(held_out.table.images)
        arrays[f"{split}_logits"] = logits_of(held_out.scores).astype(np.float16)
        arrays[f"{split}_truth"] = held_out.table.values
    write_npz(folder / HELD_OUT, arrays)


def read_held_out(folder: Path, classes: tuple[str, ...]) -> dict[str, HeldOut]:
    """What was kept, by split."""
    path = folder / HELD_OUT
    arrays, splits = _read_arrays(path), {}
    for split in SPLITS:
        if f"{split}_logits" not in arrays:
            continue
        try:
            names, logits, truth = (
                arrays[f"{split}_{key}"] for key in ("images", "logits", "truth")
            )
            table = LabelTable(tuple(map(str, names)), classes, truth)
            if logits.shape != truth.shape or logits.dtype.kind != "f":
                raise ValueError(f"{split}_logits: expected {truth.shape}, got {logits.shape}")
        except (KeyError, TypeError, ValueError, InputError) as problem:
            line = first_line(problem)
            raise InputError(f"{path}: cannot be read ({line}); train again") from None
        splits[split] = HeldOut(table, expit(logits.astype(np.float64)).astype(np.float32))
    return splits


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
