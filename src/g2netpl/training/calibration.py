"""Calibration of the sampled-positive head after the last epoch, by tags only.

Held-out images show how sharp the softmax should be: the best sharpness makes their tags most
likely. The count is set so that k positives per image are expected. No negative is needed.

Images without a tag may show no class at all. If images get tags at random, those that show
something have a tag equally often, whatever they show. So an image of a kind that has tags half as
often shows something with probability ½: a(x) is the probability of a tag by ridge regression,
divided by its mean on images with a tag (each predicted by a fit without it).

Where validation labels have positives and negatives missing at random, thresholds are calibrated
by them instead (`runs/thresholds`), and nothing is done here.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, log_softmax, logit
from sklearn.linear_model import RidgeCV
from torch import Tensor

from g2netpl.core.annotation import (
    LEAST_SHOWN,
    POOLED_SHARPNESS,
    SIGMOID_WEIGHT,
    SampledPositiveHead,
)
from g2netpl.core.inference import compute_all
from g2netpl.images.loader import Source, Subset
from g2netpl.labels.missingness import informative_rows
from g2netpl.labels.table import POSITIVE, per_image
from g2netpl.training.trainer import Trainer
from g2netpl.utils.arrays import Scores

_MOST = 4000  # images, with and without a tag, that a(x) is learnt from
_FEWEST = 20  # tags on held-out images; with fewer the sharpness stays 1
_TINY = 1e-9  # the least softmax probability, and the distance of a presence from 1
_STRENGTHS = np.logspace(-3, 3, 25)  # of the ridge, times the mean square along a direction
_EXPLAINED = 0.02  # fraction of the variance of having a tag that features must explain
_BUFFERS = ("head.sharpness", "head.log_count", "head.shown_weight", "head.shown_bias")

Floats = npt.NDArray[np.float64]


def calibrate(trainer: Trainer) -> None:
    """Calibrate the head of the best epoch, and with it the last one."""
    head, held, validation = trainer.full_model.head, trainer.validation, trainer.data.validation
    if not isinstance(head, SampledPositiveHead):
        return
    if held is not None and validation is not None:
        scores = trainer.predict(trainer.state.best_model, held)
        if len(informative_rows(validation.values, trainer.k, scores)):
            return
    trainer.load_model(trainer.state.best_model)
    sharpness = float(head.sharpness) if trainer.is_solved else 1.0  # chosen by held-out tags
    head.calibrate(1.0, trainer.k)
    softmax, sigmoids = _both_parts(trainer, trainer.inputs.training(trainer.mode))
    if held is not None and validation is not None and not trainer.is_solved:
        sharpness = best_sharpness(_both_parts(trainer, held)[0], validation.values)
    shown = _learn_shown(trainer, head)
    head.calibrate(sharpness, matching_count(softmax, sharpness, trainer.k, sigmoids, shown))
    for state in (trainer.last_model, trainer.state.best_model):
        calibrated = trainer.model.state_dict()
        state.update({name: calibrated[name].cpu().clone() for name in _BUFFERS})


def _both_parts(trainer: Trainer, source: Source) -> tuple[Scores, Scores | None]:
    """Probabilities (N, L) by the softmax, and by the sigmoids if there are any."""
    model: Any = trainer.model

    def parts(images: Tensor, prior: Tensor | None) -> Tensor:
        both = [part for part in model.head.parts(model(images, prior)) if part is not None]
        return torch.stack(both, dim=1).float().sigmoid()

    scores = compute_all(model, parts, source)
    return scores[:, 0], scores[:, 1] if scores.shape[1] > 1 else None


def _learn_shown(trainer: Trainer, head: SampledPositiveHead) -> Floats | None:
    """Let the head know how likely an image shows any class, from which images have a tag.

    Returns it for every readable training image if k is of all images; else None.
    """
    config, visible = trainer.config, trainer.data.visible.values
    has_tag, is_unknown = per_image(visible, POSITIVE) > 0, per_image(visible) == 0
    if not is_unknown.any():
        return None
    is_of_all = config.expected_positives != "estimate"  # else of those with a tag
    rows = np.arange(len(has_tag))
    if not is_of_all and len(rows) > _MOST:
        rows = np.random.default_rng(config.seed).permutation(rows)[:_MOST]
    source = Subset(trainer.inputs.training(trainer.mode), rows)
    features = compute_all(trainer.model, lambda images, _: trainer.model.backbone(images), source)
    readable = np.isfinite(features).all(axis=1)
    chosen = np.flatnonzero(readable & (has_tag | is_unknown)[rows])[:_MOST]
    learnt = learn_shown(features[chosen], has_tag[rows[chosen]])
    if learnt is None:
        return None
    weights, bias = learnt
    head.set_shown(torch.from_numpy(weights), bias)
    shown = np.clip(features[readable] @ weights + bias, LEAST_SHOWN, 1.0)
    return shown if is_of_all else None


def log_softmax_of(scores: npt.ArrayLike, sharpness: float = 1.0) -> Floats:
    """Log softmax probabilities behind presences (N, L), made sharper, of readable rows."""
    rates = -np.log1p(-np.minimum(_readable(scores), 1.0 - _TINY))
    logs: Floats = log_softmax(sharpness * np.log(np.maximum(rates, _TINY)), axis=1)
    return logs


def best_sharpness(scores: Scores, known: npt.NDArray[np.int8]) -> float:
    """The sharpness at which the tags of held-out images are most likely."""
    tagged = known[~np.isnan(scores).any(axis=1)] == POSITIVE
    if tagged.sum() < _FEWEST:
        return 1.0
    logs = log_softmax_of(scores)

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
    """The n at which k classes per image are expected, Σ 1 − exp(−n · softmax) on average.

    `others` has the probabilities of a second head; then k is expected of both, pooled. `shown`
    has the probability that a readable image shows any class, if k is of all images.
    """
    softmax = np.exp(log_softmax_of(scores, sharpness))
    if not len(softmax) or not 0 < k < softmax.shape[1]:
        return max(k, _TINY)
    second = None if others is None else _readable(others)

    def surplus(log_count: float) -> float:
        total = _pooled(-np.expm1(-np.exp(log_count) * softmax), second).sum(axis=1)
        return float((total if shown is None else shown * total).mean() - k)

    lowest, highest = np.log(_TINY), np.log(1e6)
    if surplus(highest) < 0:  # fewer classes than k have a softmax probability at all
        return k
    return float(np.exp(brentq(surplus, lowest, highest)))


def _pooled(present: Floats, others: Floats | None) -> Floats:
    """Probabilities of two heads, pooled as `SampledPositiveHead.predict` does it."""
    if others is None:
        return present
    first, second = (logit(np.clip(part, _TINY, 1.0 - _TINY)) for part in (present, others))
    mean = (first + SIGMOID_WEIGHT * second) / (1.0 + SIGMOID_WEIGHT)
    together: Floats = expit(POOLED_SHARPNESS * mean)
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
