"""Query strategies: which labels to ask a person about, the most useful first.

useful        uncertain pseudo-label, u = 4p(1 − p), of a class with few positives: question number
              i about a class with n known positives scores u / (1 + n + i), so classes take turns
disagreement  |pseudo-label − prediction|
doubtful      observed labels that the network contradicts: |observed − prediction|
random        any unobserved label, as a control
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

from g2netpl.labels.table import LabelMatrix
from g2netpl.utils.arrays import Scores

Order = Literal["useful", "disagreement", "doubtful", "random"]

STRATEGIES: dict[Order, str] = {
    "useful": "uncertain, rare classes first",
    "disagreement": "pseudo-label and prediction differ",
    "doubtful": "observed labels that look wrong",
    "random": "any unobserved label, as a control",
}


def query_scores(
    order: Order,
    pseudo: Scores,
    predicted: Scores,
    observed: LabelMatrix,
    can_ask: npt.NDArray[np.bool_],
    positives: npt.NDArray[np.integer],
    seed: list[int],
) -> Scores:
    """Scores of labels (images × classes), the best highest; −1 where there is nothing to ask."""
    if order == "doubtful":
        scores = np.abs(observed - predicted)
    elif order == "disagreement":
        scores = np.abs(pseudo - predicted)
    elif order == "random":
        scores = np.random.default_rng(seed).random(pseudo.shape)
    else:
        scores = np.where(can_ask, 4 * pseudo * (1 - pseudo), np.float32(-1))
        place = np.argsort(np.argsort(-scores, axis=0, kind="stable"), axis=0)
        scores = scores / (1 + positives + place)
    return np.where(can_ask, scores, -1).astype(np.float32)
