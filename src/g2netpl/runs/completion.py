"""What a run says about labels that nobody observed, as tables for people and programs.

A training image has pseudo-labels, if the method has any, every other image predictions. Both are
calibrated, and decided by thresholds (`thresholds`); pseudo-labels always so that k positives per
image come out, since there are none for the validation images. What validation says is said of
predictions: where a precision was promised, they decide alone, and so they do of what is sure
(`sure`). Without such labels a pseudo-label that ran to 1 early may be wrong, and so may a
prediction: a training image's label is sure only if both are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from g2netpl.labels.files import Files, ensure_local, named
from g2netpl.labels.io import (
    USUAL,
    ReadOptions,
    find_format,
    read_labels,
    read_matching,
)
from g2netpl.labels.io.cells import MARKS
from g2netpl.labels.io.columns import ADDED, IMAGE_HEADERS
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.text import beginning, read_text
from g2netpl.labels.io.writing import write_columns
from g2netpl.labels.names import match_known, normalize_name
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelMatrix, LabelTable
from g2netpl.runs.classifier import OnBatch, frame_of
from g2netpl.runs.run import Run
from g2netpl.runs.single_label import one_each
from g2netpl.runs.sure import Sure, sure_by_validation
from g2netpl.runs.thresholds import Thresholds, choose, parse_rule
from g2netpl.utils.arrays import Scores
from g2netpl.utils.errors import InputError, counted

TOO_OFTEN = 0.9  # of the images: a class that is on more of them is told
SOURCES = ("observed", "soft", "predicted", "unreadable")
Columns = dict[str, Any]  # of some rows; fractions as arrays, NaN where there is none


@dataclass(frozen=True)
class Completed:
    """The label table of a run with its unknown labels filled in."""

    observed: LabelTable
    values: LabelMatrix  # (N, L): 1 or 0, −1 where left unknown
    scores: Scores  # (N, L): chance of being positive; NaN where the image could not be read
    sources: npt.NDArray[np.int8]  # (N, L): position in SOURCES
    sure: Sure | None = None  # by which labels are filled in, or left unknown
    how: str = ""  # by what every label was decided, for people
    lack: str = ""  # which validation labels are too few for a precision, for people

    @property
    def table(self) -> LabelTable:
        """As a label table."""
        return self.observed.with_values(self.values)

    def as_frame(self) -> Any:
        """The labels as a data frame of pandas: 1, 0, or missing where left unknown."""
        return frame_of(self.values, self.observed.images, self.observed.classes)

    def proposed(self) -> npt.NDArray[np.bool_]:
        """Labels that nobody observed and that are now positive."""
        new: npt.NDArray[np.bool_] = (self.observed.values == UNOBSERVED) & (
            self.values == POSITIVE
        )
        return new

    def as_tags(self, reviewed: LabelTable) -> tuple[LabelTable, npt.NDArray[np.bool_]]:
        """What people said, also since, and positives that were filled in; which of them those are.

        Negatives that were filled in are left unknown: only people may say no to a tag.
        """
        known, positive = reviewed.values != UNOBSERVED, self.values == POSITIVE
        filled_in = np.where(positive, POSITIVE, UNOBSERVED)
        return reviewed.with_values(np.where(known, reviewed.values, filled_in)), positive & ~known

    def __str__(self) -> str:
        counts = np.bincount(self.sources.ravel(), minlength=len(SOURCES))
        shown = [f"{count:,} {name}" for name, count in zip(SOURCES, counts, strict=True) if count]
        unknown = int((self.values == UNOBSERVED).sum())
        return (
            f"{len(self.observed):,} images × {len(self.observed.classes)} classes: "
            f"{', '.join(shown)}\n{int(self.proposed().sum()):,} new positives, "
            f"{(self.values == POSITIVE).sum() / max(len(self.values), 1):.2f} positives per image"
            + (f"; {unknown:,} labels left unknown" if unknown else "")
            + ("" if self.sure is None else f"\n{self.sure}")
            + "".join(f"\nnote: {line}" for line in self.too_often())
        )

    def too_often(self) -> list[str]:
        """Lines about classes that are now on nearly every image, though few were named there."""
        now, named = self.values == POSITIVE, self.observed.values == POSITIVE
        share = now.mean(axis=0) if len(now) else np.zeros(len(self.observed.classes))
        new = (now & ~named).any(axis=0)
        return [
            f"{self.observed.classes[column]!r} is on {share[column]:.0%} of the images now; if "
            "that is not so, tell k with --expected-positives, or answer questions: g2netpl review"
            for column in np.flatnonzero((share > TOO_OFTEN) & new)
        ]


def complete(run: Run, sure: float | None = None) -> Completed:
    """Fill in every unknown label; with `sure`, only so many that this share of them is right."""
    soft, raw, predicted = run.has_soft_labels(), run.soft_labels(), run.predictions()
    observed, thresholds = run.observed(), run.thresholds
    by = _asked_of_unknown(run, sure, observed.values)
    if by is not None and sure is None:
        thresholds = by.positive
    if thresholds.by_network or by is not None:
        soft, raw = np.zeros_like(soft), predicted
    parts = (observed, soft, raw, thresholds, run.expected_positives)
    completed = fill_in(*parts, by if sure is not None and by is not None else sure, predicted)
    how = _how_decided(run, thresholds, soft) if sure is None else ""
    return replace(completed, how=how, lack="" if by is None else by.lack)


def thresholds_of_unknown(run: Run, observed: LabelMatrix) -> Thresholds:
    """What decides labels that are not observed: a precision that was promised holds among them."""
    by = _asked_of_unknown(run, None, observed)
    return run.thresholds if by is None else by.positive


def sure_of_unknown(run: Run, sure: float, observed: LabelMatrix) -> Sure | None:
    """From which chances on labels that are not observed are sure, if validation can tell."""
    held_out = run.held_out.get("validation")
    return sure_by_validation(sure, run.thresholds, held_out, observed, run.expected_positives)


def _asked_of_unknown(run: Run, sure: float | None, observed: LabelMatrix) -> Sure | None:
    """The same of what is asked for, now or by the rule of the run; None where that is nothing."""
    if sure is None and run.thresholds.is_bounded:
        sure = parse_rule(run.thresholds.rule)[1]
    return None if sure is None else sure_of_unknown(run, sure, observed)


def _how_decided(run: Run, thresholds: Thresholds, soft: npt.NDArray[np.bool_]) -> str:
    """By what every label is decided, in a line."""
    by_k = f"so that about k = {run.expected_positives:.2f} positives per image come out"
    if thresholds.single_label:
        return "every image has its likeliest class"
    if thresholds.by_draw:
        rule = thresholds.rule
        if rule.startswith("precision:"):
            rule = f"there at a chance of {parse_rule(rule)[1]:g} or more"
        return f"every label is decided: {rule}, or absent"
    if thresholds.is_bounded:  # perhaps by more than was asked for, for what is left unknown
        asked = replace(thresholds, rule=f"{run.thresholds.rule} of what is added")
        return f"every label is decided by {asked}"
    if not soft.any():
        return f"every label is decided by {thresholds}"
    if soft.all() or thresholds.rule == "expected":
        return f"every label is decided, {by_k}"
    return (
        f"of {counted(int(soft.sum()), 'image')} trained on the soft labels decide, {by_k}; of "
        f"{int((~soft).sum()):,} held out the network, by {thresholds}"
    )


def by_soft_labels(run: Run) -> Completed:
    """The same by the soft labels alone, where images have them, whoever decides in the end."""
    parts = (run.observed(), run.has_soft_labels(), run.soft_labels())
    return fill_in(*parts, run.thresholds, run.expected_positives)


def fill_in(
    observed: LabelTable,
    soft: npt.NDArray[np.bool_],
    raw: Scores,
    thresholds: Thresholds,
    k: float,
    sure: float | Sure | None = None,
    predicted: Scores | None = None,
) -> Completed:
    """The same from the parts: soft labels or predictions `raw`, and which images have `soft`.

    `predicted`, of all images, is what the network says; without it soft labels stand alone.
    A number in `sure` is compared with chances.
    """
    scores = np.empty_like(raw)
    decided = np.zeros(raw.shape, dtype=bool)
    scores[~soft] = thresholds.calibrate(raw[~soft])
    decided[~soft] = thresholds.decide(scores[~soft])
    if soft.any():
        by_k = choose("expected", None, raw[soft], k)
        scores[soft] = by_k.calibrate(raw[soft])
        decided[soft] = by_k.decide(scores[soft])
    known = observed.values != UNOBSERVED
    scores = np.where(known, observed.values, scores).astype(np.float32)
    if thresholds.single_label:
        decided = thresholds.decide(scores)
    values = decided.astype(np.int8)
    if isinstance(sure, Sure):
        values = sure.decide(scores)
    elif sure is not None:
        other = scores.copy()
        if predicted is not None and soft.any():
            other[soft] = thresholds.calibrate(predicted[soft])
        least, most = np.minimum(scores, other), np.maximum(scores, other)
        if thresholds.by_draw:  # absent even if there were twice as much to see
            most = 1 - (1 - most) ** 2
        values = np.where(least >= sure, POSITIVE, UNOBSERVED).astype(np.int8)
        values[most <= 1 - sure] = NEGATIVE
    if thresholds.single_label:
        values = one_each(values, scores)
    values[np.isnan(scores)] = UNOBSERVED
    values = np.where(known, observed.values, values).astype(np.int8)
    sources = np.where(soft[:, None], 1, 2) * np.ones_like(values)
    sources[np.isnan(scores)] = 3
    sources[known] = 0
    by = sure if isinstance(sure, Sure) else None
    return Completed(observed, values, scores, sources.astype(np.int8), by)


def compare_with_truth(
    completed: Completed, files: Files, format: str | None = None, reading: ReadOptions = USUAL
) -> str:
    """How right the filled-in labels are, for people who know the full labels."""
    truth = read_matching(files, completed.observed, format, reading)
    row_of = {normalize_name(name): row for row, name in enumerate(truth.images)}
    meant = match_known(row_of, completed.observed.images, named(files))
    row_of |= {file: row_of[name] for name, file in meant.items()}
    rows = [row_of.get(normalize_name(name), -1) for name in completed.observed.images]
    shared = np.array([row >= 0 for row in rows])
    if not shared.any():
        raise InputError(f"{named(files)}: knows none of the images of the run")
    known = truth.values[[row for row in rows if row >= 0]]
    filled_in = completed.sources[shared] > 0
    if not ((known == NEGATIVE) & filled_in).any():
        raise InputError(
            f"{named(files)}: names no negative among the labels filled in; with tags known to be "
            "complete give --absent negative"
        )
    lines = [f"against {named(files)}, {counted(int(shared.sum()), 'image')}:"]
    for name in ("soft", "predicted"):
        number = SOURCES.index(name)
        asked = (completed.sources[shared] == number) & (known != UNOBSERVED)
        if not asked.any():
            continue
        positive = (completed.values[shared] == POSITIVE) & asked
        hits = int((positive & (known == POSITIVE)).sum())
        there = int(((known == POSITIVE) & asked).sum())
        right = int(((completed.values[shared] == known) & asked).sum())
        filled = int(((completed.values[shared] != UNOBSERVED) & asked).sum())
        lines.append(
            f"  {name}: {filled:,} labels, {right / max(filled, 1):.2%} right; of its positives "
            f"{hits / max(int(positive.sum()), 1):.1%} are right (precision), of the true ones "
            f"{hits / max(there, 1):.1%} are found (recall)"
        )
    return "\n".join(lines)


def write_tags(completed: Completed, path: str | Path) -> None:
    """A row per image: its labels as tags, and once more those of them that were added."""
    observed, positive = completed.observed, completed.values == POSITIVE
    classes, mark = observed.classes, mark_between(observed.classes, with_scores=False)
    columns = prediction_columns(observed.images, classes, positive, None, mark)
    columns[ADDED] = tags_of(classes, completed.proposed(), mark)
    write_columns(Path(path), prediction_kinds(classes, False) | {ADDED: "text"}, [columns])


def write_completed(completed: Completed, path: str | Path, on_batch: OnBatch = None) -> None:
    """A row per image and class: value, score, source; `on_batch` is told of images written."""
    classes = list(completed.observed.classes)
    names = np.array(SOURCES, dtype=object)

    def rows() -> Iterator[Columns]:
        for start in range(0, len(completed.observed), 1000):
            part = slice(start, start + 1000)
            images = completed.observed.images[part]
            values = completed.values[part].ravel()
            scores = completed.scores[part].ravel().round(4)
            yield {
                "image": np.repeat(np.array(images, dtype=object), len(classes)).tolist(),
                "class": classes * len(images),
                "value": [None if each < 0 else each for each in values.tolist()],
                "score": scores,
                "source": names[completed.sources[part].ravel()].tolist(),
            }
            if on_batch is not None:
                on_batch(len(images))

    kinds = {"image": "text", "class": "text", "value": "int", "score": "float", "source": "text"}
    write_columns(Path(path), kinds, rows())


def mark_between(classes: Sequence[str], with_scores: bool) -> str:
    """What can stand between tags: `;`, or another mark where a class holds that one."""
    if with_scores and {"image", "labels"} & set(classes):
        raise InputError("a class is called 'image' or 'labels': give --no-scores")
    marks = [mark for mark in MARKS if not any(mark in name for name in classes)]
    if not marks:
        raise InputError(
            "classes: expected ; | , / or a tab to be in no name, so that it can stand between "
            "labels; rename classes in the label file and train again"
        )
    return marks[0]


def prediction_kinds(classes: Sequence[str], with_scores: bool) -> dict[str, str]:
    """The columns of predictions."""
    kinds = {"image": "text", "labels": "text"}
    return kinds | dict.fromkeys(classes if with_scores else (), "float")


def tags_of(classes: Sequence[str], chosen: npt.NDArray[np.bool_], mark: str) -> list[str]:
    """The chosen classes of each image in a cell."""
    names = np.array(classes, dtype=object)
    return [mark.join(names[row]) for row in chosen]


def prediction_columns(
    names: Sequence[str],
    classes: Sequence[str],
    decided: npt.NDArray[np.bool_],
    scores: Scores | None,
    mark: str,
) -> Columns:
    """A row per image: its labels as tags, and a score per class, if wanted."""
    columns: Columns = {"image": list(names), "labels": tags_of(classes, decided, mark)}
    if scores is not None:
        columns |= zip(classes, scores.round(4).T, strict=True)
    return columns


def read_names(file: str) -> list[str]:
    """Image names: a label file of any format, or a text with one per line."""
    path = ensure_local(file)
    header = beginning(path).strip() if path.is_file() else ""
    alone = header.lower() in IMAGE_HEADERS
    if not alone and (path.suffix.lower() != ".txt" or _is_list(path)):
        return list(read_labels(file, options=ReadOptions(minus_one="unobserved")).images)
    lines = read_text(path, Issues()).splitlines()[1 if alone else 0 :]
    return list(dict.fromkeys(line.strip() for line in lines if line.strip()))


def _is_list(path: Path) -> bool:
    """Whether a .txt file is a list of a known data set."""
    try:
        find_format(path)
    except InputError:
        return False
    return True
