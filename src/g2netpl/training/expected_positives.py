"""k, the expected number of positives per image: given, or estimated from the observed labels.

Completely labelled images show it. If positives and negatives are missing at random, so do the
observed labels of each class. Tags with a few negatives are not missing at random: then likely
labels, by a classifier that has not seen the image, are observed more often than others, or
positives more often than negatives.

Otherwise all (image, class) pairs of the tagged images are ranked by a softmax classifier that has
not seen the image. The observed fraction of the top pairs is the probability that a positive is
observed, and k is the mean number of tags per image divided by it. Further down more pairs are
wrong, which makes k too large; at the very top are images with few positives, which makes it too
small. So the fraction is read at half as many pairs as there are tags, and corrected along its own
slope, the more the more tags there are per class. Of very many classes those with the most tags are
ranked. If the ranking is no better than chance, k is one more than the mean number of tags, and a
weighted mean in between. dev/log/estimate-of-k.md has the errors.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from g2netpl.core.inference import one_thread, predict_all
from g2netpl.core.models import build_backbone, build_model
from g2netpl.images.features import Features
from g2netpl.images.loader import ArraySource, epoch_groups
from g2netpl.labels.missingness import (
    from_both_signs,
    from_complete,
    looked_alike,
    observed_alike,
)
from g2netpl.labels.table import (
    NEGATIVE,
    POSITIVE,
    UNOBSERVED,
    IndexArray,
    LabelMatrix,
    per_class,
    per_image,
)
from g2netpl.runs.train_config import TrainConfig
from g2netpl.training.datamodule import DataModule
from g2netpl.training.splits import TrainingData
from g2netpl.utils import distributed
from g2netpl.utils.errors import InputError, counted

_RANKED_IMAGES, _RANKED_CLASSES = 4000, 1500  # a classifier of more would take minutes
_ENOUGH_TO_RANK = 20  # tagged images; with fewer, k is the mean number of tags
_FOLDS, _STEPS = 5, 400  # of the classifiers
_DEPTHS = (0.3, 0.5, 0.7)  # ranked pairs, as a fraction of the tags
_SLOPE, _TAGS = 1.5, 10  # of the correction, and the tags per class at which it is half as large
_MANY_NEGATIVES = 5  # per positive: enough for labels to count as missing at random
_FEW_IMAGES = 300  # tagged ones, below which the lower end of the interval is used
_RESAMPLES = 100
_METHOD_ERROR, _FEW_ERROR = 1.2, 1.4  # factors by which the method errs, with many and few images
_RELIABLE = 4.0  # times chance: a ranking whose top is observed that often counts fully


class Expected(NamedTuple):
    """k, where it comes from, and whether likely labels are observed as often as others."""

    k: float
    origin: str
    at_random: bool = True


def find(config: TrainConfig, data: TrainingData, inputs: DataModule) -> Expected:
    """k of a run."""
    wanted, visible = config.expected_positives, data.visible.values
    if config.single_label:
        return Expected(1.0, "one class per image")
    if wanted != "estimate":
        origin = "the truth's mean" if wanted == "truth" else "given"
        return Expected(given(wanted, data.table.values[data.training]), origin)
    validation = None if data.validation is None else data.validation.values
    mode = config.phases[0]
    return estimate(visible, validation, lambda rows: inputs.some_features(rows, mode), config.seed)


def given(wanted: float | str, labels: LabelMatrix) -> float:
    """k as a number, or for `truth` the mean of complete labels; what these cannot have fails."""
    classes, known = labels.shape[1], per_image(labels)[per_image(labels) > 0]
    if isinstance(wanted, float):
        if wanted > classes:
            raise InputError(
                f"expected_positives: {wanted:g} per image, but there are only {classes} classes"
            )
        return wanted
    if not len(known) or (known < classes).any():
        raise InputError(
            "expected_positives: 'truth' needs a file with full labels, and some are unknown here; "
            "use estimate or a number"
        )
    return float(per_class(labels, POSITIVE).sum() / len(known))


def estimate(
    visible: LabelMatrix,
    validation: LabelMatrix | None,
    features_of: Callable[[IndexArray], Features],
    seed: int,
) -> Expected:
    """k and its origin; `features_of` gives the feature vectors of some rows of `visible`."""
    for labels, where in ((validation, "validation"), (visible, "training")):
        complete = None if labels is None else from_complete(labels)
        if complete is not None:
            return Expected(complete, f"from completely labelled {where} images")

    def sample(rows: IndexArray) -> tuple[Features, LabelMatrix]:
        order = np.random.default_rng([seed, 0x6B6B]).permutation(rows)
        chosen = np.sort(order[:_RANKED_IMAGES])
        features = features_of(chosen)
        readable = ~np.isnan(features).any(axis=1)
        return features[readable], visible[chosen[readable]]

    positives, negatives = (per_class(visible, sign).sum() for sign in (POSITIVE, NEGATIVE))
    by_both, both = from_both_signs(visible), "estimated from observed positives and negatives"
    at_random = by_both is not None and _at_random(
        *sample(np.flatnonzero(per_image(visible))), seed
    )
    if by_both is not None and at_random and negatives >= _MANY_NEGATIVES * positives:
        return Expected(by_both, both)
    tagged = np.flatnonzero(per_image(visible, POSITIVE))
    k, low, high = from_positives(*sample(tagged), seed)
    if by_both is not None and at_random and observed_alike(visible, k):
        return Expected(by_both, both)
    are_few = len(tagged) < _FEW_IMAGES or positives / visible.shape[1] < _TAGS
    error = _FEW_ERROR if are_few else _METHOD_ERROR
    origin = f"estimated from positives, probably {low / error:.2f} to {high * error:.2f}"
    if are_few:
        number = counted(len(tagged), "tagged image")
        few = f"only {number}, so a value near the lower end is used"
        hint = "use --expected-positives K if you know it"
        return Expected(low, f"{origin}; {few}; {hint}", at_random)
    return Expected(k, origin, at_random)


class Interval(NamedTuple):
    """k by the tags; 5th and 95th percentile of it over resampled images."""

    k: float
    low: float
    high: float


def from_positives(features: Features, observed: LabelMatrix, seed: int = 0) -> Interval:
    """k from tags only, by ranking pairs with cross-fitted linear classifiers."""
    tagged = np.flatnonzero(per_image(observed, POSITIVE))
    mean = float(per_image(observed, POSITIVE)[tagged].mean())
    if len(tagged) < _ENOUGH_TO_RANK:
        return Interval(mean, mean, mean)
    tags = observed[np.ix_(tagged, _most_observed(observed))] == POSITIVE
    order = np.argsort(-_cross_fitted(features[tagged], tags, seed), axis=None)
    image, is_tag = order // tags.shape[1], tags.ravel()[order]

    def estimate(repeats: npt.NDArray[np.int64]) -> float:
        """k if every image counts so many times."""
        count, images, classes = repeats @ tags.sum(axis=1), repeats.sum(), tags.shape[1]
        pairs, hits = repeats[image].cumsum(), (repeats[image] * is_tag).cumsum()
        depths = np.maximum(np.round(np.multiply(_DEPTHS, count)), 1)
        fractions = np.maximum(hits[np.searchsorted(pairs, depths)] / depths, 1.0 / count)
        times_chance = fractions[1] / (count / images / classes)
        reliable = min(_RELIABLE, classes / 2)  # few classes: chance is never far
        weight = float(np.clip((times_chance - 1) / max(reliable - 1, 0.5), 0, 1))
        mean, per_tag = count / images, count / classes
        top, middle, deep = np.log(fractions)
        ranked = np.log(mean) - middle + _SLOPE * per_tag / (per_tag + _TAGS) * (top - deep)
        k = np.exp(weight * ranked + (1 - weight) * np.log(mean + 1))
        return float(np.clip(k, mean, observed.shape[1]))

    random, count = np.random.default_rng([seed, 0x6B69]), len(tagged)
    samples = random.multinomial(count, np.full(count, 1 / count), size=_RESAMPLES)
    low, high = np.percentile([estimate(repeats) for repeats in samples], (5, 95))
    return Interval(estimate(np.ones(count, dtype=np.int64)), float(low), float(high))


def _at_random(features: Features, observed: LabelMatrix, seed: int) -> bool:
    """Whether likely labels are observed as often as others, by classifiers of the tags."""
    if len(features) < _ENOUGH_TO_RANK:
        return True
    known = observed[:, _most_observed(observed)]
    return looked_alike(_cross_fitted(features, known == POSITIVE, seed), known)


def _most_observed(observed: LabelMatrix) -> IndexArray:
    """The classes that are ranked, in their order: all, or those with the most tags."""
    order = np.argsort(-per_class(observed, POSITIVE), kind="stable")
    return np.sort(order[:_RANKED_CLASSES])


@one_thread()
def _cross_fitted(features: Features, tags: npt.NDArray[np.bool_], seed: int) -> Features:
    """Scores of each fold by a softmax classifier that was trained on the other folds."""
    order = np.random.default_rng([seed, 0x6B65]).permutation(len(features))
    scores = np.zeros(tags.shape, dtype=np.float32)
    classes, width = tags.shape[1], features.shape[1]
    vectors = torch.from_numpy(features)
    observed = torch.from_numpy(np.where(tags, POSITIVE, UNOBSERVED))
    backbone = build_backbone("features", width=width)
    keys: dict[str, Any] = {"annotation": "sampled", "trains_sigmoids": False, "seed": seed}
    with distributed.local_only():
        for part in np.array_split(order, _FOLDS):
            train = np.setdiff1d(order, part)
            model = build_model(backbone, classes, **keys)
            optimizer = torch.optim.AdamW(
                model.parameters(), lr=min(0.05, 1.28 / width), weight_decay=1.0
            )
            for epoch in range(-(-_STEPS // -(-len(train) // 64))):
                for group in epoch_groups(len(train), 64, seed, epoch):
                    rows = torch.from_numpy(train[group])
                    optimizer.zero_grad()
                    loss: Any = model.head.loss(model(vectors[rows]), observed[rows])
                    loss.backward()
                    optimizer.step()
            scores[part] = predict_all(model, ArraySource(vectors[torch.from_numpy(part)]))
    return scores
