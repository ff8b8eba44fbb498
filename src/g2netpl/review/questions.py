"""Which labels to ask a person about, the most useful question first.

useful        soft label in doubt, u = 4p(1 − p), of a class with few positives. The k-th question
              about a class with n known positives counts u / (1 + n + k), k = 0, 1, …: each one
              asked before makes the class a little less rare, so no class crowds out the others
disagreement  the two players differ: |soft label − prediction|
doubtful      observed labels that the network contradicts: |observed − prediction|
random        any unknown label, as a control

Soft labels and predictions stay on disk and are looked at some thousand images at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from g2netpl.labels.table import UNOBSERVED
from g2netpl.runs.tables import SavedLabels
from g2netpl.runs.thresholds import Thresholds, choose

CHUNK = 2048  # images looked at together
_SAMPLE = 4096  # images that the level of the soft labels is found on

Chances = npt.NDArray[np.float32]
Rows = slice | npt.NDArray[np.int64]
Index = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
EVERY = slice(None)


class Opinions:
    """What both players say of any label, as chances: calibrated as `g2netpl complete` does it."""

    def __init__(self, saved: SavedLabels, thresholds: Thresholds, k: float) -> None:
        self.saved, self.thresholds = saved, thresholds
        soft = np.flatnonzero(saved.has_soft)
        sample = soft[:: max(1, -(-len(soft) // _SAMPLE))]
        self._by_k = choose("expected", None, np.asarray(saved.completed[sample]), k)

    def soft(self, rows: Rows, columns: Rows = EVERY) -> Chances:
        """Soft labels, or predictions for images that have none; NaN for unreadable images."""
        raw, own = np.asarray(self.saved.completed[rows]), self.saved.has_soft[rows]
        if own.all():
            return self._by_k.calibrate(raw[:, columns])
        chances = self._calibrated(raw, columns)
        if own.any():
            chances[own] = self._by_k.calibrate(raw[own][:, columns])
        return chances

    def completed(self, rows: Rows) -> tuple[Chances, npt.NDArray[np.bool_]]:
        """What `g2netpl complete` would say of unknown labels: chances, and whether it is yes."""
        if self.thresholds.by_network:
            chances = self.predicted(rows)
            return chances, self.thresholds.decide(chances)
        chances, own = self.soft(rows), self.saved.has_soft[rows][:, None]
        by_k, by_threshold = self._by_k.decide(chances), self.thresholds.decide(chances)
        return chances, np.where(own, by_k, by_threshold)

    def predicted(self, rows: Rows, columns: Rows = EVERY) -> Chances:
        """The network's own word, also on images it was trained on."""
        if self.thresholds.one_of:
            return self._calibrated(self.saved.predicted.scores(rows), columns)
        return self.thresholds.calibrate(self.saved.predicted.scores(rows, columns))

    def _calibrated(self, scores: Chances, columns: Rows) -> Chances:
        """The network's chances of some classes; those of one class per image add up over all."""
        if self.thresholds.one_of:
            return self.thresholds.calibrate(scores)[:, columns]
        return self.thresholds.calibrate(scores[:, columns])


Scores = npt.NDArray[np.floating]


def _useful(said: Opinions, rows: Rows, columns: Index, _: int) -> Scores:
    chances = said.soft(rows, columns)
    return 4 * chances * (1 - chances)


def _disagreement(said: Opinions, rows: Rows, columns: Index, _: int) -> Scores:
    gap: Scores = np.abs(said.soft(rows, columns) - said.predicted(rows, columns))
    return gap


def _doubtful(said: Opinions, rows: Rows, columns: Index, _: int) -> Scores:
    observed = said.saved.observed[rows][:, columns]
    gap: Scores = np.abs(observed - said.predicted(rows, columns))
    return gap


def _random(said: Opinions, rows: Rows, columns: Index, seed: int) -> Scores:
    chances = said.soft(rows, columns)
    first = rows.start if isinstance(rows, slice) else int(rows[0])
    drawn = np.random.default_rng([seed, first]).random(chances.shape)
    return np.where(np.isnan(chances), chances, drawn)


@dataclass(frozen=True)
class Order:
    """A way to choose questions: the worth of some labels; NaN where there is no question."""

    summary: str
    score: Callable[[Opinions, Rows, Index, int], Scores]  # the last one is a seed
    of_observed: bool = False  # whether it asks about labels that were observed, or about others
    levels_classes: bool = False  # whether a class with many positives waits


ORDERS: dict[str, Order] = {
    "useful": Order("in doubt, rare classes first", _useful, levels_classes=True),
    "disagreement": Order("soft label and prediction differ", _disagreement),
    "doubtful": Order("observed labels that look wrong", _doubtful, of_observed=True),
    "random": Order("any unknown label, as a control", _random),
}


@dataclass(frozen=True)
class Scope:
    """The labels that may be asked about: some columns, and there what a search has hit."""

    columns: Index
    hit_rows: npt.NDArray[np.bool_] | None = None  # (N,); None: no search
    hit_columns: npt.NDArray[np.bool_] | None = None  # (L,)

    def rows(self, count: int) -> Iterator[Rows]:
        """The images to look at, some at a time."""
        if self.hit_rows is not None and not self._hit_columns().any():
            found = np.flatnonzero(self.hit_rows)
            for start in range(0, len(found), CHUNK):
                yield found[start : start + CHUNK]
            return
        for start in range(0, count, CHUNK):
            yield slice(start, min(start + CHUNK, count))

    def excluded(self, rows: Rows) -> npt.NDArray[np.bool_] | None:
        """Labels of these images, in our columns, that the search has not hit."""
        if self.hit_rows is None:
            return None
        return ~(self.hit_rows[rows][:, None] | self._hit_columns()[None, :])

    def _hit_columns(self) -> npt.NDArray[np.bool_]:
        assert self.hit_columns is not None
        return self.hit_columns[self.columns]


def build_queue(
    opinions: Opinions,
    order: Order,
    scope: Scope,
    answered: Index,
    positives: npt.NDArray[np.integer],
    size: int,
    seed: int = 0,
) -> tuple[Index, Floats, int]:
    """The best questions as row · L + column, best first, their worth, and how many there are.

    `answered` are questions that need not be asked again, sorted; `positives` (L,) the known ones.
    """
    observed, columns = opinions.saved.observed, scope.columns
    width = observed.shape[1]
    groups = len(columns) if order.levels_classes else 1
    keep = max(20, -(-size // groups))
    best = (np.empty((0, groups)), np.empty((0, groups), dtype=np.int64))
    total = 0
    for rows in scope.rows(len(observed)):
        scores = np.asarray(order.score(opinions, rows, columns, seed), dtype=np.float64)
        scores[(observed[rows][:, columns] != UNOBSERVED) != order.of_observed] = -1
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        entries = numbers[:, None] * width + columns
        scores[np.isin(entries, _between(answered, entries[0, 0], entries[-1, -1]))] = -1
        excluded = scope.excluded(rows)
        if excluded is not None:
            scores[excluded] = -1
        scores[np.isnan(scores)] = -1
        total += int((scores >= 0).sum())
        best = _best(best, (scores.reshape(-1, groups), entries.reshape(-1, groups)), keep)
    found, worth = _ranked(*best, 1 + positives[columns] if order.levels_classes else None)
    return found[:size], worth[:size], total


def _between(answered: Index, first: int, last: int) -> Index:
    start, stop = np.searchsorted(answered, (first, last + 1))
    return answered[start:stop]


Scored = tuple[Floats, Index]


def _best(before: Scored, more: Scored, keep: int) -> Scored:
    """The highest scores of both in each column, in no order."""
    scores = np.concatenate([before[0], more[0]])
    entries = np.concatenate([before[1], more[1]])
    if len(scores) <= keep:
        return scores, entries
    top = np.argpartition(-scores, keep - 1, axis=0)[:keep]
    return np.take_along_axis(scores, top, axis=0), np.take_along_axis(entries, top, axis=0)


def _ranked(
    scores: Floats, entries: Index, weights: npt.NDArray[np.integer] | None
) -> tuple[Index, Floats]:
    """All entries with a score, best first, ties in the order of the file; and what each counts."""
    order = np.lexsort((entries, -scores), axis=0)
    scores = np.take_along_axis(scores, order, axis=0)
    entries = np.take_along_axis(entries, order, axis=0)
    asked = scores >= 0
    if weights is not None:
        scores = scores / (weights + np.arange(len(scores))[:, None])
    entries, scores = entries[asked], scores[asked]
    ranked = np.lexsort((entries, -scores))
    return entries[ranked], scores[ranked]
