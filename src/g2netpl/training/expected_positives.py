"""k, the expected number of positives per image, for people who cannot know it.

Images whose labels are all known tell it directly. Where labels of both signs are missing at
random, the share of positives among the observed labels of each class tells. People who name what
they see and a few things that are not there observe positives far more often than negatives: so
likely labels, by a classifier that has not seen the image, must be known no more often than others,
and where negatives are few, both rates are compared, too.

Otherwise rank all (image, class) pairs of the labelled images by a softmax classifier (`sampled`)
that has not seen the image. The share of the top pairs that was observed is the chance that a
positive gets observed, and k is the number of observed positives per labelled image divided by it.
The deeper one looks, the more wrong pairs there are, which makes k too large; at the very top are
images with few positives, which makes it too small. So k is read at half the depth, the number of
observed positives being the whole, and moved on along its own slope, the further the more names
there are per class.
Of very many classes those with the most observed positives are ranked: the chance is theirs.
Features that tell nothing leave a guess, one positive more than was observed, and features that
tell little a mean of the two. dev/log/estimate-of-k.md has the errors.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from g2netpl.core.inference import predict_all
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

_RANKED_IMAGES = 4000
_RANKED_CLASSES = 1500  # a classifier of more would take minutes
_ENOUGH_TO_RANK = 20  # labelled images; with fewer, k is taken as what was seen
_FOLDS = 5
_STEPS = 400  # of a classifier that ranks
_DEPTHS = (0.3, 0.5, 0.7)  # pairs that are looked at, as a share of the observed positives
_SLOPE, _NAMES = 1.5, 10  # how far k is moved on, and the names per class at which half as far
_MANY_NEGATIVES = 5  # per positive: no more is asked before labels count as missing at random
_FEW_IMAGES = 300  # labelled ones, below which k is told as a guess
_TELLING = 4.0  # times chance that the top pairs must be observed to be believed altogether


def check(wanted: float | str, labels: LabelMatrix) -> None:
    """Refuse a k that these labels cannot have or tell."""
    classes = labels.shape[1]
    if isinstance(wanted, float) and wanted > classes:
        raise InputError(
            f"expected_positives: {wanted:g} per image, but there are only {classes} classes"
        )
    if wanted == "truth":
        _of_truth(labels)


class Expected(NamedTuple):
    """k, where it comes from, and whether likely labels are known as often as others."""

    k: float
    origin: str
    at_random: bool = True


def find(config: TrainConfig, data: TrainingData, inputs: DataModule) -> Expected:
    """k of a training, and what was seen on the way."""
    wanted = config.expected_positives
    if config.single_label:
        return Expected(1.0, "one class per image")
    if isinstance(wanted, float):
        check(wanted, data.visible.values)
        return Expected(wanted, "given")
    if wanted == "truth":
        return Expected(_of_truth(data.table.values[data.training]), "the truth's mean")
    validation = None if data.validation is None else data.validation.values
    mode = config.phases[0]
    return estimate(
        data.visible.values, validation, lambda rows: inputs.some_features(rows, mode), config.seed
    )


def _of_truth(labels: LabelMatrix) -> float:
    """The mean over the images that something is known about, which must be everything."""
    known = per_image(labels)[per_image(labels) > 0]
    if not len(known) or (known < labels.shape[1]).any():
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
    """k and how it was found; `features_of` gives the vectors of some rows of `visible`."""
    for labels, where in ((validation, "validation"), (visible, "training")):
        k = None if labels is None else from_complete(labels)
        if k is not None:
            return Expected(k, f"from completely labelled {where} images")

    def some(rows: IndexArray) -> tuple[Features, LabelMatrix]:
        order = np.random.default_rng([seed, 0x6B6B]).permutation(rows)
        chosen = np.sort(order[:_RANKED_IMAGES])
        features = features_of(chosen)
        readable = ~np.isnan(features).any(axis=1)
        return features[readable], visible[chosen[readable]]

    by_shares, both = from_both_signs(visible), "estimated from observed positives and negatives"
    alike = by_shares is not None and _looked_alike(*some(np.flatnonzero(per_image(visible))), seed)
    many = _MANY_NEGATIVES * per_class(visible, POSITIVE).sum()
    if by_shares is not None and alike and per_class(visible, NEGATIVE).sum() >= many:
        return Expected(by_shares, both)
    labelled = np.flatnonzero(per_image(visible, POSITIVE))
    k = from_positives(*some(labelled), seed)
    if by_shares is not None and alike and observed_alike(visible, k):
        return Expected(by_shares, both)
    names = per_class(visible, POSITIVE).sum() / visible.shape[1]
    if len(labelled) < _FEW_IMAGES or names < _NAMES:
        few = f"estimated from positives of {counted(len(labelled), 'image')}"
        guess = f"{few}, which is a guess; --expected-positives K if you know better"
        return Expected(k, guess, alike)
    return Expected(k, "estimated from positives", alike)


def from_positives(features: Features, observed: LabelMatrix, seed: int = 0) -> float:
    """k from observed positives alone, by ranking pairs with cross-fitted linear classifiers."""
    labelled = np.flatnonzero(per_image(observed, POSITIVE))
    mean = float(per_image(observed, POSITIVE)[labelled].mean())
    if len(labelled) < _ENOUGH_TO_RANK:
        return mean
    seen = observed[np.ix_(labelled, _most_observed(observed))]
    seen[seen == NEGATIVE] = UNOBSERVED
    scores = _cross_fitted(features[labelled], seen, seed)
    count = int((seen == POSITIVE).sum())
    hits = (seen.ravel() == POSITIVE)[np.argsort(-scores, axis=None)].cumsum()
    depths = [max(round(depth * count), 1) for depth in _DEPTHS]
    observed_shares = [max(hits[depth - 1] / depth, 1.0 / count) for depth in depths]
    by_chance = count / len(labelled) / seen.shape[1]
    telling = min(_TELLING, seen.shape[1] / 2)  # few classes: chance is never far
    belief = float(np.clip((observed_shares[1] / by_chance - 1) / max(telling - 1, 0.5), 0, 1))
    names = count / seen.shape[1]
    top, middle, deep = np.log(observed_shares)
    estimate = np.log(mean) - middle + _SLOPE * names / (names + _NAMES) * (top - deep)
    k = np.exp(belief * estimate + (1 - belief) * np.log(mean + 1))
    return float(np.clip(k, mean, observed.shape[1]))


def _looked_alike(features: Features, observed: LabelMatrix, seed: int) -> bool:
    """Whether likely labels are known as often as others, by classifiers of names."""
    if len(features) < _ENOUGH_TO_RANK:
        return True
    known = observed[:, _most_observed(observed)]
    names = np.where(known == POSITIVE, known, UNOBSERVED)
    return looked_alike(_cross_fitted(features, names, seed), known)


def _most_observed(observed: LabelMatrix) -> IndexArray:
    """The classes that are ranked, in their order: all, or those with the most positives."""
    often = np.argsort(-per_class(observed, POSITIVE), kind="stable")
    return np.sort(often[:_RANKED_CLASSES])


def _cross_fitted(features: Features, observed: LabelMatrix, seed: int) -> Features:
    """Scores of each fold by a softmax that was trained on the other folds."""
    order = np.random.default_rng([seed, 0x6B65]).permutation(len(features))
    scores = np.zeros(observed.shape, dtype=np.float32)
    classes, width = observed.shape[1], features.shape[1]
    vectors, tags = torch.from_numpy(features), torch.from_numpy(observed)
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
                    loss: Any = model.head.loss(model(vectors[rows]), tags[rows])
                    loss.backward()
                    optimizer.step()
            scores[part] = predict_all(model, ArraySource(vectors[torch.from_numpy(part)]))
    return scores
