"""What a run and a bundle have in common: classes, thresholds, and scores for image files."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from g2netpl.base.arrays import Scores
from g2netpl.base.console import Console
from g2netpl.base.progress import Work
from g2netpl.runs.thresholds import Thresholds

OnBatch = Callable[[int], None] | None  # is told how many images were scored


class Classifier(ABC):
    """A trained network, wherever it runs."""

    @property
    @abstractmethod
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the scores."""

    @property
    @abstractmethod
    def thresholds(self) -> Thresholds:
        """Calibration and thresholds."""

    @abstractmethod
    def scores(
        self, paths: Sequence[str], workers: int = 0, max_bad: int = 0, on_batch: OnBatch = None
    ) -> Scores:
        """What the network says of some image files, before calibration."""

    def predict(
        self,
        paths: str | Path | Sequence[str | Path],
        workers: int = 0,
        max_bad: int = 0,
        on_batch: OnBatch = None,
        progress: bool = False,
    ) -> Scores:
        """Calibrated scores (N, L) in [0, 1] for image files, or for one.

        Up to `max_bad` files may be unreadable; their scores are NaN. With `progress` it says how
        far it is.
        """
        names = [os.fspath(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
        if not names:
            return np.zeros((0, len(self.classes)), dtype=np.float32)
        if progress and on_batch is None:
            with Work(Console(), "predicting", len(names)) as work:
                return self.predict(names, workers, max_bad, work.advance)
        scores = self.scores(names, workers, max_bad, on_batch)
        return self.thresholds.calibrate(scores)
