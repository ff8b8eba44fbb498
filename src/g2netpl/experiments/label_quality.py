"""Soft labels and predictions of the training images, held against the truth that was hidden.

For experiments only: methods never see any of this.
"""

from typing import Any

import numpy as np
from typing_extensions import TypedDict

from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelMatrix
from g2netpl.runs.metrics import ranked_map
from g2netpl.utils.arrays import Scores

Record = dict[str, Any]
_QUARTILES = (0.25, 0.5, 0.75)


class Movement(TypedDict):
    """What was seen of the labels after an epoch."""

    positive: list[float]
    negative: list[float]
    predicted_positive: list[float]
    predicted_negative: list[float]
    pseudo_label_map: float | None
    predicted_map: float | None


def watch_labels(
    soft: Scores, predicted: Scores, known: LabelMatrix, visible: LabelMatrix
) -> Record:
    """One epoch: quartiles of û and ŷ of the hidden positives and negatives, and their mAP."""
    hidden = np.where(visible == UNOBSERVED, known, UNOBSERVED).astype(np.int8)
    record: Record = {}
    for name, value in (("positive", POSITIVE), ("negative", NEGATIVE)):
        record[name] = _bands(soft[hidden == value])
        record[f"predicted_{name}"] = _bands(predicted[hidden == value])
    record["pseudo_label_map"] = ranked_map(soft, hidden)
    record["predicted_map"] = ranked_map(predicted, hidden)
    return record


def _bands(values: Scores) -> list[float]:
    return [float(q) for q in np.quantile(values, _QUARTILES)] if len(values) else [0.0] * 3
