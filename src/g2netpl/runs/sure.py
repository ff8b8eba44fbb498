"""Which labels are confident, by validation labels of both signs.

With `--confidence p`, at least p of the positives that are filled in are right, and of the
negatives too: each class has a threshold for either sign whose bound says so (`bounds`). A
negative must also be that likely by itself, since most labels are negative anyway.
"""

from dataclasses import dataclass, replace

import numpy as np

from g2netpl.labels.missingness import informative_rows
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelMatrix, per_image
from g2netpl.runs.bounds import bounded_thresholds, known_columns, too_few
from g2netpl.runs.tables import HeldOut
from g2netpl.runs.thresholds import Thresholds
from g2netpl.utils.arrays import Scores

_MOST = 0.95  # of the labels of a sign are taken to be observed at most


@dataclass(frozen=True)
class Sure:
    """From which chances on labels are filled in; `negative` compares 1 − chance."""

    positive: Thresholds
    negative: Thresholds
    least: float  # chance of a negative
    lack: str = ""  # which validation labels are too few for positives

    def decide(self, chances: Scores) -> LabelMatrix:
        """1 or 0 where a label is sure, −1 where it is not."""
        absent = 1 - chances
        values = np.full(chances.shape, UNOBSERVED, dtype=np.int8)
        values[self.negative.decide(absent) & (absent >= self.least)] = NEGATIVE
        values[self.positive.decide(chances)] = POSITIVE
        return values

    def __str__(self) -> str:
        return (
            f"sure by {self.positive.basis}, of {len(self.positive.per_class)} classes: "
            f"positives {self.positive.kinds}; negatives {self.negative.kinds}"
        )


def sure_by_validation(
    sure: float, thresholds: Thresholds, held_out: HeldOut | None, observed: LabelMatrix, k: float
) -> Sure | None:
    """Thresholds at which `sure` holds among the labels not observed; None without negatives."""
    if held_out is None or thresholds.by_draw:
        return None
    rows = informative_rows(held_out.truth, k, held_out.scores)
    if not len(rows):
        return None
    truth, chances = held_out.truth[rows], thresholds.calibrate(held_out.scores[rows])
    positive, negative = _observed_shares(observed, truth)
    odds = sure / (1 - sure) * (1 - negative) / (1 - positive)
    other = sure / (1 - sure) * max((1 - positive) / (1 - negative), 1.0)
    flipped = np.where(truth == UNOBSERVED, truth, 1 - truth).astype(np.int8)
    basis = f"{len(truth):,} validation images"
    found = []
    for scores, labels, share in ((chances, truth, odds), (1 - chances, flipped, other)):
        target = share / (1 + share)
        limits, grounds = bounded_thresholds(known_columns(scores, labels), target)
        one = replace(thresholds, per_class=tuple(limits), grounds=tuple(grounds), basis=basis)
        found.append(replace(one, rule=f"precision:{target:.3g}", single_label=False))
    lack = too_few(known_columns(chances, truth), odds / (1 + odds), found[0].per_class)
    return Sure(found[0], found[1], sure, lack)


def _observed_shares(observed: LabelMatrix, truth: LabelMatrix) -> tuple[float, float]:
    """Which shares of all positives and of all negatives are known on images with unknown ones."""
    rows = per_image(observed) < observed.shape[1]
    known = np.maximum((truth != UNOBSERVED).sum(axis=0), 1)
    shares = []
    for sign in (POSITIVE, NEGATIVE):
        there = rows.sum() * ((truth == sign).sum(axis=0) / known).sum()
        shares.append(min(float(per_image(observed, sign)[rows].sum() / max(there, 1e-9)), _MOST))
    return shares[0], shares[1]
