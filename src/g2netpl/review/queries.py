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

from g2netpl.labels.table import LabelMatrix
from g2netpl.utils.arrays import Scores

Order = Literal["useful", "disagreement", "doubtful", "random"]


class QueryStrategy(NamedTuple):
    """How to score labels; the highest score comes first."""

    summary: str
    function: Callable[..., Any]  # of pseudo-labels, predictions, observed values, a generator
    asks_observed: bool = False  # about observed labels, not about unobserved ones
    balances_classes: bool = False  # classes with many positives wait

    def score(
        self,
        pseudo: Scores,
        predicted: Scores,
        observed: LabelMatrix,
        can_ask: npt.NDArray[np.bool_],
        positives: npt.NDArray[np.integer],
        seed: list[int],
    ) -> Scores:
        """Scores of labels (images × classes); −1 where there is nothing to ask."""
        random = np.random.default_rng(seed)
        scores = np.asarray(self.function(pseudo, predicted, observed, random), dtype=np.float32)
        scores = np.where(can_ask, scores, np.float32(-1))
        if self.balances_classes:
            place = np.argsort(np.argsort(-scores, axis=0, kind="stable"), axis=0)
            scores = np.where(can_ask, scores / (1 + positives + place), -1).astype(np.float32)
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
        "any unobserved label, as a control", lambda u, p, o, random: random.random(u.shape)
    ),
}
