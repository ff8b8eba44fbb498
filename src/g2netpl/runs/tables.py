"""The tables of a finished run, per image and class: labels, pseudo-labels, scores.

A missing, torn or wrong file is one line that names it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    per_class,
)
from g2netpl.runs.records import CLASSES, HELD_OUT, LABELS, LOGITS, SOFT_LABELS
from g2netpl.runs.thresholds import Thresholds, logits_of
from g2netpl.utils.arrays import Scores, first_line, read_npz, write_npz
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import atomic_write

SPLITS = ("validation", "test")


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

    def predictions(self) -> Scores:
        """Scores of all images in [0, 1], before calibration; NaN if unreadable."""
        return np.asarray(expit(np.asarray(self.logits, dtype=np.float32)))


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
    with _named(path):
        arrays = read_npz(path)
        groups = tuple(arrays["groups"].tolist()) if "groups" in arrays else None
        table = LabelTable(
            tuple(map(str, arrays["images"])), classes, arrays["observed"], (), groups
        )
        has_soft = _checked(arrays["soft"], (len(table),), "b")
    size = (len(table), len(classes))
    large = _mapped(folder / SOFT_LABELS, size), _mapped(folder / LOGITS, size)
    return SavedLabels(table.images, classes, table.values, has_soft, *large, groups=groups)


def _mapped(path: Path, size: tuple[int, int]) -> npt.NDArray[Any]:
    with _named(path):
        return _checked(np.load(path, mmap_mode="r", allow_pickle=False), size, "f")


def _checked(table: npt.NDArray[Any], size: tuple[int, ...], kind: str) -> npt.NDArray[Any]:
    if table.shape != size or table.dtype.kind != kind:
        raise ValueError(f"expected shape {size}, got {table.dtype} of shape {table.shape}")
    return table


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """A mistake in a file becomes a line that names it."""
    try:
        yield
    except KeyError as problem:
        raise InputError(f"{path}: has no {problem}; train again") from None
    except (OSError, EOFError, TypeError, ValueError, InputError) as problem:
        raise InputError(f"{path}: cannot be read ({first_line(problem)}); train again") from None


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
    known = np.zeros((0, len(classes)), np.int8) if held_out is None else held_out.values
    counts = (per_class(known, sign).tolist() for sign in (POSITIVE, NEGATIVE))
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
    splits = {}
    with _named(folder / HELD_OUT):
        arrays = read_npz(folder / HELD_OUT)
        for split in (name for name in SPLITS if f"{name}_logits" in arrays):
            images, logits, truth = (
                arrays[f"{split}_{key}"] for key in ("images", "logits", "truth")
            )
            table = LabelTable(tuple(map(str, images)), classes, truth)
            scores = expit(_checked(logits, truth.shape, "f").astype(np.float64))
            splits[split] = HeldOut(table, scores.astype(np.float32))
    return splits
