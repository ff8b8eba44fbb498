"""k, the number of positives per image, where labels alone tell it."""

import numpy as np
import numpy.typing as npt

from g2netpl.labels.entries import Labels, per_class, per_image, take
from g2netpl.labels.table import NEGATIVE, POSITIVE

_ENOUGH_COMPLETE = 10
_ENOUGH_COUNTED = 10  # images; the mean of fewer tells less than an estimate


def observed_alike(labels: Labels, k: float) -> bool:
    """Whether positives are observed at most twice as often as negatives, if there are k."""
    images, classes = labels.shape
    positives, negatives = per_class(labels, POSITIVE).sum(), per_class(labels, NEGATIVE).sum()
    return bool(positives / (images * k) <= 2.0 * negatives / (images * max(classes - k, 1e-9)))


def from_complete(labels: Labels) -> float | None:
    """k from images whose labels are all known; None if there are hardly any."""
    complete = take(labels, np.flatnonzero(per_image(labels) == labels.shape[1]))
    if len(complete) < _ENOUGH_COMPLETE or not per_class(complete, NEGATIVE).any():
        return None
    return float(per_image(complete, POSITIVE).mean())


def from_counted(counts: npt.NDArray[np.float64]) -> float | None:
    """k from images whose classes somebody counted, NaN: nobody did; None if they are too few."""
    counted = counts[~np.isnan(counts)]
    if len(counted) < _ENOUGH_COUNTED:
        return None
    return max(float(counted.mean()), 1.0 / len(counted))  # none anywhere: fewer than one was seen


def from_both_signs(labels: Labels) -> float | None:
    """k where labels of both signs are missing at random; None where they are not.

    At random means that the number of observed negatives varies from image to image as it does
    when every label is drawn by itself; observers who name a fixed number per image give it away.
    """
    positives, negatives = per_class(labels, POSITIVE), per_image(labels, NEGATIVE)
    share = negatives.mean() / labels.shape[1]
    if not positives.any() or negatives.var() < 0.5 * labels.shape[1] * share * (1.0 - share):
        return None
    if share == 0.0:
        return None
    return float((positives / np.maximum(per_class(labels), 1)).sum())
