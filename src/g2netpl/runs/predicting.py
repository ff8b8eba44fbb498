"""Tables of predictions and completed labels, as columns that `chunks` or one file takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from g2netpl.labels.files import ensure_local
from g2netpl.labels.io import ReadOptions, find_format, read_labels
from g2netpl.labels.io.cells import MARKS
from g2netpl.labels.io.columns import ADDED, IMAGE_HEADERS
from g2netpl.labels.io.issues import Issues, beginning, read_text
from g2netpl.labels.io.writing import write_columns
from g2netpl.labels.table import POSITIVE, UNOBSERVED, LabelTable
from g2netpl.runs.bundle import is_bundle, load_bundle
from g2netpl.runs.chunks import Chunk, ChunkMaker
from g2netpl.runs.classifier import Classifier
from g2netpl.runs.completion import Completed, fill_in
from g2netpl.runs.prior import read_scores
from g2netpl.runs.run import Run, load_run
from g2netpl.runs.thresholds import ConfidentThresholds
from g2netpl.utils import launch as launched
from g2netpl.utils.arrays import Scores
from g2netpl.utils.errors import InputError


def load_classifier(
    name: str, device: str = "cpu", prior: str | None = None, images: str = ""
) -> Classifier:
    """A bundle, or the run in a folder; `auto` uses a GPU if there is one.

    `prior` is a file with the scores of `images`, for a run that was trained with one.
    """
    if prior is not None and (is_bundle(name) or Run.open(name).prior_kind != "scores"):
        raise InputError(f"--prior: {name} was not trained with a file of scores; leave it out")
    if is_bundle(name):
        return load_bundle(name)
    run = load_run(name)
    if prior is not None:
        run = replace(run, prior=replace(read_scores(prior, run.classes), root=images))
    if device == "auto":
        run.model.to(launched.device_of(device))
    return run


@dataclass(frozen=True)
class Predictor(ChunkMaker):
    """A row per image: its labels as tags, and a score per class."""

    with_scores: bool

    @property
    def kinds(self) -> Mapping[str, str]:
        """The columns."""
        classes = self.classifier.classes if self.with_scores else ()
        return {"image": "text", "labels": "text", **dict.fromkeys(classes, "float")}

    @property
    def depends(self) -> dict[str, Any]:
        """What the results depend on."""
        return {**super().depends, "scores": self.with_scores}

    def columns(self, chunk: Chunk, scores: Scores) -> tuple[dict[str, Any], dict[str, int]]:
        """Names, tags and scores."""
        classes = self.classifier.classes
        scores = self.thresholds.calibrate(scores)
        decided = self.thresholds.decide(scores)
        tags = join_tags(classes, decided, tag_separator(classes, self.with_scores))
        columns = {"image": [*chunk.images], "labels": tags}
        if self.with_scores:
            columns |= zip(classes, scores.round(4).T, strict=True)
        return columns, {"labels": int(decided.sum())}


@dataclass(frozen=True)
class Completer(ChunkMaker):
    """A row per image and a column per class: 1 or 0, as observed or else by prediction."""

    k: float
    confidence: ConfidentThresholds | float | None

    @property
    def kinds(self) -> Mapping[str, str]:
        """The columns."""
        return {"image": "text", **dict.fromkeys(self.classifier.classes, "int")}

    @property
    def depends(self) -> dict[str, Any]:
        """What the results depend on."""
        is_number = isinstance(self.confidence, float)
        confidence = self.confidence if is_number else str(self.confidence)
        return {**super().depends, "confidence": confidence}

    def columns(self, chunk: Chunk, scores: Scores) -> tuple[dict[str, Any], dict[str, int]]:
        """Names and labels."""
        assert chunk.known is not None
        observed = LabelTable(chunk.images, self.classifier.classes, chunk.known)
        no_pseudo_labels = np.zeros(len(observed), dtype=bool)
        how = (scores, self.thresholds, self.k, self.confidence)
        values = fill_in(observed, no_pseudo_labels, *how).values
        columns: dict[str, Any] = {"image": list(chunk.images)}
        for name, labels in zip(observed.classes, values.T, strict=True):
            columns[name] = np.ma.masked_array(labels, labels == UNOBSERVED)
        known, positives = (values != UNOBSERVED).sum(), (values == POSITIVE).sum()
        counts = {"observed": observed.known, "known": int(known), "positives": int(positives)}
        return columns, counts


def write_tags(completed: Completed, path: str | Path) -> None:
    """A row per image: its labels as tags, and again those of them that were added."""
    observed, mark = completed.observed, tag_separator(completed.observed.classes, False)
    columns = {
        "image": list(observed.images),
        "labels": join_tags(observed.classes, completed.values == POSITIVE, mark),
        ADDED: join_tags(observed.classes, completed.added(), mark),
    }
    write_columns(Path(path), dict.fromkeys(columns, "text"), [columns])


def tag_separator(classes: Sequence[str], with_scores: bool) -> str:
    """What separates tags: `;`, or another mark if a class contains it."""
    if with_scores and {"image", "labels"} & set(classes):
        raise InputError("a class is called 'image' or 'labels': give --no-scores")
    marks = [mark for mark in MARKS if not any(mark in name for name in classes)]
    if not marks:
        raise InputError(
            "classes: each of ; | , / and tab is in a name, so none can separate tags; rename "
            "classes in the label file and train again"
        )
    return marks[0]


def join_tags(classes: Sequence[str], chosen: npt.NDArray[np.bool_], mark: str) -> list[str]:
    """The chosen classes of each image in a cell."""
    names = np.array(classes, dtype=object)
    return [mark.join(names[row]) for row in chosen]


def read_names(file: str) -> list[str]:
    """Image names: a label file of any format, or a text with one per line."""
    path = ensure_local(file)
    header = beginning(path).strip() if path.is_file() else ""
    is_names_only = header.lower() in IMAGE_HEADERS
    try:  # a .txt file may be the list of a known data set
        is_label_file = path.suffix.lower() != ".txt" or bool(find_format(path))
    except InputError:
        is_label_file = False
    if is_label_file and not is_names_only:
        return list(read_labels(file, options=ReadOptions(minus_one="unobserved")).images)
    lines = read_text(path, Issues()).splitlines()[1 if is_names_only else 0 :]
    return list(dict.fromkeys(line.strip() for line in lines if line.strip()))
