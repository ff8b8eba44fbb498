"""What a classifier makes of blocks of images: predictions, or completed labels; see parts.py."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from g2netpl.images.sources import Catalogue, images_at
from g2netpl.labels.table import POSITIVE, UNOBSERVED, LabelTable
from g2netpl.runs.bundle import load_bundle
from g2netpl.runs.classifier import Classifier, OnBatch
from g2netpl.runs.completion import fill_in, mark_between, prediction_columns, prediction_kinds
from g2netpl.runs.hub import is_bundle
from g2netpl.runs.parts import Block, Made
from g2netpl.runs.run import Run, load_run
from g2netpl.runs.sure import Sure
from g2netpl.runs.thresholds import Thresholds
from g2netpl.utils import launch as launched
from g2netpl.utils.arrays import Scores
from g2netpl.utils.errors import InputError

Find = Callable[[Sequence[str]], Sequence[str]]  # of names, the paths
ScoreEach = Callable[..., Iterator[Scores]]  # as `Classifier.score_each`; NaN where unreadable


def load_classifier(name: str, device: str = "cpu", prior: str | None = None) -> Classifier:
    """A bundle, or the run in a folder; `auto` has its network on a GPU if there is one.

    `prior` is a file with the scores of the images, for a run that was trained with one.
    """
    is_with_scores = not is_bundle(name) and Run.open(name).prior_kind == "scores"
    if prior is not None and not is_with_scores:
        raise InputError(f"--prior: {name} was not trained with a file of scores; leave it out")
    if is_bundle(name):
        return load_bundle(name)
    run = load_run(name)
    if prior is not None:
        from g2netpl.runs.prior import read_scores

        run = replace(run, prior=read_scores(prior, run.classes))
    if device == "auto":
        run.model.to(launched.device_of(device))
    return run


class FindAt:
    """Finds images at an address by their exact names; what is not there is unreadable.

    Another process is given the address alone, and looks there itself.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    @cached_property
    def images(self) -> Catalogue:
        """All that are there."""
        return images_at(self.address)

    def __call__(self, names: Sequence[str]) -> list[str]:
        """Their places."""
        return self.images.find(names, exactly=True).paths

    def missing(self, names: Sequence[str]) -> list[str]:
        """Those that are not there."""
        return [names[row] for row in self.images.find(names, exactly=True).missing]

    @property
    def notes(self) -> list[str]:
        """What a person should be told of what is there."""
        return self.images.find([], exactly=True).notes

    def __reduce__(self) -> tuple[type["FindAt"], tuple[str]]:
        return FindAt, (self.address,)


def find_among(paths: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """Paths of images that were looked for before."""
    return [paths[name] for name in names]


class Look(NamedTuple):
    """A block, what is said of each image, and the places of those that could not be read."""

    block: Block
    found: Scores
    unread: list[str]

    def counts(self, **more: int) -> dict[str, int]:
        """What can be added up."""
        return {"images": len(self.found), "unread": len(self.unread), **more}


@dataclass(frozen=True)
class Scoring:
    """A classifier at work on images of which there are `count` in all."""

    classifier: Classifier
    find: Find
    count: int
    workers: int = 0

    def scored(self, blocks: Iterable[Block], on_batch: OnBatch) -> Iterator[Look]:
        """Scores of each block, before calibration."""
        score_each, find = self.classifier.score_each, self.find
        return looked_at(score_each, find, blocks, self.count, self.workers, on_batch)


def looked_at(
    score_each: ScoreEach,
    find: Find,
    blocks: Iterable[Block],
    count: int,
    workers: int,
    on_batch: OnBatch,
) -> Iterator[Look]:
    """One block after the other; images are looked for when their turn comes."""
    waiting: deque[tuple[Block, Sequence[str]]] = deque()

    def lists() -> Iterator[Sequence[str]]:
        for block in blocks:
            waiting.append((block, find(block.images)))
            yield waiting[-1][1]

    for found in score_each(lists(), count, workers, on_batch=on_batch):
        block, paths = waiting.popleft()
        unread = np.flatnonzero(np.isnan(found).any(axis=1)).tolist()
        yield Look(block, found, [paths[row] for row in unread])


@dataclass(frozen=True)
class Predicting:
    """A row per image: its labels as tags, and a score per class."""

    scoring: Scoring
    thresholds: Thresholds
    with_scores: bool

    @property
    def kinds(self) -> Mapping[str, str]:
        """The columns."""
        return prediction_kinds(self.scoring.classifier.classes, self.with_scores)

    @property
    def depends(self) -> dict[str, Any]:
        """What other results would depend on."""
        about = {"classifier": self.scoring.classifier.digest}
        return {**about, "thresholds": self.thresholds.to_json(), "scores": self.with_scores}

    def make(self, blocks: Iterable[Block], on_batch: OnBatch = None) -> Iterator[Made]:
        """One block after the other."""
        classes = self.scoring.classifier.classes
        mark = mark_between(classes, self.with_scores)
        for look in self.scoring.scored(blocks, on_batch):
            scores = self.thresholds.calibrate(look.found)
            decided = self.thresholds.decide(scores)
            shown = scores if self.with_scores else None
            columns = prediction_columns(look.block.images, classes, decided, shown, mark)
            counts = look.counts(labels=int(decided.sum()))
            yield Made(look.block.number, columns, counts, look.unread)


@dataclass(frozen=True)
class Completing:
    """A row per image and a column per class: 1 or 0, as observed or else by prediction."""

    scoring: Scoring
    thresholds: Thresholds  # of labels that are not observed
    k: float
    sure: Sure | float | None

    @property
    def depends(self) -> dict[str, Any]:
        """What other results would depend on."""
        digest, thresholds = self.scoring.classifier.digest, self.thresholds.to_json()
        about = {"classifier": digest, "thresholds": thresholds}
        return {**about, "sure": self.sure if isinstance(self.sure, float) else str(self.sure)}

    @property
    def kinds(self) -> Mapping[str, str]:
        """The columns."""
        return {"image": "text", **dict.fromkeys(self.scoring.classifier.classes, "int")}

    def make(self, blocks: Iterable[Block], on_batch: OnBatch = None) -> Iterator[Made]:
        """One block after the other."""
        classes = self.scoring.classifier.classes
        for look in self.scoring.scored(blocks, on_batch):
            block = look.block
            assert block.known is not None
            observed = LabelTable(block.images, classes, block.known)
            none = np.zeros(len(observed), dtype=bool)
            parts = (observed, none, look.found, self.thresholds, self.k)
            values = fill_in(*parts, self.sure).values
            columns: dict[str, Any] = {"image": list(block.images)}
            for name, each in zip(classes, values.T, strict=True):
                columns[name] = np.ma.masked_array(each, each == UNOBSERVED)
            counts = look.counts(
                observed=observed.known,
                known=int((values != UNOBSERVED).sum()),
                positives=int((values == POSITIVE).sum()),
            )
            yield Made(block.number, columns, counts, look.unread)
