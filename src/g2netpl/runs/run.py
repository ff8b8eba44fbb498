"""A run: the one reader of a run folder; `records` names its files."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load

from g2netpl.core.inference import predict_all
from g2netpl.core.methods import find_method
from g2netpl.core.models import Model, build_backbone, build_model
from g2netpl.core.prior import prior_from_state
from g2netpl.images.features import faster
from g2netpl.images.loader import ImageSource, joined_sources
from g2netpl.labels.table import LabelTable
from g2netpl.runs.classifier import Classifier, OnBatch, to_frame
from g2netpl.runs.config import RunConfig
from g2netpl.runs.prior import ScoreTable
from g2netpl.runs.records import (
    EVALUATION,
    HISTORY,
    MODEL,
    RESULT,
    RUN,
    THRESHOLDS,
    Content,
    Epoch,
    Evaluation,
    Metrics,
    Result,
    is_finished,
    read_json,
    read_training,
)
from g2netpl.runs.tables import SPLITS, HeldOut, SavedLabels, read_held_out, read_saved_labels
from g2netpl.runs.thresholds import StoredThresholds, Thresholds
from g2netpl.utils.arrays import Scores
from g2netpl.utils.errors import InputError
from g2netpl.utils.options import parse_record


@dataclass(frozen=True)
class Run(Classifier):
    """A training run, finished or not; every file is read once, when it is needed."""

    folder: Path
    about: Content  # run.json
    prior: ScoreTable | None = None  # scores of the images, if it was trained with a file of them

    @classmethod
    def open(cls, folder: str | Path) -> "Run":
        """The run in a folder, as far as it goes."""
        return cls(Path(folder), read_training(folder))

    def __repr__(self) -> str:
        about = self.about["config"]["method"], self.about["data"]["images"], len(self.classes)
        return "Run({!r}: {}, {:,} images × {:,} classes)".format(str(self.folder), *about)

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.resolve().name

    @cached_property
    def version(self) -> str:
        """A name of its network, different after each training run."""
        return f"{self.name}-{self.digest[:8]}"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of its network."""
        return sha256((self.folder / MODEL).read_bytes()).hexdigest()

    @property
    def is_finished(self) -> bool:
        """Whether there are results."""
        return is_finished(self.folder)

    def check_finished(self) -> None:
        """Reject a run without results."""
        if not self.is_finished:
            raise InputError(
                f"{self.folder}: this run is not finished; go on with g2netpl train --resume"
            )

    @cached_property
    def config(self) -> RunConfig:
        """What it was trained with."""
        return RunConfig.read(self.about["config"], str(self.folder / RUN))

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the scores."""
        return tuple(self.about["classes"])

    @property
    def mean(self) -> tuple[float, ...]:
        """Mean of the pixels, per colour."""
        return tuple(self.about["mean"])

    @property
    def std(self) -> tuple[float, ...]:
        """Standard deviation of the pixels, per colour."""
        return tuple(self.about["std"])

    @property
    def expected_positives(self) -> float:
        """Expected positives per image (k)."""
        return float(self.about["expected_positives"])

    @property
    def annotation(self) -> str:
        """How its labels came to be observed: sampled, random or complete."""
        return str(self.about["annotation"])

    @property
    def prior_kind(self) -> str:
        """What was known about the classes before any tag: names, scores or none."""
        return str(self.about["resolved"].get("prior", "none"))

    @property
    def train_from(self) -> str | None:
        """The first trained block of a partial fine-tuning."""
        return cast(str | None, self.about["resolved"].get("train_from"))

    @cached_property
    def history(self) -> list[Epoch]:
        """The finished epochs; a last line that is just being written is left out."""
        path = self.folder / HISTORY
        lines = path.read_bytes().splitlines() if path.is_file() else []
        if lines and not _is_json(lines[-1]):
            lines.pop()
        return [
            parse_record(Epoch, line, f"{path}:{place}: expected a line of JSON")
            for place, line in enumerate(lines, start=1)
        ]

    @cached_property
    def result(self) -> Result:
        """The results."""
        return read_json(self.folder / RESULT, Result)

    @cached_property
    def evaluation(self) -> dict[str, Metrics]:
        """Metrics of every class, by split."""
        path, splits = self.folder / EVALUATION, {}
        for split, metrics in read_json(path, Evaluation).items():
            if split in SPLITS:
                splits[split] = cast(Metrics, metrics)
                average = splits[split]["average_precision"]
                self._check_count(path, f"{split}: average_precision", average)
        return splits

    @cached_property
    def thresholds(self) -> Thresholds:
        """Calibration and thresholds."""
        path = self.folder / THRESHOLDS
        thresholds = Thresholds.from_json(read_json(path, StoredThresholds))
        self._check_count(path, "thresholds", thresholds.per_class)
        if thresholds.reasons:
            self._check_count(path, "reasons", thresholds.reasons)
        return thresholds

    @cached_property
    def held_out(self) -> dict[str, HeldOut]:
        """Validation and test images with their scores."""
        return read_held_out(self.folder, self.classes)

    @cached_property
    def labels(self) -> SavedLabels:
        """Its label files; the large ones stay on disk."""
        self.check_finished()
        return read_saved_labels(self.folder, self.classes)

    @cached_property
    def model(self) -> Model:
        """The model of the best epoch, on the CPU, in evaluation mode."""
        config, path = self.config, self.folder / MODEL
        backbone = build_backbone(config.backbone, pretrained=False, image_size=config.image_size)
        try:
            state = load(path.read_bytes())
            model = build_model(
                backbone,
                len(self.classes),
                annotation=self.annotation,
                k=self.expected_positives,
                hidden=config.hidden,
                trains_sigmoids=find_method(config.method).method.trains_sigmoids,
                prior=prior_from_state(state),
            )
            model.load_state_dict(state)
        except Exception as problem:  # damaged files raise errors of every kind
            first = (str(problem).splitlines() or ["damaged"])[0]
            raise InputError(f"{path}: cannot be read ({first:.200}); train again") from None
        if not all(bool(torch.isfinite(value).all()) for value in state.values()):
            raise InputError(f"{path}: has values that are not finite; train again")
        return model.eval()

    def score_each(
        self,
        lists: Iterable[Sequence[str]],
        count: int,
        workers: int = 0,
        max_unreadable: int | None = None,
        on_batch: OnBatch = None,
    ) -> Iterator[Scores]:
        """Scores before calibration for lists of image files, one by one."""

        def source(paths: Sequence[str]) -> ImageSource:
            most = len(paths) if max_unreadable is None else max_unreadable
            how = (self.config.image_size, self.mean, self.std)
            images = ImageSource(paths, *how, workers=workers, max_unreadable=most)
            if self.prior is not None:
                images.prior = self.prior.q_of(paths)
            return images

        model = None
        for part in joined_sources(lists, source):
            if model is None:
                model = Model(faster(self.model.backbone, part, count), self.model.head).eval()
            yield predict_all(model, part, on_batch=on_batch)

    def observed(self) -> LabelTable:
        """The images of the label file and what the training run knew about them."""
        labels = self.labels
        return LabelTable(labels.images, self.classes, labels.observed, groups=labels.groups)

    def has_soft_labels(self) -> npt.NDArray[np.bool_]:
        """Which images of the label file have pseudo-labels, and not predictions."""
        return self.labels.has_soft.copy()

    def soft_labels(self, as_frame: bool = False) -> Any:
        """The completed label table, (N, L) in the order of the label file.

        `as_frame` gives a pandas data frame: a row per image, a column per class.
        """
        return self._framed(np.array(self.labels.completed, dtype=np.float32), as_frame)

    def predictions(self, as_frame: bool = False) -> Any:
        """Scores of every image of the label file, before calibration."""
        return self._framed(self.labels.predictions(), as_frame)

    def _framed(self, values: Scores, as_frame: bool) -> Any:
        return to_frame(values, self.labels.images, self.classes) if as_frame else values

    def _check_count(self, path: Path, what: str, values: Sequence[object]) -> None:
        if len(values) != len(self.classes):
            raise InputError(
                f"{path}: {what}: expected one for each of {len(self.classes)} classes, got "
                f"{len(values)}; train again"
            )


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def load_run(folder: str | Path) -> Run:
    """Load a finished run; results and thresholds that cannot be read are reported at once."""
    run = Run.open(folder)
    _ = run.config
    run.check_finished()
    _ = run.result, run.evaluation, run.thresholds
    return run
