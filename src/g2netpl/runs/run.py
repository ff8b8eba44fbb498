"""The run folder: what a training leaves behind, and how to use it again.

run.json          configuration, versions, fingerprint of the data, classes, image view
history.jsonl     one line per epoch
non_finite.jsonl  batches whose cost was not finite, if there were any
checkpoints, labels   of a run that is not finished
model.safetensors the network of the chosen epoch
soft_labels.npy   (N, L) float32 in the order of the label file: observed values as they are,
                  soft labels of training images, predictions elsewhere
predictions.npy   (N, L) float16: what the network says of every image, those it was trained on too
labels.npz        the image names, what was observed about them, and which have soft labels
decisions.json    calibration and thresholds, see thresholds.py
result.json       the figures, with the keys of a row of `g2netpl compare`
evaluation.json   per-class average precision, precision, recall and F1 of validation and test
scores.npz        what the chosen network says of every image, see scores.py
report.html       all of this as a page, by `g2netpl report`

decided.jsonl     what people had decided in reviews before the run began

.before holds the old results, while a run that replaces them has no checkpoint; see aside.py

review.jsonl, of `g2netpl review`, holds the decisions of people: no training ever removes it.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from g2netpl.base.arrays import Scores
from g2netpl.labels.table import LabelTable
from g2netpl.runs.config import RunConfig
from g2netpl.runs.folder import (
    SavedLabels,
    check_finished,
    read_evaluation,
    read_result,
    read_saved_labels,
    read_thresholds,
    read_training,
)
from g2netpl.runs.thresholds import Decisions

if TYPE_CHECKING:
    from g2netpl.game.network.network import Network


@dataclass(frozen=True)
class Run:
    """A finished training. Its labels and figures can be had without torch, its network cannot."""

    folder: Path
    config: RunConfig
    classes: tuple[str, ...]
    result: dict[str, Any]
    evaluation: dict[str, Any]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    decisions: Decisions
    expected_positives: float

    @cached_property
    def network(self) -> "Network":
        """The network of the chosen epoch, on the CPU, in eval mode; loaded on first use."""
        from g2netpl.game.network.boostlu import boosted
        from g2netpl.game.network.network import build_backbone, build_network, load_weights

        name, size = self.config.backbone, self.config.image_size
        backbone = build_backbone(name, pretrained=False, image_size=size)
        network = build_network(backbone, len(self.classes), hidden=self.config.hidden)
        if self.config.head == "boostlu":
            network = boosted(network, name, size)
        load_weights(network, self.folder / "model.safetensors")
        return network.eval()

    def predict(
        self,
        paths: str | Path | Sequence[str | Path],
        workers: int = 0,
        max_bad: int = 0,
        on_batch: Callable[[int], None] | None = None,
    ) -> Scores:
        """Calibrated scores (N, L) in [0, 1] for image files, or for one.

        Up to `max_bad` files may be unreadable; their scores are NaN.
        """
        from g2netpl.game.network.predicting import predict_all
        from g2netpl.images.loader import ImageSource

        names = [os.fspath(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
        if not names:
            return np.zeros((0, len(self.classes)), dtype=np.float32)
        size = self.config.image_size
        source = ImageSource(names, size, self.mean, self.std, workers=workers, max_bad=max_bad)
        return self.decisions.calibrate(predict_all(self.network, source, on_batch=on_batch))

    @cached_property
    def _saved(self) -> SavedLabels:
        """Its label files; the large ones stay on disk."""
        return read_saved_labels(self.folder)

    def observed(self) -> LabelTable:
        """The images of the label file and what the training knew about them."""
        return LabelTable(self._saved.images, self.classes, self._saved.observed)

    def has_soft_labels(self) -> npt.NDArray[np.bool_]:
        """Which images of the label file have soft labels, and not predictions."""
        return self._saved.has_soft.copy()

    def soft_labels(self) -> npt.NDArray[np.float32]:
        """The completed label table, (N, L) in the order of the label file."""
        return np.array(self._saved.completed, dtype=np.float32)

    def predictions(self) -> Scores | None:
        """What the network says of every image of the label file; None for an older run."""
        found = self._saved.predicted
        return None if found is None else np.array(found, dtype=np.float32)


def load_run(folder: str | Path) -> Run:
    """Load a finished run."""
    folder = Path(folder)
    content = read_training(folder)
    config = RunConfig.read(content["config"], str(folder / "run.json"))
    check_finished(folder)
    classes = tuple(content["classes"])
    return Run(
        folder,
        config,
        classes,
        read_result(folder),
        read_evaluation(folder, classes),
        tuple(content["mean"]),
        tuple(content["std"]),
        read_thresholds(folder, classes),
        content["expected_positives"],
    )
