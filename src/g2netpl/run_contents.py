"""A run folder as far as it goes, read without its network: for reports."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from g2netpl.config import RunConfig
from g2netpl.decisions import Decisions
from g2netpl.errors import InputError
from g2netpl.labels import LabelTable
from g2netpl.proposals import Completed, fill_in
from g2netpl.run_files import read_training
from g2netpl.score_file import Judged, KeptScores, read_arrays, read_scores

Content = dict[str, Any]


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


def read_history(path: Path) -> list[Content]:
    """The finished epochs; a last line that is just being written is left out."""
    if not path.is_file():
        return []
    records = []
    lines = path.read_text(encoding="utf-8").splitlines()
    for place, line in enumerate(lines, start=1):
        try:
            records.append(json.loads(line))
        except ValueError:
            if place < len(lines):
                raise InputError(f"{path}:{place}: expected a line of JSON") from None
    return records


def _ending(folder: Path, classes: tuple[str, ...], k: float) -> Ending:
    decisions = Decisions.from_json(_json(folder / "decisions.json"))
    labels = read_arrays(folder / "labels.npz", "images", "observed", "soft")
    names = tuple(str(name) for name in labels["images"])
    observed = LabelTable(names, classes, labels["observed"])
    try:
        raw = np.load(folder / "soft_labels.npy", allow_pickle=False)
    except (OSError, ValueError, EOFError) as problem:
        path = folder / "soft_labels.npy"
        raise InputError(f"{path}: cannot be read ({problem}); train again") from None
    return Ending(
        _json(folder / "result.json"),
        _json(folder / "evaluation.json"),
        decisions,
        fill_in(observed, labels["soft"], raw, decisions, k),
        labels["soft"],
        read_scores(folder, classes),
    )


def _json(path: Path) -> Content:
    try:
        content: Content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise InputError(f"{path}: cannot be read ({problem}); train again") from None
    return content
