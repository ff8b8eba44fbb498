"""Masks: which labels stay visible.

A random number is taken for every cell of the matrix, known or not, in its order.
"""

from collections import deque
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, IndexArray, LabelMatrix


def spml_masks(labels: LabelMatrix, positives: int, negatives: int, seed: int) -> LabelMatrix:
    """SPML's masks: its generator shuffles positives, then negatives, image after image."""
    generator = np.random.RandomState(seed)
    kept = np.full_like(labels, UNOBSERVED)
    for row, values in enumerate(labels):
        for value, count in ((POSITIVE, positives), (NEGATIVE, negatives)):
            candidates = np.nonzero(values == value)[0]
            generator.shuffle(candidates)  # consumes random numbers even if none is kept
            kept[row, candidates[:count]] = value
    return kept


def mask_uniform(
    labels: LabelMatrix, probability: float, random: np.random.Generator
) -> LabelMatrix:
    """Every label with this probability."""
    visible = random.random(labels.shape) < probability
    return np.where(visible, labels, UNOBSERVED).astype(np.int8)


def mask_k_per_image(
    labels: LabelMatrix, counts: Mapping[int, int], random: np.random.Generator
) -> LabelMatrix:
    """Of every image up to so many random labels of each value."""
    kept = np.full_like(labels, UNOBSERVED)
    for value, count in counts.items():
        lottery = random.random(labels.shape)
        lottery[labels != value] = np.inf
        most = min(count, labels.shape[1])
        if most:
            first = np.argpartition(lottery, most - 1, axis=1)[:, :most]
            image, place = np.nonzero(np.take_along_axis(lottery, first, axis=1) < np.inf)
            kept[image, first[image, place]] = value
    return kept


def mask_single_positive(
    labels: LabelMatrix, weights: npt.NDArray[np.int64] | None, random: np.random.Generator
) -> IndexArray:
    """The class of each image's visible positive, −1 for images without a positive.

    `weights`, (L,), are relative probabilities of the classes; without them all are equal.
    Every class that has a positive is chosen at least once, wherever that is possible at all.
    """
    # a race of exponential clocks: class j rings first with probability weight_j / sum of weights
    race = random.exponential(size=labels.shape)
    if weights is not None:
        race /= np.maximum(weights, 1)
    race[labels != POSITIVE] = np.inf
    chosen = np.where((labels == POSITIVE).any(axis=1), race.argmin(axis=1), -1)
    return _cover_every_class(chosen, labels, random)


def single_positives(labels: LabelMatrix, chosen: IndexArray) -> LabelMatrix:
    """One visible positive for each image, of the chosen class; none where that is −1."""
    rows = np.flatnonzero(chosen >= 0)
    values = np.full_like(labels, UNOBSERVED)
    values[rows, chosen[rows]] = POSITIVE
    return values


def subset(
    chosen: IndexArray, classes: int, fraction: float, random: np.random.Generator
) -> IndexArray:
    """Keep the label of a fraction of the labelled images, every chosen class at least once."""
    order = random.permutation(np.flatnonzero(chosen >= 0))
    size = max(round(fraction * len(order)), min(1, len(order)))
    first_of_class: dict[int, int] = {}
    for image in order:
        first_of_class.setdefault(int(chosen[image]), int(image))
    kept = list(order[:size])
    count = np.bincount(chosen[order[:size]], minlength=classes)
    position = size - 1
    for label in sorted(set(first_of_class) - set(chosen[order[:size]].tolist())):
        while position >= 0 and count[chosen[kept[position]]] < 2:
            position -= 1
        if position < 0:
            break  # fewer labelled images than classes
        count[chosen[kept[position]]] -= 1
        count[label] += 1
        kept[position] = first_of_class[label]
        position -= 1
    subset = np.full_like(chosen, -1)
    subset[kept] = chosen[kept]
    return subset


def _cover_every_class(
    chosen: IndexArray, labels: LabelMatrix, random: np.random.Generator
) -> IndexArray:
    """Change as few choices as possible so that every class with a positive is chosen once.

    A class without an image takes one over from a class that has two or more, if need be along a
    chain of classes (an augmenting path of the bipartite matching).
    """
    count = np.bincount(chosen[chosen >= 0], minlength=labels.shape[1])
    absent = np.flatnonzero((count == 0) & (labels == POSITIVE).any(axis=0))
    for missing in absent:
        came_from: dict[int, tuple[int, int]] = {}  # class -> (image that it gives, class it helps)
        queue, seen = deque([int(missing)]), {int(missing)}
        while queue:
            taker = queue.popleft()
            if count[taker] > 1:
                break
            for image in random.permutation(np.flatnonzero(labels[:, taker] == POSITIVE)):
                giver = int(chosen[image])
                if giver not in seen:
                    seen.add(giver)
                    came_from[giver] = (int(image), taker)
                    queue.append(giver)
        else:
            continue  # more classes than images that could carry them
        giver = taker
        count[giver] -= 1
        count[missing] += 1
        while giver != missing:
            image, taker = came_from[giver]
            chosen[image] = taker
            giver = taker
    return chosen
