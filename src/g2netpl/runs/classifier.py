"""What a run and a bundle have in common: classes, thresholds, and scores for image files."""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from g2netpl.images.features import OnBatch
from g2netpl.images.loader import ImageSource
from g2netpl.labels.table import UNOBSERVED
from g2netpl.runs.thresholds import Thresholds
from g2netpl.utils.arrays import Scores

Paths = str | Path | Sequence[str | Path]


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

    @property
    @abstractmethod
    def digest(self) -> str:
        """SHA-256 of the file that it was loaded from."""

    @property
    @abstractmethod
    def pixels(self) -> tuple[int, Sequence[float], Sequence[float]]:
        """Pixels a side of its images, and by which mean and deviation they are normalised."""

    @abstractmethod
    def score_source(self, source: ImageSource, on_batch: OnBatch, count: int) -> Scores:
        """Scores of a source of images, `count` in all if there are others."""

    def score(
        self,
        paths: Sequence[str],
        workers: int = 0,
        max_unreadable: int | None = None,
        on_batch: OnBatch = None,
        count: int = 0,
    ) -> Scores:
        """Scores (N, L) before calibration; NaN for images that cannot be read.

        `max_unreadable` of None allows any number of them. `count` images are scored in all, if
        these are not the only ones.
        """
        most = len(paths) if max_unreadable is None else max_unreadable
        source = ImageSource(paths, *self.pixels, workers=workers, max_unreadable=most)
        return self.score_source(source, on_batch, max(count, len(paths)))

    def predict(
        self,
        paths: Paths,
        workers: int = 0,
        max_unreadable: int = 0,
        as_frame: bool = False,
    ) -> Any:
        """Calibrated scores (N, L) in [0, 1] for image files, or for one.

        Up to `max_unreadable` files may be unreadable; their scores are NaN. `as_frame` gives a
        pandas data frame instead of an array.
        """
        names = [os.fspath(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
        scores = np.zeros((0, len(self.classes)), dtype=np.float32)
        if names:
            scores = self.thresholds.calibrate(self.score(names, workers, max_unreadable))
        return to_frame(scores, names, self.classes) if as_frame else scores


def to_frame(
    values: npt.NDArray[Any], images: Sequence[str], classes: Sequence[str]
) -> pd.DataFrame:
    """A data frame with a row per image; labels are whole numbers, missing if unknown."""
    frame = pd.DataFrame(values, pd.Index(list(images), name="image"), list(classes))
    is_labels = values.dtype.kind == "i"
    return frame.astype("Int8").mask(frame == UNOBSERVED) if is_labels else frame
