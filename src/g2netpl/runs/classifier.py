"""What a run and a bundle have in common: classes, thresholds, and scores for image files."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from g2netpl.labels.table import UNOBSERVED
from g2netpl.runs.thresholds import Thresholds
from g2netpl.utils.arrays import Scores
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError
from g2netpl.utils.progress import Work

Paths = str | Path | Sequence[str | Path]
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

    @property
    @abstractmethod
    def digest(self) -> str:
        """SHA-256 of what it was loaded from: another one for every other network."""

    @abstractmethod
    def score_each(
        self,
        lists: Iterable[Sequence[str]],
        count: int,
        workers: int = 0,
        max_unreadable: int | None = None,
        on_batch: OnBatch = None,
    ) -> Iterator[Scores]:
        """What the network says of lists of image files, `count` in all, one after the other.

        They are asked for as they are needed, and no more of them than that is held.
        `max_unreadable` is for each list; None: any number may be unreadable.
        """

    def scores(
        self,
        paths: Sequence[str],
        workers: int = 0,
        max_unreadable: int = 0,
        on_batch: OnBatch = None,
    ) -> Scores:
        """What the network says of some image files, before calibration."""
        (found,) = self.score_each([paths], len(paths), workers, max_unreadable, on_batch)
        return found

    @overload
    def predict(
        self,
        paths: Paths,
        workers: int = 0,
        max_unreadable: int = 0,
        on_batch: OnBatch = None,
        progress: bool = False,
    ) -> Scores: ...
    @overload
    def predict(
        self,
        paths: Paths,
        workers: int = 0,
        max_unreadable: int = 0,
        on_batch: OnBatch = None,
        progress: bool = False,
        *,
        as_frame: bool,
    ) -> Any: ...
    def predict(
        self,
        paths: Paths,
        workers: int = 0,
        max_unreadable: int = 0,
        on_batch: OnBatch = None,
        progress: bool = False,
        as_frame: bool = False,
    ) -> Any:
        """Calibrated scores (N, L) in [0, 1] for image files, or for one.

        Up to `max_unreadable` files may be unreadable; their scores are NaN. With `progress` it
        shows progress; `as_frame` gives a data frame of pandas.
        """
        names = [os.fspath(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
        scores = np.zeros((0, len(self.classes)), dtype=np.float32)
        if names:
            with Work(Console(quiet=not progress), "predicting", len(names)) as work:
                scores = self.scores(names, workers, max_unreadable, on_batch or work.advance)
            scores = self.thresholds.calibrate(scores)
        return frame_of(scores, names, self.classes) if as_frame else scores


def frame_of(values: npt.NDArray[Any], images: Sequence[str], classes: Sequence[str]) -> Any:
    """A data frame, a row per image; labels are whole numbers, and missing where unknown."""
    try:
        import pandas
    except ImportError:
        raise InputError(
            "as_frame: a data frame needs pandas; install it with pip install pandas, or leave out "
            "as_frame for an array"
        ) from None
    rows = pandas.Index(list(images), name="image")
    frame = pandas.DataFrame(np.asarray(values), rows, list(classes))
    if values.dtype.kind == "i":
        return frame.astype("Int8").mask(frame == UNOBSERVED)
    return frame
