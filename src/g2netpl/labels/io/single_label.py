"""One class per image: its label says everything, and a second positive contradicts the first.

A photo with the name of its species says that all others are absent: the labels of a labelled image
are complete. If all classes but one are known to be absent, that one is positive.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from g2netpl.labels.io.issues import Issues
from g2netpl.labels.table import (
    NEGATIVE,
    POSITIVE,
    UNOBSERVED,
    LabelMatrix,
    LabelTable,
    per_class,
    per_image,
)
from g2netpl.utils.errors import listed

HINT = (
    "every labelled image has exactly one positive; if each shows one class, as a photo of one "
    "species does, say --single-label: then all other classes are known to be absent"
)
_ENOUGH = 20  # labelled images, so that it is no coincidence


def looks_single_label(labels: LabelMatrix) -> bool:
    """Whether every labelled image has exactly one positive."""
    positives = per_image(labels, POSITIVE)
    named = int((positives > 0).sum())
    return (
        named >= _ENOUGH
        and positives.max() == 1
        and (per_class(labels, POSITIVE) > 0).sum() >= 2
        and named == (per_image(labels) > 0).sum()
    )


def complete_single_labels(table: LabelTable, where: str | Path = "labels") -> LabelTable:
    """The table with all that one class per image implies; contradictions are issues."""
    values, issues, names = table.values.copy(), Issues(), np.array(table.classes, dtype=object)
    positives, negatives = (per_image(values, sign) for sign in (POSITIVE, NEGATIVE))
    for row in np.flatnonzero((positives > 1) | (negatives == values.shape[1])).tolist():
        found = list(map(repr, names[values[row] == POSITIVE]))
        has = f"has {len(found)} positives, {listed(found, 3)}" if found else "lacks all classes"
        message = f"image {table.images[row]!r} {has}; expected one class with --single-label: "
        message += "correct it or leave out --single-label"
        issues.add(str(where), "one class per image", message)
    issues.raise_any()
    lasts = np.flatnonzero((positives == 0) & (negatives == values.shape[1] - 1))
    values[lasts, (values[lasts] == UNOBSERVED).argmax(axis=1)] = POSITIVE
    values[(values == UNOBSERVED) & (positives == 1)[:, None]] = NEGATIVE
    return table.with_values(values)


def apply_answers(values: LabelMatrix, answers: Mapping[int, Mapping[int, int]]) -> LabelMatrix:
    """Labels (N, L) after people answered about some classes of some images.

    The class that somebody confirmed is the one; if the one was denied, the others are open.
    """
    values = values.copy()
    for row, said in answers.items():
        yes = [column for column, answer in said.items() if answer == POSITIVE]
        if yes:
            values[row] = NEGATIVE
            values[row, yes[-1]] = POSITIVE
        elif (values[row] == NEGATIVE).all():
            values[row] = UNOBSERVED
            values[row, list(said)] = NEGATIVE
    return values
