"""k, the expected number of positives per image, for people who cannot know it.

Images whose labels are all known tell it directly. Where many negatives were observed, more than
three per positive, labels are taken to be missing at random, and the share of positives among the
observed labels of each class tells.

With positives alone, or about as many negatives: rank all (image, class) pairs of the labelled
images by a classifier that takes "observed" as its target and has not seen the image. The most
positive-looking pairs, as many as there are observed positives, are taken as true. The share of
them that was observed is the chance that a positive gets observed, and k is the number of observed
positives per labelled image divided by it. A ranking that is not perfect makes k too large,
observers that prefer easy images make it too small; LOG.md has the errors measured.
"""

import numpy as np
import torch

from g2netpl.data import ArraySource, training_batches
from g2netpl.evaluation import predict_all
from g2netpl.features import Features
from g2netpl.game import Setup, play_epoch
from g2netpl.labels import NEGATIVE, POSITIVE, UNOBSERVED, LabelMatrix
from g2netpl.network import build_network
from g2netpl.players.fixed import FixedOptions, FixedPlayer

_ENOUGH_COMPLETE = 20


def from_both_signs(observed: LabelMatrix) -> float | None:
    """k from observed positives and negatives; None where they do not tell."""
    complete = (observed != UNOBSERVED).all(axis=1)
    if complete.sum() >= _ENOUGH_COMPLETE:
        return float((observed[complete] == POSITIVE).sum(axis=1).mean())
    positives = (observed == POSITIVE).sum(axis=0)
    negatives = (observed == NEGATIVE).sum(axis=0)
    if negatives.sum() <= 3 * positives.sum():
        return None
    known = np.maximum(positives + negatives, 1)
    return float((positives / known).sum())


def from_positives(features: Features, observed: LabelMatrix, seed: int = 0) -> float:
    """k from observed positives alone, by ranking pairs with cross-fitted linear classifiers."""
    labelled = np.flatnonzero((observed == POSITIVE).any(axis=1))
    seen = observed[labelled]
    scores = _cross_fitted(features[labelled], seen, seed)
    count = int((seen == POSITIVE).sum())
    top = np.argsort(-scores, axis=None)[:count]
    chance = max(float((seen.ravel()[top] == POSITIVE).mean()), 1.0 / count)
    per_image = count / len(labelled)
    return float(np.clip(per_image / chance, per_image, observed.shape[1] / 2))


def _cross_fitted(features: Features, observed: LabelMatrix, seed: int) -> Features:
    """Scores of each half by a classifier trained on the other half."""
    order = np.random.default_rng([seed, 0x6B65]).permutation(len(features))
    halves = np.array_split(order, 2)
    scores = np.zeros(observed.shape, dtype=np.float32)
    for train, apply in (halves, halves[::-1]):
        known = torch.from_numpy(observed[train])
        source = ArraySource(torch.from_numpy(features[train]))
        network = build_network("features", observed.shape[1], width=features.shape[1], seed=seed)
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
        player = FixedPlayer(Setup(known, 1.0, 1e-3), FixedOptions(unobserved_weight=1.0))
        for epoch in range(6):
            batches = training_batches(source, known, 64, seed, epoch)
            play_epoch(network, player, batches, optimizer, epoch / 6, 1.0)
        scores[apply] = predict_all(network, ArraySource(torch.from_numpy(features[apply])))
    return scores
