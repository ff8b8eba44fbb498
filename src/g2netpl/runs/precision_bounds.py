"""Thresholds with a guaranteed precision, by fixed-sequence testing (Learn then Test).

If h of the m labels at or above a threshold are right, the precision exceeds the p-quantile of
Beta(h, m − h + 1) with confidence 1 − p (Clopper and Pearson). Taking the best of many thresholds
would break that confidence. So thresholds are tested from the highest down, in steps that depend
on no label, and the search stops at the first that fails; the lowest that passed is taken. Two
such searches, each at 95 %, begin at the fewest labels with no error and with four errors.
Together: the true precision of a class's own threshold is below the target for at most 10 % of
all classes.

Classes without such a threshold, mostly for want of positives, are pooled: they share a threshold
that is found in the same way over their labels together, so the guarantee holds for their labels
together, not for each. A class whose labels contradict the pooled threshold gets none.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv
from scipy.stats import nbinom

from g2netpl.labels.table import POSITIVE, UNOBSERVED

FAILURE_RATE = 0.1  # thresholds whose true precision is below the target, at most
_STARTS = (0, 4)  # errors allowed in the first test of each search
_SHARE = FAILURE_RATE / len(_STARTS)
_GROWTH = 1.1  # of the errors allowed, from test to test

Floats = npt.NDArray[np.float64]
Column = tuple[Floats, Floats]  # scores and labels, 1 or 0, of one class


def lower_bound(hits: npt.ArrayLike, chosen: npt.ArrayLike, rate: float = _SHARE) -> Floats:
    """What the precision is below with probability `rate`, if `hits` of `chosen` are right."""
    h, m = np.asarray(hits, dtype=np.float64), np.asarray(chosen, dtype=np.float64)
    bound: Floats = np.where(h > 0, betaincinv(np.maximum(h, 1.0), m - h + 1.0, rate), 0.0)
    return bound


def fewest_labels(target: float, errors: npt.ArrayLike = 0) -> npt.NDArray[np.int64]:
    """The fewest labels whose bound reaches the target with so many errors among them."""
    wrong = np.asarray(errors)
    right = nbinom.isf(_SHARE, wrong + 1, 1.0 - target) + 1  # before one error more
    return np.asarray(right + wrong, dtype=np.int64)


def guaranteed_threshold(
    scores: npt.ArrayLike, labels: npt.ArrayLike, target: float
) -> tuple[float | None, float]:
    """A threshold whose precision is at least `target`, if one is found; its bound, or the best."""
    ranked, hits, chosen = ranked_scores(scores, labels)
    bounds = lower_bound(hits, chosen)
    lowest = -1
    if len(ranked):
        steps = np.arange(math.log(max(chosen[-1], 2)) / math.log(_GROWTH) + 1)
        errors = np.union1d(_STARTS, np.round(_GROWTH**steps))
        tested = np.searchsorted(chosen, fewest_labels(target, errors))
        for start in _STARTS:
            places = tested[errors >= start]
            places = places[places < len(ranked)]
            failed = np.flatnonzero(bounds[places] < target)
            passed = places[: failed[0]] if len(failed) else places
            lowest = max([lowest, *passed])
    if lowest < 0:
        return None, float(bounds.max(initial=0.0))
    return halfway_down(ranked, lowest), float(bounds[lowest])


def guaranteed_thresholds(
    columns: Sequence[Column], target: float
) -> tuple[list[float | None], list[str]]:
    """A threshold for every class, None if it is never proposed, and the reason for each."""
    own = [guaranteed_threshold(*column, target) for column in columns]
    rest = [column for column, (limit, _) in zip(columns, own, strict=True) if limit is None]
    pooled, reached = (None, 0.0) if not rest else guaranteed_threshold(*pool(rest), target)
    limits: list[float | None] = []
    reasons: list[str] = []
    for (scores, labels), (limit, bound) in zip(columns, own, strict=True):
        positives, is_pooled = int(labels.sum()), limit is None
        limit = pooled if is_pooled else limit
        if limit is None:
            reason = f"never: best bound {bound:.2f} at {positives} positives"
            reason += f", {reached:.2f} pooled with {len(rest)} classes"
        else:
            hits, chosen = int(labels[scores >= limit].sum()), int((scores >= limit).sum())
            kind = f"pooled: {len(rest)} classes" if is_pooled else f"own bound: {bound:.2f}"
            reason = f"{kind}, {hits} of its {positives} positives found"
            if is_pooled and 1.0 - lower_bound(chosen - hits, chosen, FAILURE_RATE) < target:
                limit, reason = None, f"never: {hits} of {chosen} correct at the pooled threshold"
        limits.append(limit)
        reasons.append(reason)
    return limits, reasons


def missing_labels(limits: Sequence[float | None], target: float) -> str:
    """What to do about classes without a threshold for the target; "" if all have one."""
    never = sum(limit is None for limit in limits)
    if not never:
        return ""
    return (
        f"{never} of {len(limits)} classes get no positives: precision {target:.2g} needs "
        f"at least {int(fewest_labels(target))} validation positives per class, all of them right. "
        "Label more photos completely with g2netpl review --ask photos, or lower the precision"
    )


def known_columns(scores: npt.ArrayLike, truth: npt.NDArray[np.int8]) -> list[Column]:
    """The scores and labels of every class that are known, from (N, L) each."""
    values, known = np.asarray(scores, dtype=np.float64), truth != UNOBSERVED
    return [
        (values[rows, column], (truth[rows, column] == POSITIVE).astype(np.float64))
        for column, rows in enumerate(known.T)
    ]


def pool(columns: Sequence[Column]) -> Column:
    """All labels of some classes as one."""
    scores, labels = zip(*columns, strict=True)
    return np.concatenate(scores), np.concatenate(labels)


def ranked_scores(scores: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Distinct scores, downwards, with the positives and the labels at or above each."""
    values, positive = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    order = np.argsort(-values, kind="stable")
    ranked = values[order]
    ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True)) if len(ranked) else order
    return ranked[ends], np.cumsum(positive[order])[ends], (ends + 1).astype(np.float64)


def halfway_down(ranked: Sequence[float] | Floats, position: int) -> float:
    """Halfway to the next lower score: new images have scores of their own."""
    lower = ranked[position + 1] if position + 1 < len(ranked) else ranked[position]
    return float((ranked[position] + lower) / 2)
