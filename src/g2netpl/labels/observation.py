"""How labels came to be known, as far as the labels themselves tell.

draw      what was named is drawn from what is in the image: tags, one class per folder, one positive
random    every label was looked at by chance, and its sign written down
complete  everything about an image is known
"""

from typing import Literal

from g2netpl.labels.counts import from_both_signs, from_complete
from g2netpl.labels.entries import Labels, per_class
from g2netpl.labels.table import NEGATIVE, POSITIVE

Observation = Literal["draw", "random", "complete"]


def look(labels: Labels) -> tuple[Observation, str]:
    """Which of them these labels look like, and why."""
    positives = int(per_class(labels, POSITIVE).sum())
    negatives = int(per_class(labels, NEGATIVE).sum())
    if labels.shape[1] < 2:
        return "random", "there is one class"
    if not negatives:
        return "draw", "there are positives alone"
    if from_complete(labels) is not None and negatives + positives == labels.shape[0] * labels.shape[1]:
        return "complete", "everything is known"
    if from_both_signs(labels) is not None and negatives >= positives:
        return "random", "both signs are missing at random"
    return "draw", "positives are known more often than negatives"
