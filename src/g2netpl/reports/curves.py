"""Scores held against truth, for pictures: precision and recall, reliability, each class.

Truth may hold −1: such entries count nowhere, nor do images whose scores are NaN.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from g2netpl.labels.table import POSITIVE, UNOBSERVED, LabelMatrix
from g2netpl.runs.precision_bounds import ranked_scores
from g2netpl.utils.arrays import Scores

Floats = npt.NDArray[np.float64]
BINS = 10


@dataclass(frozen=True)
class Bin:
    """Entries whose scores fall between two limits."""

    low: float
    high: float
    score: float  # their mean
    positive: float  # the share that is positive
    count: int

    def interval(self) -> tuple[float, float]:
        """Where the true share lies with 95 % confidence (Wilson)."""
        z, n, share = 1.96, self.count, self.positive
        centre = (share + z * z / (2 * n)) / (1 + z * z / n)
        reach = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        return max(0.0, centre - reach), min(1.0, centre + reach)


@dataclass(frozen=True)
class ClassFigures:
    """One class in one part: how often it is there, and how its decisions do."""

    positives: int
    precision: float | None  # None: never proposed
    recall: float | None  # None: never there


def known_entries(scores: Scores, truth: LabelMatrix) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Scores and signs of all entries that are known and readable, in one row each."""
    known = (truth != UNOBSERVED) & ~np.isnan(scores)
    return scores[known].astype(np.float64), truth[known] == POSITIVE


def precision_recall(
    scores: Floats, positive: npt.NDArray[np.bool_]
) -> tuple[Floats, Floats, Floats]:
    """Recall (rising), precision and threshold at every distinct score; there is a positive."""
    ranked, hits, proposed = ranked_scores(scores, positive)
    return hits / hits[-1], hits / proposed, ranked


def reliability(scores: Floats, positive: npt.NDArray[np.bool_], bins: int = BINS) -> list[Bin]:
    """The share of positives among entries of like scores, in equal bins of [0, 1]."""
    edges = np.linspace(0.0, 1.0, bins + 1)
    place = np.searchsorted(edges[1:-1], scores)
    counts = np.bincount(place, minlength=bins)
    sums = np.bincount(place, weights=scores, minlength=bins)
    hits = np.bincount(place, weights=positive, minlength=bins)
    return [
        Bin(
            float(edges[number]),
            float(edges[number + 1]),
            float(sums[number] / counts[number]),
            float(hits[number] / counts[number]),
            int(counts[number]),
        )
        for number in np.flatnonzero(counts)
    ]


def calibration_error(found: list[Bin]) -> float:
    """The mean distance of score and share over all entries (expected calibration error)."""
    total = sum(each.count for each in found)
    return sum(each.count * abs(each.score - each.positive) for each in found) / max(total, 1)


def class_figures(
    scores: Scores, truth: LabelMatrix, decided: npt.NDArray[np.bool_]
) -> list[ClassFigures]:
    """Each class as it is decided."""
    known = (truth != UNOBSERVED) & ~np.isnan(scores)
    positive = known & (truth == POSITIVE)
    proposed = known & decided
    there, said, right = (
        mask.sum(axis=0).tolist() for mask in (positive, proposed, positive & proposed)
    )
    return [
        ClassFigures(p, r / s if s else None, r / p if p else None)
        for p, s, r in zip(there, said, right, strict=True)
    ]
