"""How good scores or pseudo-labels are: average precision, precision, recall, F1, accuracy.

Truth may hold −1: such labels do not count, nor do images whose scores are all NaN (unreadable). A
class without a known negative cannot be ranked and is left out of every mean. All results are
fractions in [0, 1].
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelMatrix, per_class
from g2netpl.runs.single_label import accuracy, argmax_mask
from g2netpl.utils.errors import InputError

_COLUMNS = 16  # that are copied at once, since they are next to each other in memory


@dataclass(frozen=True)
class Evaluation:
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
    return _per_class(*_checked(scores, truth))


def _per_class(
    values: npt.NDArray[np.floating], labels: npt.NDArray[np.integer]
) -> npt.NDArray[np.float64]:
    precisions = np.full(values.shape[1], np.nan)
    for first in range(0, len(precisions), _COLUMNS):
        block = slice(first, first + _COLUMNS)
        columns = zip(values[:, block].T.copy(), labels[:, block].T.copy(), strict=True)
        for place, (column, label) in enumerate(columns, start=first):
            positives = np.sort(column[label == POSITIVE])
            known = np.sort(column[label != UNOBSERVED])
            if 0 < len(positives) < len(known):
                above = len(positives) - np.searchsorted(positives, positives)
                precisions[place] = (
                    above / (len(known) - np.searchsorted(known, positives))
                ).mean()
    return precisions


def mean_average_precision(scores: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """mAP as in the protocol: a class without a positive counts 0."""
    values, labels = _checked(scores, truth)
    return _mean(_per_class(values, labels), labels)


def _mean(precisions: npt.NDArray[np.float64], labels: npt.NDArray[np.integer]) -> float:
    counted = np.nan_to_num(precisions, nan=0.0)[(labels == NEGATIVE).any(axis=0)]
    return float(counted.mean()) if len(counted) else 0.0


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
    precisions = _per_class(values, labels)
    present = precisions[~np.isnan(precisions)]
    chosen = (values >= np.asarray(threshold)) & (labels != UNOBSERVED)
    if single_label:
        chosen &= argmax_mask(values)
    positive = labels == POSITIVE
    hits = int(np.sum(chosen & positive))
    precision = hits / max(int(chosen.sum()), 1)
    recall = hits / max(int(positive.sum()), 1)
    return Evaluation(
        mean_average_precision=_mean(precisions, labels),
        mean_over_present=float(present.mean()) if len(present) else 0.0,
        average_precision=tuple(float(value) for value in precisions),
        precision=precision,
        recall=recall,
        f1=2 * precision * recall / max(precision + recall, 1e-12),
        accuracy=accuracy(values, labels) if single_label else None,
    )


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
    if missing.any():
        if (missing.any(axis=1) != missing.all(axis=1)).any():
            raise InputError("evaluation: scores contain NaN")
        values, labels = np.where(missing, 0.0, values), np.where(missing, UNOBSERVED, labels)
    return values, labels
