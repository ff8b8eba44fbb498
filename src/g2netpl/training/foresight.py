"""What the validation labels cannot bear out, told before the first epoch."""

import numpy as np

from g2netpl.labels.missingness import informative_rows
from g2netpl.labels.table import POSITIVE, LabelTable, per_class
from g2netpl.runs.bounds import fewest_positives
from g2netpl.runs.thresholds import parse_rule
from g2netpl.utils.errors import listed

_NAMED = 5  # classes that are told by name


def foresee(rule: str, validation: LabelTable | None, k: float, is_sampled: bool) -> str:
    """Which classes a precision can be promised for, and what the others need; "" for F1 and k.

    `is_sampled`: scores are calibrated by tags only (annotation sampled).
    """
    name, target = parse_rule(rule)
    if name != "precision":
        return ""
    needed = fewest_positives(target)
    if validation is None or not len(rows := informative_rows(validation.values, k)):
        which = "no images are held out with" if validation is None else "validation has no"
        instead = f"a label is proposed at a chance of {target:g}, by the softmax"
        if not is_sampled:
            instead = "labels are decided so that k per image come out"
        return (
            f"thresholds {rule}: cannot be promised, since {which} labels of both signs, complete "
            f"or missing at random, to hold it against; {instead}. To have the promise: "
            f"--validation-labels with all labels of some images, {needed} positives of a class or "
            "more"
        )
    positives = per_class(validation.values[rows], POSITIVE)
    few, classes = np.flatnonzero(positives < needed), len(validation.classes)
    told = (
        f"thresholds {rule}: {classes - len(few)} of {classes} classes have the {needed} "
        "validation positives or more that a bound of their own takes"
    )
    if not len(few):
        return told
    together = int(positives[few].sum())
    fate = "will be pooled, which keeps the promise on average over them"
    if together < needed:
        fate = f"will never be proposed, having {together} together"
    fewest = few[np.argsort(positives[few], kind="stable")]
    named = listed((f"{validation.classes[each]!r} ({positives[each]})" for each in fewest), _NAMED)
    return (
        f"{told}; {len(few)} have fewer, {named}: they {fate}. To have all by their own "
        f"bound, label more for --validation-labels, {needed} positives of each class or more"
    )
