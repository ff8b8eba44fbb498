"""Query strategies: which labels to ask a person about, the most useful first.

useful        uncertain pseudo-label, u = 4p(1 − p), of a class with few positives: question number
              i about a class with n known positives scores u / (1 + n + i), so classes take turns
disagreement  |pseudo-label − prediction|
doubtful      observed labels that the network contradicts: |observed − prediction|
random        any unobserved label, as a control
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from g2netpl.labels.table import UNOBSERVED
from g2netpl.runs.tables import SavedLabels
from g2netpl.runs.thresholds import Thresholds, choose

CHUNK = 2048  # images scored at a time; pseudo-labels and predictions stay on disk
_SAMPLE = 4096  # images that calibrate the pseudo-labels
_FEWEST = 20  # questions kept per class, at least

Order = Literal["useful", "disagreement", "doubtful", "random"]
Index = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Scores = npt.NDArray[np.float32]


class Probabilities:
    """Calibrated pseudo-labels and predictions of a run, as `g2netpl complete` writes them."""

    def __init__(self, saved: SavedLabels, thresholds: Thresholds, k: float) -> None:
        self.saved, self.thresholds = saved, thresholds
        rows = np.flatnonzero(saved.has_soft)
        sample = rows[:: max(1, -(-len(rows) // _SAMPLE))]
        self._by_k = choose("expected", None, np.asarray(saved.completed[sample]), k)

    def pseudo(self, rows: Index, columns: Index) -> Scores:
        """Pseudo-labels; predictions for images without them; NaN for unreadable images."""
        raw, has_soft = np.asarray(self.saved.completed[rows]), self.saved.has_soft[rows]
        probabilities = self._calibrated(raw, columns)
        if has_soft.any():
            probabilities[has_soft] = self._by_k.calibrate(raw[has_soft][:, columns])
        return probabilities

    def predicted(self, rows: Index, columns: Index) -> Scores:
        """Predictions of the network, also for its training images."""
        return self._calibrated(self.saved.predictions(rows), columns)

    def completed(self, rows: Index) -> tuple[Scores, Mask]:
        """Probabilities of all classes, and which of them `g2netpl complete` would add."""
        columns = np.arange(len(self.saved.classes))
        if self.thresholds.overrides_pseudo_labels:
            scores = self.predicted(rows, columns)
            return scores, self.thresholds.decide(scores)
        scores, has_soft = self.pseudo(rows, columns), self.saved.has_soft[rows][:, None]
        return scores, np.where(has_soft, self._by_k.decide(scores), self.thresholds.decide(scores))

    def _calibrated(self, scores: Scores, columns: Index) -> Scores:
        if self.thresholds.single_label:  # probabilities that sum to 1 need all classes
            return self.thresholds.calibrate(scores)[:, columns]
        return self.thresholds.calibrate(scores[:, columns])


class QueryStrategy(NamedTuple):
    """How to score labels; the highest score comes first."""

    summary: str
    function: Callable[..., Any]  # of pseudo-labels, predictions, observed values, a generator
    asks_observed: bool = False  # about observed labels, not about unobserved ones
    balances_classes: bool = False  # classes with many positives wait

    def score(self, given: Probabilities, rows: Index, columns: Index, seed: int) -> Floats:
        """Scores of labels (rows × columns); −1 where there is nothing to ask."""
        observed = given.saved.observed[rows][:, columns]
        inputs = given.pseudo(rows, columns), given.predicted(rows, columns), observed
        random = np.random.default_rng([seed, int(rows[0])])
        scores = np.array(self.function(*inputs, random), dtype=np.float64)
        scores[((observed != UNOBSERVED) != self.asks_observed) | np.isnan(scores)] = -1
        return scores


STRATEGIES: dict[Order, QueryStrategy] = {
    "useful": QueryStrategy(
        "uncertain, rare classes first", lambda u, p, o, _: 4 * u * (1 - u), balances_classes=True
    ),
    "disagreement": QueryStrategy(
        "pseudo-label and prediction differ", lambda u, p, o, _: np.abs(u - p)
    ),
    "doubtful": QueryStrategy(
        "observed labels that look wrong", lambda u, p, o, _: np.abs(o - p), asks_observed=True
    ),
    "random": QueryStrategy(
        "any unobserved label, as a control", lambda u, p, o, random: random.random(u.shape) + 0 * u
    ),
}


def rank(
    strategy: QueryStrategy,
    given: Probabilities,
    columns: Index,
    rows: Index,
    is_candidate: Callable[[Index, Index], Mask],
    positives: npt.NDArray[np.integer],
    size: int,
    seed: int,
) -> tuple[Index, Floats, bool]:
    """The best entries (row · L + column), best first, their scores, and whether these are all.

    `is_candidate` takes rows and entries (rows × columns); `positives` are counts by class.
    """
    width, groups = len(given.saved.classes), len(columns) if strategy.balances_classes else 1
    keep = max(_FEWEST, -(-size // groups))
    best: Floats = np.empty((0, groups))
    places: Index = np.empty((0, groups), dtype=np.int64)
    total = 0
    for start in range(0, len(rows), CHUNK):
        chunk = rows[start : start + CHUNK]
        scores = strategy.score(given, chunk, columns, seed)
        entries = chunk[:, None] * width + columns
        scores[~is_candidate(chunk, entries)] = -1
        total += int((scores >= 0).sum())
        best = np.concatenate([best, scores.reshape(-1, groups)])
        places = np.concatenate([places, entries.reshape(-1, groups)])
        if len(best) > keep:
            top = np.argpartition(-best, keep - 1, axis=0)[:keep]
            best = np.take_along_axis(best, top, axis=0)
            places = np.take_along_axis(places, top, axis=0)
    ranked = np.lexsort((places, -best), axis=0)
    best, places = np.take_along_axis(best, ranked, 0), np.take_along_axis(places, ranked, 0)
    is_query = best >= 0
    if strategy.balances_classes:
        best /= 1 + positives[columns] + np.arange(len(best))[:, None]
    best, places = best[is_query], places[is_query]
    ranked = np.lexsort((places, -best))[:size]
    return places[ranked], best[ranked], total <= len(ranked)


def rank_photos(entries: Index, scores: Floats, width: int) -> Index:
    """Photos, by the entry of their first label: the sum of the scores of their labels decides."""
    rows, places = np.unique(entries // width, return_inverse=True)
    order: Index = np.lexsort((rows, -np.bincount(places, scores, len(rows))))
    return rows[order] * width
