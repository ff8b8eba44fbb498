"""A run folder as far as it goes, read without its network: for reports."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from g2netpl.labels.table import LabelTable
from g2netpl.runs.completion import Completed, fill_in
from g2netpl.runs.config import RunConfig
from g2netpl.runs.folder import (
    Content,
    read_evaluation,
    read_history,
    read_result,
    read_saved_labels,
    read_thresholds,
    read_training,
)
from g2netpl.runs.scores import Judged, KeptScores, read_scores
from g2netpl.runs.thresholds import Decisions


@dataclass(frozen=True)
class Ending:
    """What a finished training left behind."""

    result: Content
    evaluation: Content
    decisions: Decisions
    completed: Completed
    soft: npt.NDArray[np.bool_]  # (N,) images that have soft labels
    scores: KeptScores | None  # None: trained by a version that kept none


@dataclass(frozen=True)
class RunContents:
    """What a run folder tells."""

    folder: Path
    about: Content  # run.json
    config: RunConfig
    classes: tuple[str, ...]
    history: list[Content]
    ending: Ending | None  # None: not finished

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.folder.resolve().name

    @property
    def judged(self) -> dict[str, Judged]:
        """The parts that have scores and labels."""
        kept = None if self.ending is None else self.ending.scores
        return {} if kept is None else kept.judged

    @property
    def k(self) -> float | None:
        """The expected positives per image, once they are known."""
        return self.about.get("expected_positives")


def read_contents(folder: str | Path) -> RunContents:
    """Read a run folder, finished or not."""
    folder = Path(folder)
    about = read_training(folder)
    config = RunConfig.read(about["config"], str(folder / "run.json"))
    classes = tuple(about["classes"])
    history = read_history(folder / "history.jsonl")
    finished = (folder / "result.json").is_file()
    ending = _ending(folder, classes, about["expected_positives"]) if finished else None
    return RunContents(folder, about, config, classes, history, ending)


def _ending(folder: Path, classes: tuple[str, ...], k: float) -> Ending:
    decisions = read_thresholds(folder, classes)
    saved = read_saved_labels(folder)
    observed = LabelTable(saved.images, classes, saved.observed)
    return Ending(
        read_result(folder),
        read_evaluation(folder, classes),
        decisions,
        fill_in(observed, saved.has_soft, np.array(saved.completed), decisions, k),
        saved.has_soft,
        read_scores(folder, classes),
    )
