"""How good are scores or soft labels: average precision, thresholds, and entries nobody knows.

Truth may hold −1: such entries count nowhere, nor do images whose scores are all NaN, which could
not be read. All results are fractions in [0, 1].
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from g2netpl.entries import Labels, per_class
from g2netpl.errors import InputError
from g2netpl.labels import NEGATIVE, POSITIVE, UNOBSERVED

Scores = npt.NDArray[np.float32]
Truth = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Evaluation:
    """Metrics of scores against truth."""

    mean_average_precision: float  # classes without a positive count 0, as in the protocol
    mean_over_present: float  # classes without a positive left out
    average_precision: tuple[float, ...]  # per class, nan where the class has no positive
    precision: float  # of the labels at or above their threshold, over all known entries
    recall: float
    f1: float
    known_entries: int


def average_precision(scores: npt.ArrayLike, truth: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Non-interpolated average precision of each class, nan for a class without a positive.

    Tied scores are one threshold, as in scikit-learn. All classes are sorted and summed at once.
    """
    values, labels = _checked(scores, truth)
    if not len(values):
        return np.full(values.shape[1], np.nan)
    order = np.argsort(-values, axis=0, kind="stable")
    ranked = np.take_along_axis(values, order, axis=0)
    ranked_truth = np.take_along_axis(labels, order, axis=0)
    hits = ranked_truth == POSITIVE
    true_positives = np.cumsum(hits, axis=0)
    retrieved = np.cumsum(ranked_truth != UNOBSERVED, axis=0)
    # within a run of ties, every entry sees the counts at the end of the run
    last_of_run = np.ones(values.shape, dtype=bool)
    last_of_run[:-1] = ranked[:-1] != ranked[1:]
    rows = np.arange(len(values))[:, None]
    end = np.where(last_of_run, rows, len(values) - 1)
    end = np.minimum.accumulate(end[::-1], axis=0)[::-1]
    at_end = np.take_along_axis(true_positives, end, axis=0) / np.maximum(
        np.take_along_axis(retrieved, end, axis=0), 1
    )
    positives = true_positives[-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(positives > 0, np.where(hits, at_end, 0.0).sum(axis=0) / positives, np.nan)


def mean_average_precision(scores: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """mAP as the protocol has it: a class without a positive counts 0."""
    return float(np.nan_to_num(average_precision(scores, truth), nan=0.0).mean())


def evaluate(
    scores: npt.ArrayLike, truth: npt.ArrayLike, threshold: npt.ArrayLike = 0.5
) -> Evaluation:
    """All metrics of `scores` (N, L) against `truth` (N, L) of 1, 0 and −1 (not counted).

    `threshold` is one number, or one per class.
    """
    values, labels = _checked(scores, truth)
    per_class = average_precision(values, labels)
    present = per_class[~np.isnan(per_class)]
    chosen = (values >= np.asarray(threshold)) & (labels != UNOBSERVED)
    positive = labels == POSITIVE
    hits = int(np.sum(chosen & positive))
    precision = hits / max(int(chosen.sum()), 1)
    recall = hits / max(int(positive.sum()), 1)
    return Evaluation(
        mean_average_precision=float(np.nan_to_num(per_class, nan=0.0).mean()),
        mean_over_present=float(present.mean()) if len(present) else 0.0,
        average_precision=tuple(float(value) for value in per_class),
        precision=precision,
        recall=recall,
        f1=2 * precision * recall / max(precision + recall, 1e-12),
        known_entries=int(np.sum(labels != UNOBSERVED)),
    )


def can_rank(truth: Labels) -> bool:
    """Whether average precision means anything: some class has both signs observed."""
    both = (per_class(truth, POSITIVE) > 0) & (per_class(truth, NEGATIVE) > 0)
    return bool(both.any())


def ranked_map(scores: npt.ArrayLike, truth: Truth) -> float | None:
    """mAP, or None where there are no negatives to rank against."""
    return mean_average_precision(scores, truth) if can_rank(truth) else None


def _checked(
    scores: npt.ArrayLike, truth: npt.ArrayLike
) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.integer]]:
    values, labels = np.asarray(scores), np.asarray(truth)
    if not np.issubdtype(values.dtype, np.floating):
        values = values.astype(np.float64)
    if values.ndim != 2 or values.shape != labels.shape:
        raise InputError(
            f"evaluation: expected scores and truth of one shape (N, L), "
            f"got {values.shape} and {labels.shape}"
        )
    missing = np.isnan(values)
    if missing.any():
        unreadable = missing.all(axis=1)
        if (missing.any(axis=1) != unreadable).any():
            raise InputError("evaluation: scores contain NaN")
        values = np.where(missing, 0.0, values)
        labels = np.where(missing, UNOBSERVED, labels)
    return values, labels
