"""Single-label tasks: the most probable class of each image, and how probable it is.

Probabilities are the softmax of the logits. One temperature calibrates them on held-out images.
"""

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelMatrix

Floats = npt.NDArray[np.float64]


def argmax_mask(scores: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """The highest score of each row, the first if several are equal; none in a row with NaN."""
    values = np.asarray(scores)
    chosen = np.zeros(values.shape, dtype=bool)
    rows = np.flatnonzero(~np.isnan(values).any(axis=1))
    chosen[rows, values[rows].argmax(axis=1)] = True
    return chosen


def single_label_temperature(logits: Floats, truth: LabelMatrix) -> float:
    """The temperature at which the classes of held-out images are most likely.

    One more image counts as any class: a few that are all right do not make it certain.
    """
    rows = _is_known(truth) & ~np.isnan(logits).any(axis=1)
    if not rows.any():
        return 1.0
    known, right = logits[rows], (truth[rows] == POSITIVE).astype(np.float64)
    target = (len(right) * right + 1.0 / right.shape[1]) / (len(right) + 1)

    def loss(log_temperature: float) -> float:
        logs = log_softmax(known * np.exp(-log_temperature), axis=1)
        return -float((target * logs).sum(axis=1).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-4.0, 4.0), method="bounded").x))


def accuracy(scores: npt.ArrayLike, truth: npt.NDArray[np.integer]) -> float | None:
    """The fraction of images whose most probable class is right; None if no class is known."""
    values = np.asarray(scores)
    rows = _is_known(truth) & ~np.isnan(values).any(axis=1)
    if not rows.any():
        return None
    return float((truth[rows][argmax_mask(values[rows])] == POSITIVE).mean())


def keep_one(values: LabelMatrix, scores: npt.ArrayLike) -> LabelMatrix:
    """Labels (N, L) with at most one positive per image, the most probable; the others are 0."""
    best = argmax_mask(scores)
    decided = (best & (values == POSITIVE)).any(axis=1, keepdims=True)
    others = np.where(decided, NEGATIVE, np.where(values == POSITIVE, UNOBSERVED, values))
    return np.where(best & decided, POSITIVE, others).astype(np.int8)


def _is_known(truth: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """Images whose class is known, (N,)."""
    one: npt.NDArray[np.bool_] = (truth == POSITIVE).sum(axis=1) == 1
    return one
