"""A run: the one reader of a run folder; `records` names its files."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load

from g2netpl.core.inference import predict_all
from g2netpl.core.methods import find_method
from g2netpl.core.models import Model, build_backbone, build_model
from g2netpl.core.prior import prior_from_state
from g2netpl.images.features import ENOUGH, OnBatch, faster
from g2netpl.images.loader import ImageSource
from g2netpl.labels.table import LabelTable
from g2netpl.runs.classifier import Classifier, to_frame
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
from g2netpl.runs.thresholds import Thresholds
from g2netpl.utils.arrays import Scores
from g2netpl.utils.console import quoted
from g2netpl.utils.errors import InputError
from g2netpl.utils.options import parse_record


@dataclass(frozen=True)
class Run(Classifier):
    """A training run, finished or not; every file is read once, when it is needed."""

    folder: Path
    about: Content  # run.json
    prior: ScoreTable | None = None  # scores of the images, if it was trained with a file of them
    fast_models: list[Model] = field(default_factory=list, compare=False)  # for many images

    @classmethod
    def open(cls, folder: str | Path) -> "Run":
        """The run in a folder, as far as it goes."""
        return cls(Path(folder), read_training(folder))

    def __repr__(self) -> str:
        about = self.about["config"]["method"], self.about["data"]["images"], len(self.classes)
        return "Run({!r}: {}, {:,} images × {:,} classes)".format(str(self.folder), *about)

    @cached_property
    def version(self) -> str:
        """A name of its network, different after each training run."""
        return f"{self.folder.resolve().name}-{self.digest[:8]}"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of its network, and of the scores that it was given."""
        content = (self.folder / MODEL).read_bytes()
        if self.prior is not None:
            content += Path(self.prior.path).read_bytes()
        return sha256(content).hexdigest()

    @property
    def is_finished(self) -> bool:
        """Whether there are results."""
        return is_finished(self.folder)

    def check_finished(self) -> None:
        """Reject a run without results."""
        if not self.is_finished:
            how = f"g2netpl train --resume --output {quoted(self.folder)}"
            raise InputError(f"{self.folder}: not finished; resume it with {how}")

    @cached_property
    def config(self) -> RunConfig:
        """What it was trained with."""
        return RunConfig.read(self.about["config"], str(self.folder / RUN))

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the scores."""
        return tuple(self.about["classes"])

    @property
    def pixels(self) -> tuple[int, Sequence[float], Sequence[float]]:
        """Pixels a side of its images, and by which mean and deviation they are normalised."""
        return self.config.image_size, self.about["mean"], self.about["std"]

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

    @cached_property
    def history(self) -> list[Epoch]:
        """The finished epochs."""
        path = self.folder / HISTORY
        lines = path.read_bytes().splitlines() if path.is_file() else []
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
        path = self.folder / EVALUATION
        content: Any = read_json(path, Evaluation)
        splits: dict[str, Metrics] = {key: content[key] for key in SPLITS if key in content}
        for split, metrics in splits.items():
            self._check_count(path, f"{split}: average_precision", metrics["average_precision"])
        return splits

    @cached_property
    def thresholds(self) -> Thresholds:
        """Calibration and thresholds."""
        path = self.folder / THRESHOLDS
        thresholds = Thresholds.read(read_json(path, dict[str, Any]), str(path))
        self._check_count(path, "thresholds", thresholds.per_class)
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
        return model.eval()

    def score_source(self, source: ImageSource, on_batch: OnBatch, count: int) -> Scores:
        """Scores of a source of images; of many by onnxruntime, if that is faster."""
        if self.prior is not None:
            source.prior = self.prior.q_of(source.dataset.paths)
        if count >= ENOUGH and not self.fast_models:
            backbone = faster(self.model.backbone, source, ENOUGH)
            self.fast_models.append(Model(backbone, self.model.head).eval())
        model = self.fast_models[0] if count >= ENOUGH else self.model
        return predict_all(model, source, on_batch=on_batch)

    def observed(self) -> LabelTable:
        """The images of the label file and what the training run knew about them."""
        labels = self.labels
        return LabelTable(labels.images, self.classes, labels.observed, groups=labels.groups)

    def soft_labels(self, as_frame: bool = False) -> Any:
        """The completed label table, (N, L) in the order of the label file.

        `as_frame` gives a pandas data frame: a row per image, a column per class.
        """
        values = np.array(self.labels.completed, dtype=np.float32)
        return to_frame(values, self.labels.images, self.classes) if as_frame else values

    def predictions(self, as_frame: bool = False) -> Any:
        """Scores of every image of the label file, before calibration."""
        values = self.labels.predictions()
        return to_frame(values, self.labels.images, self.classes) if as_frame else values

    def _check_count(self, path: Path, what: str, values: Sequence[object]) -> None:
        if len(values) != len(self.classes):
            raise InputError(
                f"{path}: {what}: expected one for each of {len(self.classes)} classes, got "
                f"{len(values)}; train again"
            )


def load_run(folder: str | Path) -> Run:
    """Load a finished run; results and thresholds that cannot be read are reported at once."""
    run = Run.open(folder)
    _ = run.config
    run.check_finished()
    _ = run.result, run.evaluation, run.thresholds
    return run
