"""How much labelling is enough: a learning curve over the user's own labelled images.

The labelled images are cut into as many parts as there are repeats. Each part is the test of one
repeat; of the other labelled images some are taken, more and more, and a last layer is trained on
their features, a fifth of them held out to choose the epoch, as in `g2netpl train`.

Where there are at least as many unlabelled images as labelled ones, an image whose label is hidden
stays in training as an unlabelled one, which it was before somebody labelled it. Where there are
fewer, it is left out: more labels will come with more images.

Small tests flatter: at every positive, average precision counts the positive itself, which is much
where few are found (+5 points of mAP for 240 COCO images). Here the precision at a positive is
that of the other images alone, and the positives of all parts are averaged together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from g2netpl.base.arrays import Scores
from g2netpl.base.console import Console
from g2netpl.base.errors import InputError, counted
from g2netpl.base.launch import device_of
from g2netpl.experiments.learning_curve import LEVEL, Estimate, Floats, LearningCurve, fit_curve
from g2netpl.images.features import Features, read_features
from g2netpl.images.loader import ArraySource
from g2netpl.labels.files import named
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, IndexArray, LabelTable, per_class
from g2netpl.runs.config import RunConfig
from g2netpl.runs.metrics import Truth, can_rank
from g2netpl.training.data import read_training_data
from g2netpl.training.inputs import ImageInputs, backbone_of
from g2netpl.training.session import on_features

NEXT = 100  # labelled images
FEWEST = 100
_SMALLEST = 8  # the curve begins at an eighth of what can be trained on

Row = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """One training: on how many labelled images, and how good it was."""

    labelled: int
    repeat: int
    sums: Floats  # (L,) precisions at the positives of the test part, added up
    positives: npt.NDArray[np.int64]  # (L,) how many

    @property
    def score(self) -> float:
        """mAP over the classes that the test part has."""
        return _mean_of_classes(self.sums, self.positives)


@dataclass(frozen=True)
class Plan:
    """The measured points, the curve through them, and what it promises."""

    labelled: int
    unlabelled: int
    classes: int  # with a positive and a negative
    sizes: tuple[int, ...]
    measured: tuple[float, ...]  # mAP at each size, all parts together
    repeats: tuple[tuple[float, ...], ...]  # of each part alone
    curve: LearningCurve = field(repr=False)

    def ahead(self) -> dict[int, Estimate]:
        """mAP today, with twice and with four times as many labelled images."""
        return {times * self.labelled: self.curve.at(times * self.labelled) for times in (1, 2, 4)}

    def next_gain(self) -> Estimate:
        """What the next 100 labelled images bring."""
        return self.curve.gain(self.labelled, NEXT)

    def next_is_told(self) -> bool:
        """Whether that can be believed."""
        return self.curve.tells(self.labelled + NEXT) and self.next_gain().is_narrow

    def lines(self) -> list[list[Any]]:
        """Every measured value, and the curve with its band up to four times today, in percent."""
        kinds = [*(("repeat", each) for each in self.repeats), ("measured", self.measured)]
        lines: list[list[Any]] = [
            [size, kind, _percent(value), "", ""]
            for kind, values in kinds
            for size, value in zip(self.sizes, values, strict=True)
        ]
        for size in np.geomspace(self.sizes[0], 4 * self.labelled, 60).round():
            found = self.curve.at(size)
            band = [_percent(value) for value in (found.value, found.low, found.high)]
            lines.append([int(size), "curve", *band])
        return lines

    def to_json(self) -> Row:
        """Plain values for plan.json."""
        curve = self.curve
        return {
            "labelled_images": self.labelled,
            "unlabelled_images": self.unlabelled,
            "classes_measured": self.classes,
            "band": LEVEL,
            "measured": [
                {"labelled": size, "map": level, "repeats": list(each)}
                for size, level, each in zip(
                    self.sizes, self.measured, zip(*self.repeats, strict=True), strict=True
                )
            ],
            "curve": {
                "formula": "ceiling - drop * (labelled / largest) ** -exponent",
                "ceiling": curve.ceiling,
                "drop": curve.drop,
                "exponent": curve.exponent,
                "largest": curve.largest,
                "shows_ceiling": curve.shows_ceiling,
            },
            "forecast": [
                {"labelled": size, **asdict(found), "told": curve.tells(size)}
                for size, found in self.ahead().items()
            ],
            f"next_{NEXT}": {**asdict(self.next_gain()), "told": self.next_is_told()},
        }


def make_plan(table: LabelTable, points: Sequence[Point]) -> Plan:
    """The curve through all trainings."""
    sizes = sorted({point.labelled for point in points})
    repeats = sorted({point.repeat for point in points})
    found = {(point.repeat, point.labelled): point for point in points}
    level = [
        _mean_of_classes(
            sum((found[repeat, size].sums for repeat in repeats), np.zeros(1)),
            sum((found[repeat, size].positives for repeat in repeats), np.zeros(1, np.int64)),
        )
        for size in sizes
    ]
    alone = [[found[repeat, size].score for size in sizes] for repeat in repeats]
    labelled = labelled_rows(table)
    measured = (per_class(table.values, POSITIVE) > 0) & (per_class(table.values, NEGATIVE) > 0)
    return Plan(
        len(labelled),
        len(table) - len(labelled),
        int(measured.sum()),
        tuple(sizes),
        tuple(level),
        tuple(tuple(each) for each in alone),
        fit_curve([float(size) for size in sizes], alone, level),
    )


def measure(
    features: Features, table: LabelTable, config: RunConfig, points: int, repeats: int
) -> Iterator[Point]:
    """Train on more and more of the labelled images, in every repeat."""
    sizes = sizes_of(table, config, points, repeats)
    for repeat, (test, others) in enumerate(_parts(table, config, repeats, sizes[0])):
        for size in sizes:
            yield _train(features, table, config, others, size, test, repeat)


def sizes_of(table: LabelTable, config: RunConfig, points: int, repeats: int) -> list[int]:
    """How many labelled images are trained on."""
    largest = max(map(len, _tests(table, _random(config), repeats)))
    return sizes_to_try(len(labelled_rows(table)) - largest, points)


def sizes_to_try(most: int, points: int) -> list[int]:
    """From an eighth of what every repeat can train on to all of it, by equal factors."""
    return sorted({round(size) for size in np.geomspace(most / _SMALLEST, most, points)})


def read_pool(
    config: RunConfig, is_features: bool, console: Console
) -> tuple[Features, LabelTable]:
    """All images, labelled or not: their features, and what is known about them.

    Labels are looked at before any image is.
    """
    if is_features:
        folder = read_features(named(config.labels))
        return folder.train_features, folder.train
    data = read_training_data(config.model_copy(update={"validation": 0.0, "setting": "own"}))
    check_plan(data.table, named(config.labels))
    for note in data.notes:
        console.print(f"note: {note}")
    backbone = backbone_of(config)
    backbone.module.to(device_of(config.device))
    sources = ImageInputs(config, data, backbone, console)
    sources.prepare()
    inputs = next(sources.all("linear").load([np.arange(len(data.table))], None))
    features: Features = inputs.numpy()
    readable = np.flatnonzero(~np.isnan(features).any(axis=1))
    return features[readable], data.table.take(readable)


def check_plan(table: LabelTable, where: str) -> None:
    """Refuse what no mAP can be measured on, in one line with a way out."""
    labelled = labelled_rows(table)
    if not can_rank(table.values[labelled]):
        raise InputError(
            f"{where}: no class has known positives and known negatives, so mAP cannot be measured "
            "and nothing can be planned; label 200 or more random images completely, with 0 for "
            "what is not there (where the file is complete, say --absent negative)"
        )
    if len(labelled) < FEWEST:
        raise InputError(
            f"{where}: expected {FEWEST} or more labelled images, got {len(labelled)}; a curve "
            "through fewer tells nothing"
        )


def labelled_rows(table: LabelTable) -> IndexArray:
    """Images that something is known about."""
    return np.flatnonzero(table.labelled)


def precision_among_others(scores: Scores, truth: Truth) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Per class: the sum over positives of the precision of all other images at or above it.

    A positive with nothing above it counts 1. The second result is the number of positives. A class
    without a known negative has nothing to be ranked against: both are 0.
    """
    ranked = (truth == NEGATIVE).any(axis=0)
    sums = np.zeros(truth.shape[1])
    for column in np.flatnonzero(ranked):
        known = truth[:, column] != UNOBSERVED
        every = np.sort(scores[known, column])
        own = np.sort(scores[truth[:, column] == POSITIVE, column])
        above = len(every) - np.searchsorted(every, own, "left") - 1
        found = len(own) - np.searchsorted(own, own, "left") - 1
        sums[column] = np.where(above > 0, found / np.maximum(above, 1), 1.0).sum()
    return sums, (truth == POSITIVE).sum(axis=0) * ranked


def describe(plan: Plan, config: RunConfig) -> str:
    """The plan in a few lines for people."""
    unit = "one object named" if config.setting == "fspl" else "labelled as in the file"
    lines = [
        f"{counted(plan.labelled, 'labelled image')} and {plan.unlabelled:,} unlabelled, mAP over "
        f"{plan.classes} classes; {config.method} on a frozen backbone; an image counts as "
        f"labelled with {unit}.",
        f"Measured: mAP {plan.measured[0]:.1%} with {plan.sizes[0]:,} labelled images, "
        f"{plan.measured[-1]:.1%} with {plan.sizes[-1]:,}.",
    ]
    for (size, found), name in zip(
        plan.ahead().items(), ("today", "twice", "4 times"), strict=True
    ):
        band = f"({found.low:.1%} to {found.high:.1%})"
        told = f"mAP {found.value:.1%} {band}"
        if not plan.curve.tells(size):
            told = f"the curve does not tell {band}"
            if found.is_narrow:
                told = f"not to be told yet ({found.value:.1%} if it goes on like this)"
        lines.append(f"{name}, {size:,} labelled images: {told}")
    gain = plan.next_gain()
    lines.append(
        f"The next {NEXT} labelled images would bring {100 * gain.value:+.1f} points of mAP "
        f"({100 * gain.low:+.1f} to {100 * gain.high:+.1f})."
        if plan.next_is_told()
        else f"What the next {NEXT} labelled images would bring cannot be told from so few."
    )
    if not plan.curve.shows_ceiling:
        lines.append("There is no sign of a ceiling: label more, and plan again.")
    lines.append(f"In brackets: the {LEVEL:.0%} band. Beyond twice the labels, expect surprises.")
    return "\n".join(lines)


def _random(config: RunConfig) -> np.random.Generator:
    return np.random.default_rng([config.seed, 0x706C])


def _tests(table: LabelTable, random: np.random.Generator, repeats: int) -> list[IndexArray]:
    """The labelled images in as many parts, of about the same size; groups stay together."""
    order = random.permutation(labelled_rows(table))
    if table.groups is None:
        return list(np.array_split(order, repeats))
    groups: dict[int, list[int]] = {}
    for image, group in zip(order.tolist(), table.group_numbers[order].tolist(), strict=True):
        groups.setdefault(group, []).append(image)
    parts: list[list[int]] = [[] for _ in range(repeats)]
    for images in groups.values():
        min(parts, key=len).extend(images)
    return [np.array(part, dtype=np.int64) for part in parts]


def _parts(
    table: LabelTable, config: RunConfig, repeats: int, least: int
) -> list[tuple[IndexArray, IndexArray]]:
    """For each repeat the images to test on and the others; each test and training has a use."""
    labelled = labelled_rows(table)
    random = _random(config)
    parts = []
    for test in _tests(table, random, repeats):
        others = random.permutation(np.setdiff1d(labelled, test))  # each repeat begins elsewhere
        learnt = (table.values[others[:least]] == POSITIVE).any()
        if not (can_rank(table.values[test]) and learnt):
            raise InputError(
                f"{named(config.labels)}: too few positives for {repeats} parts to test on: one of "
                f"them has no class with a positive and a negative, or {least} of the other images "
                "have no positive to learn from; label more images, or give fewer --repeats"
            )
        parts.append((test, others))
    return parts


def _train(
    features: Features,
    table: LabelTable,
    config: RunConfig,
    others: IndexArray,
    size: int,
    test: IndexArray,
    repeat: int,
) -> Point:
    """Hide all labels but those of the first `size` of the other images, train, and test."""
    labelled = labelled_rows(table)
    unlabelled = np.setdiff1d(np.arange(len(table)), labelled)
    if table.groups is not None:  # as a validation leaves them out
        numbers = table.group_numbers
        unlabelled = unlabelled[~np.isin(numbers[unlabelled], numbers[test])]
    keep = others if len(unlabelled) >= len(labelled) else others[:size]
    rows = np.sort(np.concatenate([keep, unlabelled]))
    values = np.where(np.isin(rows, others[:size])[:, None], table.values[rows], UNOBSERVED)
    config = config.model_copy(update={"seed": config.seed + repeat})
    session = on_features(config, features[rows], table.take(rows).with_values(values))
    best = session.play().best_network
    scores = session.predict(best, ArraySource(torch.from_numpy(features[test])))
    return Point(size, repeat, *precision_among_others(scores, table.values[test]))


def _percent(value: float) -> float:
    return round(100 * value, 3)


def _mean_of_classes(sums: Floats, positives: npt.NDArray[np.int64]) -> float:
    there = positives > 0
    return float((sums[there] / positives[there]).mean()) if there.any() else 0.0
