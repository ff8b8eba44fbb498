"""Chances from names alone: how the shares of the observation model `draw` are calibrated.

Held-out images say how sharp the shares should be: each of their names is one draw, and the best
sharpness makes these draws most likely. The count is set so that k positives per image come out on
average. No negative label is needed. Then a class is proposed where it is more likely there than
not; with `precision:P`, where its chance is P or more.
"""

import numpy as np
import numpy.typing as npt

from g2netpl.base.arrays import Scores
from g2netpl.labels.table import POSITIVE
from g2netpl.runs.thresholds import Thresholds, parse_rule

_FEWEST = 20  # names on held-out images; with fewer the shares stay as they are
_TINY = 1e-9  # the least share, and the distance of a chance from 1

Floats = npt.NDArray[np.float64]


def log_shares(scores: npt.ArrayLike, sharpness: float = 1.0) -> Floats:
    """Log of the shares that lie behind presences (N, L), made sharper, of readable rows."""
    present = np.asarray(scores, dtype=np.float64)
    present = present[~np.isnan(present).any(axis=1)]
    rates = -np.log1p(-np.minimum(present, 1.0 - _TINY))
    logs = sharpness * np.log(np.maximum(rates, _TINY))
    shares: Floats = logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)
    return shares


def sharpness_by_names(scores: Scores, known: npt.NDArray[np.int8]) -> float:
    """The sharpness at which the names of held-out images are most likely."""
    from scipy.optimize import minimize_scalar

    named = known[~np.isnan(scores).any(axis=1)] == POSITIVE
    if named.sum() < _FEWEST:
        return 1.0
    logs = log_shares(scores)

    def surprise(log_sharpness: float) -> float:
        sharper = np.exp(log_sharpness) * logs
        return -float((sharper - np.logaddexp.reduce(sharper, axis=1, keepdims=True))[named].mean())

    found = minimize_scalar(surprise, bounds=(-2.0, 2.0), method="bounded")
    return float(np.exp(found.x))


def count_to_expect(scores: Scores, sharpness: float, k: float) -> float:
    """The n at which k classes per image are expected, Σ 1 − exp(−n·share) on average."""
    from scipy.optimize import brentq

    shares = np.exp(log_shares(scores, sharpness))
    if not len(shares) or not 0 < k < shares.shape[1]:
        return max(k, _TINY)

    def surplus(log_count: float) -> float:
        return float(-np.expm1(-np.exp(log_count) * shares).sum(axis=1).mean() - k)

    highest = np.log(1e6)
    if surplus(highest) < 0:  # fewer classes than k have a share at all
        return k
    return float(np.exp(brentq(surplus, np.log(k) - 1.0, highest)))


def thresholds_of_presence(rule: str, classes: int, k: float) -> Thresholds:
    """Thresholds on chances that are presences already."""
    name, target = parse_rule(rule)
    limit, said = (target, rule) if name == "precision" else (0.5, "more likely there than not")
    basis = f"the names that were given, and k = {k:.2f} positives per image"
    return Thresholds(1.0, 0.0, (limit,) * classes, said, basis, by_draw=True)
