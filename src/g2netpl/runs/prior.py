"""The prior of a run: class names that the backbone knows, another tagger's scores, or none."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from g2netpl.core.models import Backbone
from g2netpl.core.prior import NamePrior, Prior, ScoresPrior, log_scores
from g2netpl.labels.class_names import (
    Match,
    class_weights,
    imagenet_synsets,
    match_names,
    summary,
)
from g2netpl.labels.names import match_known, normalize_name
from g2netpl.runs.train_config import PRIORS, TrainConfig
from g2netpl.utils.arrays import first_line
from g2netpl.utils.errors import InputError, did_you_mean


@dataclass(frozen=True)
class FoundPrior:
    """What is known about the classes before any tag, and how."""

    kind: Literal["names", "scores", "none"]
    reason: str
    prior: Prior | None = None
    scores: "ScoreTable | None" = None
    matches: Sequence[Match] = ()


def find_prior(config: TrainConfig, classes: Sequence[str], backbone: Backbone) -> FoundPrior:
    """The prior that a run asks for."""
    if config.names is not None and config.prior not in ("auto", "names"):
        raise InputError(f"names: a table of class names is not used with prior {config.prior}")
    if config.prior == "none":
        return FoundPrior("none", "given")
    if config.prior not in PRIORS:
        table = read_scores(config.prior, classes)
        return FoundPrior("scores", str(table), ScoresPrior(table.is_matched), table)
    synsets = []
    if backbone.classifier is not None:
        synsets = imagenet_synsets(len(backbone.classifier[0]))
    if backbone.classifier is None or not synsets:
        why = f"the backbone {config.backbone} has no ImageNet classifier"
        if config.prior == "names" or config.names is not None:
            given = "prior names" if config.prior == "names" else "names"
            raise InputError(f"{given}: {why}; leave it out")
        return FoundPrior("none", why)
    matches = match_names(classes, synsets, config.names)
    groups = torch.from_numpy(class_weights(matches, synsets))
    reason = summary(matches, synsets)
    if not groups.any():
        return FoundPrior("none", reason, matches=matches)
    return FoundPrior("names", reason, NamePrior(*backbone.classifier, groups), matches=matches)


@dataclass(frozen=True)
class ScoreTable:
    """Scores in [0, 1] of another tagger; NaN where one is missing."""

    path: str
    scores: pd.DataFrame  # a row per image, a column per class of the run
    root: str = ""  # the folder of the images, to which names are relative

    def __str__(self) -> str:
        known, classes = int(self.is_matched.sum()), self.scores.shape[1]
        return f"{self.path}: {len(self.scores):,} images, {known} of {classes} classes"

    @cached_property
    def is_matched(self) -> Tensor:
        """(L,) bool: the classes that have any score."""
        return torch.tensor(self.scores.notna().any(axis=0).tolist())

    def q_of(self, images: Sequence[str]) -> Tensor:
        """q (N, L) of images by name or path; 0 where the table has no score."""
        root = os.path.join(self.root, "")
        if not (self.root and all(name.startswith(root) for name in images)):
            root = os.path.commonpath(map(os.path.dirname, images)) if images else ""
        names = [normalize_name(os.path.relpath(name, root) if root else name) for name in images]
        meant = match_known(self.scores.index, names, self.path)
        rows = self.scores.rename(index=meant).reindex(names)
        return log_scores(torch.from_numpy(rows.to_numpy(np.float32)))


def read_scores(path: str, classes: Sequence[str]) -> ScoreTable:
    """A CSV or Parquet file: a column of image names, and a column for each scored class."""
    if not Path(path).is_file():
        raise InputError(f"{path}: no such file; expected a CSV or Parquet file on this machine")
    try:
        is_parquet = Path(path).suffix.lower() in (".parquet", ".pq")
        frame = pd.read_parquet(path) if is_parquet else pd.read_csv(path, converters={0: str})
    except (OSError, ValueError) as problem:
        raise InputError(
            f"{path}: cannot be read as CSV or Parquet ({first_line(problem)})"
        ) from None
    frame = frame if frame.index.name is None else frame.reset_index()
    are_numbered = is_parquet and frame.index.dtype.kind == "i"
    if not len(frame.columns) or not (are_numbered or isinstance(frame.index, pd.RangeIndex)):
        raise InputError(f"{path}: expected a header with a name for every column")
    frame = frame.set_index("image" if "image" in frame else frame.columns[0])
    frame.index = frame.index.astype(str).map(normalize_name)
    known = [name for name in classes if name in frame]
    if not known:
        near = did_you_mean(str(frame.columns[-1]), classes) if len(frame.columns) else "none"
        raise InputError(f"{path}: no column is a class of the labels ({near})")
    if frame.index.has_duplicates:
        name = frame.index[frame.index.duplicated()][0]
        raise InputError(f"{path}: image {name!r} has two rows")
    given = frame[known]
    scores = given.apply(pd.to_numeric, errors="coerce").astype("float64")
    is_wrong = (scores.isna() & given.notna()) | (scores < 0) | (scores > 1)
    for row, column in np.argwhere(is_wrong.to_numpy()):
        image, name, value = given.index[row], known[column], given.iat[row, column]
        raise InputError(
            f"{path}: image {image!r}, class {name!r}: expected a score from 0 to 1 or nothing, "
            f"got {value!r}"
        )
    return ScoreTable(path, scores.reindex(columns=list(classes)))
