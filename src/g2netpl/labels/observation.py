"""How labels came to be known, and how many positives there are, as far as the labels tell.

draw      what was named is drawn from what is in the image: tags, one positive per image
random    every label was looked at by chance, and its sign written down
complete  everything about an image is known

k is the number of positives per image.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

from g2netpl.labels.entries import IndexArray, Labels, per_class, per_image, take
from g2netpl.labels.table import NEGATIVE, POSITIVE

Observation = Literal["draw", "random", "complete"]

_ENOUGH_COMPLETE = 10
_ENOUGH_COUNTED = 10  # images; the mean of fewer tells less than an estimate


def look(labels: Labels) -> tuple[Observation, str]:
    """Which of them these labels look like, and why."""
    positives = int(per_class(labels, POSITIVE).sum())
    negatives = int(per_class(labels, NEGATIVE).sum())
    images, classes = labels.shape
    if classes < 2:
        return "random", "there is one class"
    if not negatives:
        return "draw", "there are positives alone"
    if positives + negatives == images * classes:
        return "complete", "everything is known"
    at_random = from_complete(labels) is not None or from_both_signs(labels) is not None
    if at_random and negatives >= positives:
        return "random", "labels of both signs are missing at random"
    return "draw", "positives are known more often than negatives"


def observed_alike(labels: Labels, k: float) -> bool:
    """Whether positives are observed at most twice as often as negatives, if there are k."""
    images, classes = labels.shape
    positives, negatives = per_class(labels, POSITIVE).sum(), per_class(labels, NEGATIVE).sum()
    return bool(positives / (images * k) <= 2.0 * negatives / (images * max(classes - k, 1e-9)))


def telling(labels: Labels, k: float) -> IndexArray:
    """Images whose known labels are positive as often as all labels are, where there are k.

    Those of which everything is known, and the others too if both signs are missing at random there
    and alike; none where people named what they saw, and now and then what they did not see.
    """
    complete = per_image(labels) == labels.shape[1]
    some = np.flatnonzero(~complete)
    if len(some) and _at_random(take(labels, some), k):
        return np.arange(len(labels))
    if from_complete(labels) is not None:
        return np.flatnonzero(complete)
    return np.arange(len(labels) if _at_random(labels, k) else 0)


def _at_random(labels: Labels, k: float) -> bool:
    return from_both_signs(labels) is not None and observed_alike(labels, k)


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
