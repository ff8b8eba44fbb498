"""scores.npz of a run folder: what the chosen network says, beside what is known.

predicted            (N, L) logits of the images of the label file, in its order
validation_images, validation_logits, validation_truth     of the images the epoch was chosen by
test_images, test_logits, test_truth                       of the test images

Logits are float16: as probabilities that few bits could not tell sure from very sure. An image that
could not be read is NaN. A part that the run did not have is left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from g2netpl.base.arrays import Blocks, Scores, in_short, read_npz, write_npz
from g2netpl.base.disk import written_whole
from g2netpl.base.errors import InputError
from g2netpl.labels.table import UNOBSERVED, LabelMatrix, LabelTable

SCORES = "scores.npz"
PARTS = ("validation", "test")
_LARGEST_LOGIT = 30.0


@dataclass(frozen=True)
class Judged:
    """Images that the training did not learn from: their scores, and what is known of them."""

    table: LabelTable
    scores: Scores  # (N, L) in [0, 1], as the network gives them; NaN: not readable

    @property
    def truth(self) -> LabelMatrix:
        """What is known of the images that could be read."""
        unread = np.isnan(self.scores).any(axis=1, keepdims=True)
        return np.where(unread, UNOBSERVED, self.table.values).astype(np.int8)


@dataclass(frozen=True)
class KeptScores:
    """The content of the file."""

    predicted: Scores  # (N, L) of the label file's images
    judged: dict[str, Judged]  # by part, some of PARTS


def write_scores(folder: Path, predicted: Scores, judged: Mapping[str, Judged]) -> None:
    """Write the scores of a finished training."""
    arrays: dict[str, Any] = {
        "predicted": Blocks(predicted.shape, np.float16, lambda rows: _logits(predicted[rows]))
    }
    for part, each in judged.items():
        arrays[f"{part}_images"] = np.array(each.table.images)
        arrays[f"{part}_logits"] = _logits(each.scores)
        arrays[f"{part}_truth"] = each.table.values
    with written_whole(folder / SCORES) as file:
        write_npz(file, **arrays)


def read_scores(folder: Path, classes: tuple[str, ...]) -> KeptScores | None:
    """What was kept; None for a run of a version that kept nothing."""
    path = folder / SCORES
    if not path.is_file():
        return None
    arrays = read_arrays(path, "predicted")
    judged = {}
    for part in PARTS:
        if f"{part}_logits" in arrays:
            try:
                names, logits, truth = (
                    arrays[f"{part}_{key}"] for key in ("images", "logits", "truth")
                )
                table = LabelTable(tuple(str(name) for name in names), classes, truth)
                if logits.shape != truth.shape or logits.dtype.kind != "f":
                    raise ValueError(f"{part}_logits: expected {truth.shape}, got {logits.shape}")
            except (KeyError, TypeError, ValueError, InputError) as problem:
                raise InputError(
                    f"{path}: cannot be read ({in_short(problem)}); train again"
                ) from None
            judged[part] = Judged(table, _scores(logits))
    return KeptScores(_scores(arrays["predicted"]), judged)


def read_arrays(path: Path, *needed: str) -> dict[str, Any]:
    """The arrays of an .npz file, those needed among them, or one line about it."""
    try:
        content = read_npz(path)
    except ValueError as problem:
        raise InputError(f"{path}: cannot be read ({problem}); train again") from None
    missing = [name for name in needed if name not in content]
    if missing:
        raise InputError(f"{path}: has no {missing[0]!r}; train again")
    return content


def _logits(scores: Scores) -> np.ndarray:
    from scipy.special import logit

    wide = np.asarray(scores, dtype=np.float64)
    limited: np.ndarray = np.clip(logit(wide), -_LARGEST_LOGIT, _LARGEST_LOGIT).astype(np.float16)
    return limited


def _scores(logits: np.ndarray) -> Scores:
    from scipy.special import expit

    scores: Scores = expit(logits.astype(np.float32))
    return scores
