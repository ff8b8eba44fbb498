"""How good scores or pseudo-labels are: average precision, precision, recall, F1, accuracy.

Truth may hold −1: such labels do not count, nor do images whose scores are all NaN (unreadable). A
class without a known negative cannot be ranked and is left out of every mean. All results are
fractions in [0, 1].
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelMatrix, per_class
from g2netpl.runs.thresholds import argmax_mask
from g2netpl.utils.errors import InputError


class Evaluation(NamedTuple):
    """Metrics of scores against truth."""

    mean_average_precision: float  # classes without a positive count 0, as in the protocol
    mean_over_present: float  # classes without a positive are left out
    average_precision: tuple[float, ...]  # per class, nan without a positive or a negative
    precision: float  # of the labels at or above their threshold, over all known labels
    recall: float
    f1: float
    accuracy: float | None = None  # of the most probable class, if each image has one


def average_precision(scores: npt.ArrayLike, truth: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Non-interpolated average precision of each class, nan without a positive or a negative.

    Tied scores are one threshold, as in scikit-learn. The precision at a positive is the fraction
    of positives among the known labels that score no less, read from two sorted lists.
    """
    values, labels = _checked(scores, truth)
    precisions = np.full(values.shape[1], np.nan)
    columns = zip(values.T.copy(), labels.T.copy(), strict=True)  # contiguous: faster to sort
    for column, (score, label) in enumerate(columns):
        positives, known = np.sort(score[label == POSITIVE]), np.sort(score[label != UNOBSERVED])
        if 0 < len(positives) < len(known):
            above = len(positives) - np.searchsorted(positives, positives)
            precisions[column] = (above / (len(known) - np.searchsorted(known, positives))).mean()
    return precisions


def mean_average_precision(scores: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """mAP as in the protocol: a class without a positive counts 0."""
    values, labels = _checked(scores, truth)
    return _mean(average_precision(values, labels), labels)


def _mean(precisions: npt.NDArray[np.float64], labels: npt.NDArray[np.integer]) -> float:
    ranked = np.nan_to_num(precisions)[(labels == NEGATIVE).any(axis=0)]
    return float(ranked.mean()) if len(ranked) else 0.0


def evaluate(
    scores: npt.ArrayLike,
    truth: npt.ArrayLike,
    threshold: npt.ArrayLike = 0.5,
    single_label: bool = False,
) -> Evaluation:
    """All metrics of `scores` (N, L) against `truth` (N, L) of 1, 0 and −1 (not counted).

    `threshold` is one number, or one per class. With `single_label` only the most probable class
    of an image is proposed, and the fraction that is right is the accuracy.
    """
    values, labels = _checked(scores, truth)
    precisions = average_precision(values, labels)
    present = precisions[~np.isnan(precisions)]
    chosen = (values >= np.asarray(threshold)) & (labels != UNOBSERVED)
    if single_label:
        chosen &= argmax_mask(values)
    hits, positives = int((chosen & (labels == POSITIVE)).sum()), int((labels == POSITIVE).sum())
    precision, recall = hits / max(int(chosen.sum()), 1), hits / max(positives, 1)
    return Evaluation(
        mean_average_precision=_mean(precisions, labels),
        mean_over_present=float(present.mean()) if len(present) else 0.0,
        average_precision=tuple(precisions.tolist()),
        precision=precision,
        recall=recall,
        f1=2 * precision * recall / max(precision + recall, 1e-12),
        accuracy=accuracy(values, labels) if single_label else None,
    )


def accuracy(scores: npt.ArrayLike, truth: npt.NDArray[np.integer]) -> float | None:
    """The fraction of images whose most probable class is right; None if no class is known."""
    values = np.asarray(scores)
    rows = ((truth == POSITIVE).sum(axis=1) == 1) & ~np.isnan(values).any(axis=1)
    right = truth[rows][argmax_mask(values[rows])] == POSITIVE
    return float(right.mean()) if rows.any() else None


def can_rank(truth: LabelMatrix) -> bool:
    """Whether average precision is defined: some class has positives and negatives."""
    both = (per_class(truth, POSITIVE) > 0) & (per_class(truth, NEGATIVE) > 0)
    return bool(both.any())


def ranked_map(scores: npt.ArrayLike, truth: LabelMatrix) -> float | None:
    """mAP, or None without negatives to rank against."""
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
    if (missing.any(axis=1) != missing.all(axis=1)).any():
        raise InputError("evaluation: scores contain NaN")
    return np.where(missing, 0, values), np.where(missing, UNOBSERVED, labels)
