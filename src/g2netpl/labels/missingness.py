"""How labels came to be known, and how many positives there are per image (k), by the labels.

sampled   an observed label is sampled from the image's positives: tags, one positive per image
random    every label, positive or negative, is observed with the same probability
complete  everything about an image is known
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

from g2netpl.labels.table import (
    NEGATIVE,
    POSITIVE,
    UNOBSERVED,
    IndexArray,
    LabelMatrix,
    per_class,
    per_image,
)

Observation = Literal["sampled", "random", "complete"]

_ENOUGH_COMPLETE = 10
_MANY_COMPLETE = 50  # if others are known in part
_ALIKE = 1.15  # times as often as others, at most, likely labels are known


def infer_mechanism(labels: LabelMatrix, k: float, alike: bool = True) -> tuple[Observation, str]:
    """Which of them these labels look like if there are k, and why.

    `alike` is false if a model finds that likely labels are known more often than others.
    """
    positives = int(per_class(labels, POSITIVE).sum())
    negatives = int(per_class(labels, NEGATIVE).sum())
    images, classes = labels.shape
    if classes < 2:
        return "random", "there is one class"
    if not negatives:
        return "sampled", "only positives are observed"
    if positives + negatives == images * classes:
        return "complete", "all labels are known"
    some = from_complete(labels) is not None or from_both_signs(labels) is not None
    if alike and some and observed_alike(labels, k):
        return "random", "positives and negatives are missing at random"
    return "sampled", "positives are observed more often than negatives"


def informative_rows(
    labels: LabelMatrix, k: float, scores: npt.NDArray[np.floating] | None = None
) -> IndexArray:
    """Images whose known labels are positive as often as all labels are, if there are k.

    These are the completely labelled images, and the others too if positives and negatives
    are missing at random there, also by the `scores` of a model that has not learnt from them.
    """
    everything, complete = np.arange(len(labels)), _complete(labels)
    partly = np.setdiff1d(np.flatnonzero(per_image(labels)), complete)
    partly_scores = None if scores is None else scores[partly]
    if len(partly) and _at_random(labels[partly], k, partly_scores):
        return everything
    enough = from_complete(labels) is not None and (
        not len(partly) or len(complete) >= _MANY_COMPLETE
    )
    return complete if enough else everything[:0]


def can_choose_by(labels: LabelMatrix) -> bool:
    """Whether a ranking of these labels shows which model is better.

    A few negatives among many tags do not: hardly a class can be ranked.
    """
    positives, negatives = (per_class(labels, sign) for sign in (POSITIVE, NEGATIVE))
    named = positives > 0
    ranked = int((named & (negatives > 0)).sum())
    partly = int((per_image(labels) > 0).sum()) - len(_complete(labels))
    if not partly or from_complete(labels) is not None:
        return ranked > 0
    return 0 < ranked >= named.sum() / 2 and bool(2 * negatives.sum() >= positives.sum())


def observed_alike(labels: LabelMatrix, k: float) -> bool:
    """Whether positives are observed at most twice as often as negatives, if there are k."""
    images, classes = labels.shape
    positives, negatives = per_class(labels, POSITIVE).sum(), per_class(labels, NEGATIVE).sum()
    return bool(positives / (images * k) <= 2.0 * negatives / (images * max(classes - k, 1e-9)))


def looked_alike(scores: npt.NDArray[np.floating], labels: LabelMatrix) -> bool:
    """Whether likely labels are known about as often as the others of their class.

    As many of each class as are known to be positive are taken to be likely.
    """
    readable = ~np.isnan(scores).any(axis=1)
    scores, known = scores[readable], labels[readable] != UNOBSERVED
    count = (labels[readable] == POSITIVE).sum(axis=0)
    places = np.argsort(np.argsort(-scores, axis=0, kind="stable"), axis=0)
    found = (known & (places < count)).sum()
    due = (count * known.mean(axis=0)).sum() if len(known) else 0.0
    return bool(found <= _ALIKE * due + 3.0 * np.sqrt(due))


def from_complete(labels: LabelMatrix) -> float | None:
    """k from images whose labels are all known; None if there are hardly any."""
    complete = labels[_complete(labels)]
    if len(complete) < _ENOUGH_COMPLETE or not per_class(complete, NEGATIVE).any():
        return None
    return float(per_image(complete, POSITIVE).mean())


def from_both_signs(labels: LabelMatrix) -> float | None:
    """k if positives and negatives are missing at random; None if they are not.

    At random means that the number of observed negatives varies from image to image as it does
    when every label is observed independently; it varies less if people name a fixed number.
    """
    positives, negatives = per_class(labels, POSITIVE), per_image(labels, NEGATIVE)
    fraction = negatives.mean() / labels.shape[1]
    expected = labels.shape[1] * fraction * (1.0 - fraction)  # variance if independent
    if not positives.any() or fraction == 0.0 or negatives.var() < 0.5 * expected:
        return None
    return float((positives / np.maximum(per_class(labels), 1)).sum())


def _at_random(
    labels: LabelMatrix, k: float, scores: npt.NDArray[np.floating] | None = None
) -> bool:
    if from_both_signs(labels) is None or not observed_alike(labels, k):
        return False
    return scores is None or looked_alike(scores, labels)


def _complete(labels: LabelMatrix) -> IndexArray:
    """The completely labelled images."""
    return np.flatnonzero(per_image(labels) == labels.shape[1])
