"""How labels came to be known, as far as the labels themselves tell.

draw      what was named is drawn from what is in the image: tags, one positive per image
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
    images, classes = labels.shape
    if classes < 2:
        return "random", "there is one class"
    if not negatives:
        return "draw", "there are positives alone"
    if positives + negatives == images * classes:
        return "complete", "everything is known"
    at_random = from_complete(labels) is not None or from_both_signs(labels) is not None
    if at_random and negatives >= positives:
        return "random", "labels of both signs are missing at random"
    return "draw", "positives are known more often than negatives"
