"""Presence probabilities from positive-only labels: how the sampled-positive model is calibrated.

Held-out images say how sharp the softmax should be: the best sharpness makes their observed tags
most likely. The count is set so that k positives per image come out on
average. No negative label is needed. Then a class is proposed where it is more likely there than
not; with `precision:P`, where its chance is P or more.

Photos without a name may show no class at all. Nothing says so, but if it is chance who gets a
name, photos that show something get one equally often, whatever they show. So a photo of a kind
that has a name half as often shows something with a chance of a half: a(x), the chance of a name by
a ridge regression, in parts of that of photos with a name, each left out of it in its turn.
"""

import numpy as np
import numpy.typing as npt

from g2netpl.labels.table import POSITIVE
from g2netpl.runs.thresholds import Thresholds, parse_rule
from g2netpl.utils.arrays import Scores

_FEWEST = 20  # names on held-out images; with fewer the shares stay as they are
_TINY = 1e-9  # the least share, and the distance of a chance from 1
_STRENGTHS = np.logspace(-3, 3, 25)  # of a ridge, times the mean square along a direction
_TOLD = 0.02  # share of the variance that vectors must tell of whether an image has a name

Floats = npt.NDArray[np.float64]


def log_shares(scores: npt.ArrayLike, sharpness: float = 1.0) -> Floats:
    """Log of the shares that lie behind presences (N, L), made sharper, of readable rows."""
    rates = -np.log1p(-np.minimum(_readable(scores), 1.0 - _TINY))
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


def _readable(scores: npt.ArrayLike) -> Floats:
    """The rows of images that could be read."""
    present = np.asarray(scores, dtype=np.float64)
    return present[~np.isnan(present).any(axis=1)]


def count_to_expect(
    scores: Scores,
    sharpness: float,
    k: float,
    others: Scores | None = None,
    shown: Floats | None = None,
) -> float:
    """The n at which k classes per image are expected, Σ 1 − exp(−n·share) on average.

    `others` has what a second expert says of every row; then it is their pool that expects k.
    `shown` has the chance that a readable row shows anything, where k is of all images.
    """
    from scipy.optimize import brentq

    shares = np.exp(log_shares(scores, sharpness))
    if not len(shares) or not 0 < k < shares.shape[1]:
        return max(k, _TINY)
    second = None if others is None else _readable(others)

    def surplus(log_count: float) -> float:
        present = -np.expm1(-np.exp(log_count) * shares)
        total = _pooled(present, second).sum(axis=1)
        return float((total if shown is None else shown * total).mean() - k)

    lowest, highest = np.log(_TINY), np.log(1e6)
    if surplus(highest) < 0:  # fewer classes than k have a share at all
        return k
    return float(np.exp(brentq(surplus, lowest, highest)))


def _pooled(present: Floats, others: Floats | None) -> Floats:
    """Chances of the pool of two experts, as `core.annotation.pool` computes it from logits."""
    if others is None:
        return present
    from scipy.special import expit, logit

    from g2netpl.core.annotation import SIGMOID_WEIGHT

    first, second = (logit(np.clip(each, _TINY, 1.0 - _TINY)) for each in (present, others))
    together: Floats = expit((first + SIGMOID_WEIGHT * second) / (1.0 + SIGMOID_WEIGHT))
    return together


def shown_by_vectors(
    vectors: npt.ArrayLike, named: npt.NDArray[np.bool_]
) -> tuple[Floats, float] | None:
    """Weights (D,) and constant of a(x), the chance that an image shows anything, before clipping.

    None where images with a name and images without one look alike.
    """
    rows, values = np.asarray(vectors, dtype=np.float64), named.astype(np.float64)
    if min(named.sum(), (~named).sum()) < _FEWEST:
        return None
    weights, missed = ridge(rows, values)
    if np.square(missed).mean() > (1.0 - _TOLD) * values.var():
        return None
    of_named = float((values - missed)[named].mean())
    return weights / of_named, float(values.mean() - rows.mean(axis=0) @ weights) / of_named


def ridge(vectors: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Weights (D,) of the values on the vectors, both less their means, by ridge regression.

    The strength has the least error on the image that is left out, each in its turn; these errors
    come second. Where none has less than the mean of the others has, all weights are 0.
    """
    left, along, right = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    values = values - values.mean()
    told, squares = left.T @ values, along**2
    errors = values / (1.0 - 1.0 / len(values))
    best = np.zeros(len(along))
    for strength in _STRENGTHS * max(float(squares.mean()), _TINY):
        kept = squares / (squares + strength)
        leverage = 1.0 / len(values) + np.square(left) @ kept
        missed = (values - left @ (kept * told)) / np.maximum(1.0 - leverage, _TINY)
        if np.square(missed).sum() < np.square(errors).sum():
            errors, best = missed, along / (squares + strength)
    weights: Floats = right.T @ (best * told)
    return weights, errors


def thresholds_of_presence(
    rule: str, classes: int, k: float, expected: float | None = None
) -> Thresholds:
    """Thresholds on chances that are presences already; `expected` per image, if that is not k."""
    name, target = parse_rule(rule)
    limit, said = (target, rule) if name == "precision" else (0.5, "more likely there than not")
    basis = f"chances that add up to k = {k:.2f} positives per image"
    if expected is not None and abs(expected - k) > 0.01 * k:
        basis = f"chances that add up to {expected:.2f}: k = {k:.2f}, and some images show none"
    grounds = (f"sampled: a probability of {limit:g} or more, no validation labels",) * classes
    return Thresholds(1.0, 0.0, (limit,) * classes, said, basis, by_draw=True, grounds=grounds)
