"""Fill in unknown labels: of anyone's scores (`complete`), or of a training run (`complete_run`).

A training image of a run has pseudo-labels, if the method has any; every other image has
predictions. Both are calibrated and decided by thresholds (`thresholds`). Validation labels only
show how good predictions are, so if a precision is guaranteed, predictions decide everywhere.
Without validation labels a pseudo-label that reached 1 early may be wrong, and so may a
prediction: a label of a training image is confident only if both are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from g2netpl.labels.io.writing import write_columns
from g2netpl.labels.missingness import from_both_signs, from_complete
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelMatrix, LabelTable
from g2netpl.runs.classifier import to_frame
from g2netpl.runs.run import Run
from g2netpl.runs.thresholds import (
    ConfidentThresholds,
    Thresholds,
    argmax_mask,
    choose,
    confident_thresholds,
)
from g2netpl.utils.arrays import Scores
from g2netpl.utils.errors import InputError, counted, listed

TOO_OFTEN = 0.9  # of the images: a class that is on more of them gets a note
SOURCES = ("observed", "soft", "predicted", "unreadable")
_LEVELS = (0.5, 0.7, 0.9)  # probabilities, of the table of choices
_NAMED = 20  # classes without an added tag
_ROWS = 1000  # images that are written at a time
_NO_GUARANTEE = (
    "Precision is not guaranteed: no validation labels with negatives. Retrain with "
    "--validation-labels."
)


@dataclass(frozen=True)
class Completed:
    """A label table with its unknown labels filled in."""

    observed: LabelTable
    values: LabelMatrix  # (N, L): 1 or 0, −1 if left unknown
    scores: Scores  # (N, L): probability of being positive; NaN if the image could not be read
    sources: npt.NDArray[np.int8]  # (N, L): position in SOURCES
    confident: ConfidentThresholds | None = None  # if only confident labels are filled in
    how: str = ""  # how labels were decided, for people
    missing: str = ""  # which validation labels are too few for a precision, for people

    @property
    def table(self) -> LabelTable:
        """As a label table."""
        return self.observed.with_values(self.values)

    def as_frame(self) -> pd.DataFrame:
        """The labels as a data frame: 1, 0, or missing if left unknown."""
        return to_frame(self.values, self.observed.images, self.observed.classes)

    def added(self) -> npt.NDArray[np.bool_]:
        """Labels that were unknown and are positive now."""
        unknown = self.observed.values == UNOBSERVED
        return np.asarray(unknown & (self.values == POSITIVE))

    def as_tags(self, reviewed: LabelTable) -> tuple[LabelTable, npt.NDArray[np.bool_]]:
        """The labels of people, also later ones, and added positives; which of them were added.

        Added negatives are left out: only people remove a tag.
        """
        known, positive = reviewed.values != UNOBSERVED, self.values == POSITIVE
        added = np.where(positive, POSITIVE, UNOBSERVED)
        return reviewed.with_values(np.where(known, reviewed.values, added)), positive & ~known

    def __str__(self) -> str:
        counts = np.bincount(self.sources.ravel(), minlength=len(SOURCES))
        names = (*SOURCES[:-1], "in unreadable images")  # labels, not images
        shown = [f"{count:,} {name}" for name, count in zip(names, counts, strict=True) if count]
        unknown = int((self.values == UNOBSERVED).sum())
        return (
            f"{counted(len(self.observed), 'image')} × "
            f"{counted(len(self.observed.classes), 'class')}: {', '.join(shown)}\n"
            f"{int(self.added().sum()):,} new positives, "
            f"{(self.values == POSITIVE).sum() / max(len(self.values), 1):.2f} positives per image"
            + (f"; {unknown:,} labels left unknown" if unknown else "")
            + ("" if self.confident is None else f"\n{self.confident}")
            + f"\n{self.choices()}"
            + "".join(f"\nnote: {line}" for line in self.notes())
            + (f"\n{self.how}" if self.how else "")
        )

    def choices(self) -> str:
        """How many unknown labels have which probability, and the precision to expect."""
        scores = self.scores[self.observed.values == UNOBSERVED]
        lines = ["probability   tags   expected precision"]
        for level in _LEVELS:
            likely = scores[scores >= level]
            expected = f"{likely.mean():.1%}" if len(likely) else "-"
            lines.append(f"      ≥ {level:.1f} {len(likely):6,} {expected:>20}")
        lines.append("g2netpl complete --confidence P adds only confident labels")
        return "\n".join(lines)

    def notes(self) -> list[str]:
        """Lines about missing validation labels, and classes without an added tag or with many."""
        now, added, classes = self.values == POSITIVE, self.added(), self.observed.classes
        never = [repr(classes[column]) for column in np.flatnonzero(~added.any(axis=0))]
        lines = [self.missing] if self.missing else []
        if never:
            names = listed(never, _NAMED)
            lines.append(f"{len(never)} of {len(classes)} classes got no new tag: {names}")
        fraction = now.mean(axis=0) if len(now) else np.zeros(len(classes))
        return lines + [
            f"{classes[column]!r} is on {fraction[column]:.0%} of the images now; if that is "
            "wrong, give k: g2netpl train --expected-positives, or answer questions: g2netpl review"
            for column in np.flatnonzero((fraction > TOO_OFTEN) & added.any(axis=0))
        ]


def choose_thresholds(
    labels: Any, scores: Any, rule: str = "f1", *, expected_positives: float | None = None
) -> Thresholds:
    """Calibrate anyone's scores and choose a threshold per class.

    `labels` are 1, 0, and −1 or NaN if unknown; `scores` are in [0, 1] and come from a model that
    was not trained on these labels. Both are arrays or data frames (images × classes); labels may
    be a `LabelTable`. `rule` is "f1", "precision:0.9" or "expected". Without negatives among the
    labels, thresholds are set so that `expected_positives` per image are proposed (default: the sum
    of the scores).
    """
    table, values = _aligned(labels, scores)
    k = expected_positives or _expected(table.values, values)
    return choose(rule, (values[table.labelled], table.values[table.labelled]), values, k)


def complete(
    labels: Any,
    scores: Any,
    *,
    confidence: float | None = None,
    rule: str = "f1",
    expected_positives: float | None = None,
) -> Completed:
    """Fill in the unknown labels by anyone's scores; see `choose_thresholds` for what is given.

    With `confidence`, only so many that this fraction of the added labels is right.
    """
    check_confidence(confidence)
    table, values = _aligned(labels, scores)
    k = expected_positives or _expected(table.values, values)
    validation = values[table.labelled], table.values[table.labelled]
    thresholds = choose(rule, validation, values, k)
    by = confident_thresholds(confidence, thresholds, validation, table.values, k)
    no_pseudo_labels = np.zeros(len(table), dtype=bool)
    return _complete(table, no_pseudo_labels, values, values, thresholds, k, by, confidence)


def complete_run(run: Run, confidence: float | None = None) -> Completed:
    """Fill in the unknown labels of a run; with `confidence`, only confident ones."""
    observed, how = run.observed(), (run.thresholds, run.expected_positives)
    by = confident_of_run(run, confidence, observed.values)
    scores = run.labels.has_soft, run.soft_labels(), run.predictions()
    return _complete(observed, *scores, *how, by, confidence)


def _complete(
    observed: LabelTable,
    soft: npt.NDArray[np.bool_],
    raw: Scores,
    predicted: Scores,
    thresholds: Thresholds,
    k: float,
    by: ConfidentThresholds | None,
    confidence: float | None,
) -> Completed:
    if by is not None or thresholds.overrides_pseudo_labels:
        soft, raw = np.zeros_like(soft), predicted
    if by is not None and confidence is None:  # a higher precision, for what is left unknown
        thresholds = by.positive.replace(rule=f"{thresholds.rule} of what is added")
    level = None if confidence is None else by or confidence
    completed = fill_in(observed, soft, raw, thresholds, k, level, predicted)
    if confidence is None:
        how = _how_decided(thresholds, k, soft)
    else:
        how = _NO_GUARANTEE if by is None else ""
    return replace(completed, how=how, missing="" if by is None else by.missing)


def thresholds_of_unknown(run: Run, observed: LabelMatrix) -> Thresholds:
    """What decides unobserved labels: a guaranteed precision holds among them."""
    by = confident_of_run(run, None, observed)
    return run.thresholds if by is None else by.positive


def confident_of_run(
    run: Run, confidence: float | None, observed: LabelMatrix
) -> ConfidentThresholds | None:
    """From which probabilities unobserved labels are confident, by validation labels."""
    if confidence is None and not run.thresholds.is_guaranteed:
        return None
    part = run.held_out.get("validation")
    validation = None if part is None else (part.scores, part.truth)
    how = (run.thresholds, validation, observed, run.expected_positives)
    return confident_thresholds(confidence, *how)


def completed_by_pseudo_labels(run: Run) -> Completed:
    """The labels of a run, filled in by pseudo-labels wherever there are any."""
    parts = (run.observed(), run.labels.has_soft, run.soft_labels())
    return fill_in(*parts, run.thresholds, run.expected_positives)


def fill_in(
    observed: LabelTable,
    soft: npt.NDArray[np.bool_],
    raw: Scores,
    thresholds: Thresholds,
    k: float,
    confidence: float | ConfidentThresholds | None = None,
    predicted: Scores | None = None,
) -> Completed:
    """Fill in labels by pseudo-labels of the images that have them (`soft`), else predictions.

    `raw` has either; `predicted` has the predictions of all images. If `confidence` is a number, a
    label needs that probability, by both.
    """
    scores = thresholds.calibrate(raw)
    decided = thresholds.decide(scores)
    if soft.any():
        by_k = choose("expected", None, raw[soft], k)
        scores[soft] = by_k.calibrate(raw[soft])
        decided[soft] = by_k.decide(scores[soft])
    known = observed.values != UNOBSERVED
    scores = np.where(known, observed.values, scores).astype(np.float32)
    if thresholds.single_label:
        decided = thresholds.decide(scores)
    values = decided.astype(np.int8)
    if isinstance(confidence, ConfidentThresholds):
        values = confidence.decide(scores)
    elif confidence is not None:
        least = most = scores
        if predicted is not None and soft.any():
            other = thresholds.calibrate(predicted)
            least, most = np.minimum(scores, other), np.maximum(scores, other)
        if thresholds.is_sampled:  # absent even with twice as many positives to expect
            most = 1 - (1 - most) ** 2
        values = np.where(least >= confidence, POSITIVE, UNOBSERVED).astype(np.int8)
        values[most <= 1 - confidence] = NEGATIVE
    if thresholds.single_label:
        values = keep_one(values, scores)
    values[np.isnan(scores)] = UNOBSERVED
    values = np.where(known, observed.values, values).astype(np.int8)
    sources = np.select([known, np.isnan(scores), soft[:, None]], [0, 3, 1], 2)
    by = confidence if isinstance(confidence, ConfidentThresholds) else None
    return Completed(observed, values, scores, sources.astype(np.int8), by)


def keep_one(values: LabelMatrix, scores: npt.ArrayLike) -> LabelMatrix:
    """Labels (N, L) with at most one positive per image, the most probable; the others are 0."""
    best = argmax_mask(scores)
    decided = (best & (values == POSITIVE)).any(axis=1, keepdims=True)
    others = np.where(decided, NEGATIVE, np.where(values == POSITIVE, UNOBSERVED, values))
    return np.where(best & decided, POSITIVE, others).astype(np.int8)


def write_completed(completed: Completed, path: str | Path) -> None:
    """A row per image and class: value, score, source."""
    observed, names = completed.observed, np.array(SOURCES, dtype=object)
    kinds = {"image": "text", "class": "text", "value": "int", "score": "float", "source": "text"}

    def rows() -> Iterator[dict[str, Any]]:
        for start in range(0, len(observed), _ROWS):
            part = slice(start, start + _ROWS)
            values, images = completed.values[part].ravel(), observed.images[part]
            yield {
                "image": [image for image in images for _ in observed.classes],
                "class": list(observed.classes) * len(images),
                "value": np.ma.masked_array(values, values == UNOBSERVED),
                "score": completed.scores[part].ravel().round(4),
                "source": names[completed.sources[part].ravel()].tolist(),
            }

    write_columns(Path(path), kinds, rows())


def _how_decided(thresholds: Thresholds, k: float, soft: npt.NDArray[np.bool_]) -> str:
    """How every label is decided, in a line."""
    if not soft.any():
        return f"every label is decided by {thresholds}"
    how = (
        f"{counted(int(soft.sum()), 'training image')}: pseudo-labels decide, so that "
        f"k = {k:.2f} positives per image are expected"
    )
    others = int((~soft).sum())
    return how if not others else f"{how}; {others:,} held out: the network, by {thresholds}"


def check_confidence(level: float | None, name: str = "confidence") -> None:
    """Reject what is no precision to ask for."""
    if level is not None and not 0.5 <= level < 1:
        raise InputError(f"{name}: must be at least 0.5 and less than 1, got {level:g}")


def _aligned(labels: Any, scores: Any) -> tuple[LabelTable, Scores]:
    """Labels and scores (N, L) of the same images and classes, by name in data frames."""
    if isinstance(labels, LabelTable):
        labels = pd.DataFrame(labels.values, index=labels.images, columns=labels.classes)
    given = pd.DataFrame(labels)
    if isinstance(scores, pd.DataFrame) and isinstance(labels, pd.DataFrame):
        names = ("class", given.columns, scores.columns), ("image", given.index, scores.index)
        for what, wanted, known in names:
            absent = wanted.difference(known)
            if len(absent):
                raise InputError(f"scores: no score for {what} {absent[0]!r}")
        scores = scores.loc[given.index, given.columns]
    found = np.array(scores, dtype=np.float32)  # a copy, which the next lines change
    if found.shape != given.shape:
        raise InputError(f"scores: expected shape {given.shape} as the labels, got {found.shape}")
    if not (np.isnan(found) | ((found >= 0) & (found <= 1))).all():
        raise InputError("scores: expected numbers from 0 to 1, or NaN")
    found[np.isnan(found).any(axis=1)] = np.nan
    values = given.to_numpy(dtype=np.float64, na_value=np.nan)
    values = np.where(np.isnan(values), UNOBSERVED, values)
    images, classes = map(str, given.index), map(str, given.columns)
    return LabelTable(tuple(images), tuple(classes), values), found


def _expected(labels: LabelMatrix, scores: Scores) -> float:
    """k by images whose labels are all known or missing at random, else by the scores."""
    by_labels = from_complete(labels) or from_both_signs(labels)
    return by_labels or max(float(np.nansum(scores) / max(len(scores), 1)), 1e-9)
