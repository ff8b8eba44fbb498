"""How good are scores or soft labels: average precision, thresholds, and entries nobody knows.

Truth may hold −1: such entries count nowhere, nor do images whose scores are all NaN, which could
not be read. A class without a known negative has nothing to be ranked against, and is left out of
every mean. All results are fractions in [0, 1].
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, per_class
from g2netpl.runs.single_label import accuracy, likeliest
from g2netpl.utils.errors import InputError

Truth = npt.NDArray[np.int8]

_COLUMNS = 16  # that are copied at once, since they lie side by side


@dataclass(frozen=True)
class Evaluation:
    """Metrics of scores against truth."""

    mean_average_precision: float  # classes without a positive count 0, as in the protocol
    mean_over_present: float  # classes without a positive left out
    average_precision: tuple[float, ...]  # per class, nan where the class has not both signs
    precision: float  # of the labels at or above their threshold, over all known entries
    recall: float
    f1: float
    accuracy: float | None = None  # of the likeliest class, where each image has one


def average_precision(scores: npt.ArrayLike, truth: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Non-interpolated average precision of each class, nan for a class without both signs.

    Tied scores are one threshold, as in scikit-learn. The precision at a positive is the share of
    positives among the known entries that score no less, which two sorted lists tell.
    """
    return _of_classes(*_checked(scores, truth))


def _of_classes(
    values: npt.NDArray[np.floating], labels: npt.NDArray[np.integer]
) -> npt.NDArray[np.float64]:
    found = np.full(values.shape[1], np.nan)
    for first in range(0, len(found), _COLUMNS):
        block = slice(first, first + _COLUMNS)
        columns = zip(values[:, block].T.copy(), labels[:, block].T.copy(), strict=True)
        for place, (column, label) in enumerate(columns, start=first):
            positives = np.sort(column[label == POSITIVE])
            known = np.sort(column[label != UNOBSERVED])
            if 0 < len(positives) < len(known):
                above = len(positives) - np.searchsorted(positives, positives)
                found[place] = (above / (len(known) - np.searchsorted(known, positives))).mean()
    return found


def mean_average_precision(scores: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """mAP as the protocol has it: a class without a positive counts 0."""
    values, labels = _checked(scores, truth)
    return _mean(_of_classes(values, labels), labels)


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

    `threshold` is one number, or one per class. With `single_label` an image has one class: the
    likeliest is proposed alone, and how often that is right is the accuracy.
    """
    values, labels = _checked(scores, truth)
    per_class = _of_classes(values, labels)
    present = per_class[~np.isnan(per_class)]
    chosen = (values >= np.asarray(threshold)) & (labels != UNOBSERVED)
    if single_label:
        chosen &= likeliest(values)
    positive = labels == POSITIVE
    hits = int(np.sum(chosen & positive))
    precision = hits / max(int(chosen.sum()), 1)
    recall = hits / max(int(positive.sum()), 1)
    return Evaluation(
        mean_average_precision=_mean(per_class, labels),
        mean_over_present=float(present.mean()) if len(present) else 0.0,
        average_precision=tuple(float(value) for value in per_class),
        precision=precision,
        recall=recall,
        f1=2 * precision * recall / max(precision + recall, 1e-12),
        accuracy=accuracy(values, labels) if single_label else None,
    )


def can_rank(truth: Truth) -> bool:
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
