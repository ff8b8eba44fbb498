"""Tables of predictions and completed labels, as columns that `chunks` or one file takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from g2netpl.labels.io.cells import MARKS
from g2netpl.labels.io.columns import ADDED
from g2netpl.labels.io.writing import write_columns
from g2netpl.labels.table import POSITIVE, UNOBSERVED, LabelTable
from g2netpl.runs.chunks import Chunk, ChunkMaker
from g2netpl.runs.completion import Completed, fill_in
from g2netpl.runs.thresholds import ConfidentThresholds, Thresholds
from g2netpl.utils.arrays import Scores
from g2netpl.utils.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Predictor(ChunkMaker):
    """A row per image: its labels as tags, and a score per class."""

    threshold: float | None = None  # one for all classes

    @property
    def thresholds(self) -> Thresholds:
        """Those of the classifier, unless one is given."""
        chosen = self.classifier.thresholds
        if self.threshold is None:
            return chosen
        common, rule = (self.threshold,) * len(chosen.per_class), f"{self.threshold:g}"
        return chosen.replace(
            per_class=common, rule=f"{rule} for all classes", basis="given", reasons=()
        )

    @property
    def kinds(self) -> Mapping[str, str]:
        """The columns."""
        classes = dict.fromkeys(self.classifier.classes, "float")
        return {"image": "text", "labels": "text", **classes}

    def columns(self, chunk: Chunk, scores: Scores) -> tuple[dict[str, Any], dict[str, int]]:
        """Names, tags and scores."""
        classes = self.classifier.classes
        scores = self.thresholds.calibrate(scores)
        decided = self.thresholds.decide(scores)
        tags = join_tags(classes, decided, tag_separator(classes))
        of_classes = dict(zip(classes, scores.round(4).T, strict=True))
        columns = {"image": [*chunk.images], "labels": tags, **of_classes}
        return columns, {"labels": int(decided.sum())}


@dataclass(frozen=True, kw_only=True)
class Completer(ChunkMaker):
    """A row per image and a column per class: 1 or 0, as observed or else by prediction."""

    of_unknown: Thresholds
    k: float
    confidence: ConfidentThresholds | float | None

    @property
    def thresholds(self) -> Thresholds:
        """What decides unknown labels."""
        return self.of_unknown

    @property
    def kinds(self) -> Mapping[str, str]:
        """The columns."""
        return {"image": "text", **dict.fromkeys(self.classifier.classes, "int")}

    @property
    def depends(self) -> dict[str, Any]:
        """What the results depend on."""
        return {**super().depends, "confidence": str(self.confidence)}

    def columns(self, chunk: Chunk, scores: Scores) -> tuple[dict[str, Any], dict[str, int]]:
        """Names and labels."""
        assert chunk.known is not None
        observed = LabelTable(chunk.images, self.classifier.classes, chunk.known)
        no_pseudo_labels = np.zeros(len(observed), dtype=bool)
        how = (scores, self.thresholds, self.k, self.confidence)
        completed = fill_in(observed, no_pseudo_labels, *how).table
        labels = np.ma.masked_equal(completed.values.T, UNOBSERVED)
        columns = {"image": [*chunk.images], **dict(zip(observed.classes, labels, strict=True))}
        positives = int((completed.values == POSITIVE).sum())
        counts = {"observed": observed.known, "known": completed.known, "positives": positives}
        return columns, counts


def write_tags(completed: Completed, path: str | Path) -> None:
    """A row per image: its labels as tags, and again those of them that were added."""
    observed, mark = completed.observed, tag_separator(completed.observed.classes)
    columns = {
        "image": list(observed.images),
        "labels": join_tags(observed.classes, completed.values == POSITIVE, mark),
        ADDED: join_tags(observed.classes, completed.added(), mark),
    }
    write_columns(Path(path), dict.fromkeys(columns, "text"), [columns])


def tag_separator(classes: Sequence[str]) -> str:
    """What separates tags: `;`, or another mark if a class contains it."""
    marks = [mark for mark in MARKS if not any(mark in name for name in classes)]
    if not marks:
        raise InputError("classes: their names contain ; | , / and tab, so none can separate tags")
    return marks[0]


def join_tags(classes: Sequence[str], chosen: npt.NDArray[np.bool_], mark: str) -> list[str]:
    """The chosen classes of each image in a cell."""
    names = np.array(classes, dtype=object)
    return [mark.join(names[row]) for row in chosen]
