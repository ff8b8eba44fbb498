"""One class per image: which is the likeliest, and how likely it is.

Of labels that are each there or not by their own odds, exactly one is there with a chance in
proportion to its odds: the softmax of the logits. One temperature for all makes these chances those
that held-out images bear out.
"""

import numpy as np
import numpy.typing as npt

from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelMatrix

Floats = npt.NDArray[np.float64]


def chances_of_one(logits: Floats) -> npt.NDArray[np.float32]:
    """Chances (N, L) that add up to 1 in each row; NaN stays NaN."""
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances: npt.NDArray[np.float32] = (odds / odds.sum(axis=1, keepdims=True)).astype(np.float32)
    return chances


def likeliest(scores: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """The highest score of each row, the first of equals; none of a row without numbers."""
    values = np.asarray(scores)
    chosen = np.zeros(values.shape, dtype=bool)
    rows = np.flatnonzero(~np.isnan(values).any(axis=1))
    chosen[rows, values[rows].argmax(axis=1)] = True
    return chosen


def temperature_of_one(logits: Floats, truth: LabelMatrix) -> float:
    """The temperature at which the classes of held-out images are most likely.

    One image more is taken to be of any class: few that are all right promise no certainty.
    """
    from scipy.optimize import minimize_scalar

    rows = _told(truth) & ~np.isnan(logits).any(axis=1)
    if not rows.any():
        return 1.0
    known, right = logits[rows], (truth[rows] == POSITIVE).astype(np.float64)
    wanted = (len(right) * right + 1.0 / right.shape[1]) / (len(right) + 1)

    def surprise(log_temperature: float) -> float:
        cooled = known * np.exp(-log_temperature)
        logs = cooled - np.logaddexp.reduce(cooled, axis=1, keepdims=True)
        return -float((wanted * logs).sum(axis=1).mean())

    return float(np.exp(minimize_scalar(surprise, bounds=(-4.0, 4.0), method="bounded").x))


def accuracy(scores: npt.ArrayLike, truth: npt.NDArray[np.integer]) -> float | None:
    """The share of images whose likeliest class is the true one; None where no class is known."""
    values = np.asarray(scores)
    rows = _told(truth) & ~np.isnan(values).any(axis=1)
    if not rows.any():
        return None
    return float((truth[rows][likeliest(values[rows])] == POSITIVE).mean())


def one_each(values: LabelMatrix, scores: npt.ArrayLike) -> LabelMatrix:
    """Labels (N, L) with one positive per image at most, the likeliest; it denies the others."""
    best = likeliest(scores)
    decided = (best & (values == POSITIVE)).any(axis=1, keepdims=True)
    others = np.where(decided, NEGATIVE, np.where(values == POSITIVE, UNOBSERVED, values))
    return np.where(best & decided, POSITIVE, others).astype(np.int8)


def _told(truth: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """Images whose class is known, (N,)."""
    one: npt.NDArray[np.bool_] = (truth == POSITIVE).sum(axis=1) == 1
    return one
