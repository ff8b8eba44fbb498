"""Presence probabilities from positive-only labels: how the sampled-positive head is calibrated.

Held-out images show how sharp the softmax should be: the best sharpness makes their tags most
likely. The count is set so that k positives per image are expected. No negative is needed.

Images without a tag may show no class at all. If images get tags at random, those that show
something have a tag equally often, whatever they show. So an image of a kind that has tags half as
often shows something with probability ½: a(x) is the probability of a tag by ridge regression,
divided by its mean on images with a tag (each predicted by a fit without it).
"""

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, log_softmax, logit
from sklearn.linear_model import RidgeCV

from g2netpl.core.annotation import SIGMOID_WEIGHT
from g2netpl.labels.table import POSITIVE
from g2netpl.utils.arrays import Scores

_FEWEST = 20  # tags on held-out images; with fewer the sharpness stays 1
_TINY = 1e-9  # the least softmax probability, and the distance of a presence from 1
_STRENGTHS = np.logspace(-3, 3, 25)  # of the ridge, times the mean square along a direction
_EXPLAINED = 0.02  # fraction of the variance of having a tag that features must explain

Floats = npt.NDArray[np.float64]


def log_shares(scores: npt.ArrayLike, sharpness: float = 1.0) -> Floats:
    """Log softmax probabilities behind presences (N, L), made sharper, of readable rows."""
    rates = -np.log1p(-np.minimum(_readable(scores), 1.0 - _TINY))
    logs: Floats = log_softmax(sharpness * np.log(np.maximum(rates, _TINY)), axis=1)
    return logs


def best_sharpness(scores: Scores, known: npt.NDArray[np.int8]) -> float:
    """The sharpness at which the tags of held-out images are most likely."""
    tagged = known[~np.isnan(scores).any(axis=1)] == POSITIVE
    if tagged.sum() < _FEWEST:
        return 1.0
    logs = log_shares(scores)

    def loss(log_sharpness: float) -> float:
        return -float(log_softmax(np.exp(log_sharpness) * logs, axis=1)[tagged].mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-2.0, 2.0), method="bounded").x))


def _readable(scores: npt.ArrayLike) -> Floats:
    """The rows of images that could be read."""
    present = np.asarray(scores, dtype=np.float64)
    return present[~np.isnan(present).any(axis=1)]


def matching_count(
    scores: Scores,
    sharpness: float,
    k: float,
    others: Scores | None = None,
    shown: Floats | None = None,
) -> float:
    """The n at which k classes per image are expected, Σ 1 − exp(−n · share) on average.

    `others` has the probabilities of a second head; then k is expected of both, pooled. `shown`
    has the probability that a readable image shows any class, if k is of all images.
    """
    shares = np.exp(log_shares(scores, sharpness))
    if not len(shares) or not 0 < k < shares.shape[1]:
        return max(k, _TINY)
    second = None if others is None else _readable(others)

    def surplus(log_count: float) -> float:
        present = -np.expm1(-np.exp(log_count) * shares)
        total = _pooled(present, second).sum(axis=1)
        return float((total if shown is None else shown * total).mean() - k)

    lowest, highest = np.log(_TINY), np.log(1e6)
    if surplus(highest) < 0:  # fewer classes than k have a softmax probability at all
        return k
    return float(np.exp(brentq(surplus, lowest, highest)))


def _pooled(present: Floats, others: Floats | None) -> Floats:
    """Probabilities of two heads, pooled as `core.annotation.pool` does it."""
    if others is None:
        return present
    first, second = (logit(np.clip(part, _TINY, 1.0 - _TINY)) for part in (present, others))
    together: Floats = expit((first + SIGMOID_WEIGHT * second) / (1.0 + SIGMOID_WEIGHT))
    return together


def learn_shown(
    features: npt.ArrayLike, has_tag: npt.NDArray[np.bool_]
) -> tuple[Floats, float] | None:
    """Weights (D,) and constant of a(x), the probability that an image shows any class.

    None if images with and without a tag look alike.
    """
    rows, values = np.asarray(features, dtype=np.float64), has_tag.astype(np.float64)
    if min(has_tag.sum(), (~has_tag).sum()) < _FEWEST:
        return None
    weights, errors = ridge(rows, values)
    if np.square(errors).mean() > (1.0 - _EXPLAINED) * values.var():
        return None
    of_tagged = float((values - errors)[has_tag].mean())
    return weights / of_tagged, float(values.mean() - rows.mean(axis=0) @ weights) / of_tagged


def ridge(features: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Weights (D,) of a ridge regression, and the error on each image by a fit without it.

    The strength has the least such errors. If the mean of the other images has less, all weights
    are 0.
    """
    count, width = features.shape
    square = np.square(features - features.mean(axis=0)).sum() / min(count, width)
    model = RidgeCV(_STRENGTHS * max(float(square), _TINY), store_cv_results=True)
    residuals = values - model.fit(features, values).predict(features)
    errors: Floats = (values - values.mean()) / (1.0 - 1.0 / count)
    squared = model.cv_results_.reshape(count, -1)
    best = squared[:, squared.sum(axis=0).argmin()]
    if best.sum() >= np.square(errors).sum():
        return np.zeros(width), errors
    weights: Floats = model.coef_
    return weights, np.sign(residuals) * np.sqrt(best)
