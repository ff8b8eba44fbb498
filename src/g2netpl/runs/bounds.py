"""Thresholds that hold a precision: per class where its labels bear that out, else pooled.

Of m labels proposed on validation h are right. The bound is what the precision exceeds with 90 %
confidence (Clopper and Pearson): the 10 % quantile of Beta(h, m − h + 1). A class has the lowest
threshold whose bound is the precision that is asked for. Where none is, as with few positives, the
class is pooled with all others of that kind: one threshold whose bound holds over their labels
together, so that the promise is kept on average over them, not by each. A class whose own labels
speak against the pooled threshold is never proposed. docs/how-to/thresholds.md has what came of it.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from g2netpl.labels.table import POSITIVE, UNOBSERVED

_DOUBT = 0.1  # 1 − confidence of a bound

Floats = npt.NDArray[np.float64]
Column = tuple[Floats, Floats]  # scores and labels, 1 or 0, of one class


def lower_bound(hits: npt.ArrayLike, chosen: npt.ArrayLike) -> Floats:
    """What the precision exceeds with 90 % confidence, where `hits` of `chosen` are right."""
    from scipy.special import betaincinv

    h, m = np.asarray(hits, dtype=np.float64), np.asarray(chosen, dtype=np.float64)
    bound: Floats = np.where(h > 0, betaincinv(np.maximum(h, 1.0), m - h + 1.0, _DOUBT), 0.0)
    return bound


def fewest_positives(target: float) -> int:
    """The fewest labels, all of them right, whose bound is the target."""
    return math.ceil(math.log(_DOUBT) / math.log(target))


def bounded_threshold(
    scores: npt.ArrayLike, labels: npt.ArrayLike, target: float
) -> tuple[float | None, float]:
    """The lowest threshold whose bound is at least `target`, if any; its bound, or the best."""
    ranked, hits, chosen = ranked_scores(scores, labels)
    bounds = lower_bound(hits, chosen)
    good = np.flatnonzero(bounds >= target)
    if not len(good):
        return None, float(bounds.max(initial=0.0))
    return halfway_down(ranked, int(good[-1])), float(bounds[good[-1]])


def bounded_thresholds(
    columns: Sequence[Column], target: float
) -> tuple[list[float | None], list[str]]:
    """A threshold for every class, None where it is never proposed, and what each rests on."""
    own = [bounded_threshold(*column, target) for column in columns]
    rest = [column for column, (limit, _) in zip(columns, own, strict=True) if limit is None]
    pooled, reached = (None, 0.0) if not rest else bounded_threshold(*joined(rest), target)
    limits: list[float | None] = []
    grounds: list[str] = []
    for (scores, labels), (limit, bound) in zip(columns, own, strict=True):
        positives, common = int(labels.sum()), limit is None
        limit = pooled if common else limit
        if limit is None:
            ground = f"never: best bound {bound:.2f} at {positives} positives"
            ground += f", {reached:.2f} pooled with {len(rest)} classes"
        else:
            hits, chosen = int(labels[scores >= limit].sum()), int((scores >= limit).sum())
            kind = f"pooled: {len(rest)} classes" if common else f"own bound: {bound:.2f}"
            ground = f"{kind}, {hits} of its {positives} positives found"
            if common and _refuted(hits, chosen, target):
                limit, ground = None, f"never: {hits} of {chosen} right where it was pooled"
        limits.append(limit)
        grounds.append(ground)
    return limits, grounds


def too_few(columns: Sequence[Column], target: float, limits: Sequence[float | None]) -> str:
    """What to do about classes that have no threshold for the target; "" if all have one."""
    never = [column for column, limit in zip(columns, limits, strict=True) if limit is None]
    if not never:
        return ""
    needed = fewest_positives(target)
    best = max(bounded_threshold(*column, 1.0)[1] for column in (*never, joined(never)))
    _, labels = max(never, key=lambda column: column[1].sum())
    there, photos = int(labels.sum()), "more photos"
    if 0 < there < needed:
        photos = f"at least {math.ceil(len(labels) * (needed - there) / there):,} photos more"
    return (
        f"{len(never)} of {len(columns)} classes get no positives: a bound of {target:.2g} takes "
        f"{needed} validation positives of a class or more, all of them right. The commonest of "
        f"them has {there}, and the best bound so far is {best:.2f}. Label {photos} in full, with "
        "g2netpl review --ask photos or for --validation-labels, or ask for less"
    )


def _refuted(hits: int, chosen: int, target: float) -> bool:
    """Whether the precision is below the target with 90 % confidence."""
    return bool(1.0 - lower_bound(chosen - hits, chosen) < target)


def known_columns(scores: npt.ArrayLike, truth: npt.NDArray[np.int8]) -> list[Column]:
    """Of every class the scores and labels that are known, from (N, L) each."""
    values, known = np.asarray(scores, dtype=np.float64), truth != UNOBSERVED
    return [
        (values[here, column], (truth[here, column] == POSITIVE).astype(np.float64))
        for column, here in enumerate(known.T)
    ]


def joined(columns: Sequence[Column]) -> Column:
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
