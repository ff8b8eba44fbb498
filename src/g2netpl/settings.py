"""Which labels stay visible: `observe()` hides labels of a full table as a `Setting` says.

    full               everything                            (BCE, the ceiling)
    fspl               one random positive per image         (full set, single positive label)
    sspl:0.2           as fspl, on 20 % of the images        (subset, single positive label)
    positives:1+1      1 positive and 1 negative per image   (IU's setting)
    known:0.1          every label visible with probability 0.1, both signs
    biased:frequency   as fspl, but frequent classes are named more often (`biased:size`: large
                       objects, where the table knows sizes)
    own                the labels as the user's file has them

`…@spml` (fspl and positives) draws the masks of the SPML benchmark bit for bit.
"""

from collections import deque
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from g2netpl.errors import InputError, did_you_mean
from g2netpl.labels import NEGATIVE, POSITIVE, UNOBSERVED, LabelMatrix, LabelTable

Kind = Literal["full", "fspl", "sspl", "positives", "known", "biased", "own"]
SPML_SEED = 1200

IndexArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Setting:
    """One way of observing. Build it from its name: `Setting.parse("sspl:0.2")`."""

    kind: Kind
    fraction: float = 1.0
    positives: int = 1
    negatives: int = 0
    bias: Literal["frequency", "size"] = "frequency"
    spml_compatible: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError(f"setting {self.kind!r}: {did_you_mean(self.kind, get_args(Kind))}")
        if not 0 < self.fraction <= 1:
            raise InputError(
                f"setting {self.kind}: fraction must be in (0, 1], got {self.fraction}"
            )
        if self.positives < 0 or self.negatives < 0 or self.positives + self.negatives == 0:
            raise InputError(
                f"setting {self.kind}: expected counts like 1+1 (positives + negatives), "
                f"got {self.positives}+{self.negatives}"
            )
        if self.bias not in ("frequency", "size"):
            raise InputError(f"setting biased: expected frequency or size, got {self.bias!r}")
        if self.spml_compatible and self.kind not in ("fspl", "positives"):
            raise InputError(f"setting {self.kind}: SPML's masks exist for fspl and positives only")

    @classmethod
    def parse(cls, text: str) -> "Setting":
        """Read a name such as `fspl`, `sspl:0.2`, `positives:1+1`, `known:0.1`, `fspl@spml`."""
        body, _, suffix = text.strip().partition("@")
        kind, colon, argument = body.partition(":")
        if suffix not in ("", "spml"):
            raise InputError(f"setting {text!r}: after @ only 'spml' is known, got {suffix!r}")
        spml = suffix == "spml"
        if kind not in get_args(Kind):
            raise InputError(f"unknown setting {text!r} ({did_you_mean(kind, get_args(Kind))})")
        if kind in ("full", "fspl", "own"):
            if colon:
                raise InputError(f"setting {text!r}: {kind} takes no value")
            return cls(kind, spml_compatible=spml)  # type: ignore[arg-type]
        try:
            if kind == "positives":
                positives, _, negatives = argument.partition("+")
                return cls(
                    "positives",
                    positives=int(positives),
                    negatives=int(negatives or 0),
                    spml_compatible=spml,
                )
            if kind == "biased":
                return cls("biased", bias=argument, spml_compatible=spml)  # type: ignore[arg-type]
            return cls(kind, fraction=float(argument), spml_compatible=spml)  # type: ignore[arg-type]
        except ValueError:
            example = {"positives": "positives:1+1"}.get(kind, f"{kind}:0.2")
            raise InputError(f"setting {text!r}: expected a form like {example}") from None

    def __str__(self) -> str:
        value = {
            "sspl": f":{self.fraction:g}",
            "known": f":{self.fraction:g}",
            "positives": f":{self.positives}+{self.negatives}",
            "biased": f":{self.bias}",
        }.get(self.kind, "")
        return f"{self.kind}{value}{'@spml' if self.spml_compatible else ''}"


def observe(table: LabelTable, setting: Setting, seed: int) -> LabelTable:
    """The labels that stay visible. Pure: the same table, setting and seed give the same labels.

    What is unobserved in `table` stays unobserved. Images without any positive are fine: they
    carry nothing under the single-positive settings. Under fspl, sspl and biased every class
    that has a positive keeps at least one labelled image, wherever that is possible at all.
    """
    if setting.kind == "own":
        return table
    if setting.kind == "full":
        if not table.is_complete:
            unknown = int(np.sum(table.values == UNOBSERVED))
            raise InputError(
                f"setting full: every label must be known, {unknown} are not; "
                "use the setting 'own' to train on the labels as they are"
            )
        return table
    if setting.spml_compatible:
        positives, negatives = (
            (1, 0) if setting.kind == "fspl" else (setting.positives, setting.negatives)
        )
        return table.with_values(_spml_values(table.values, positives, negatives, seed))
    # one stream of random numbers per kind: sspl:0.2 of a seed is a part of fspl of that seed
    random = np.random.default_rng([seed, 0x6F62])
    if setting.kind == "known":
        visible = random.random(table.values.shape) < setting.fraction
        return table.with_values(np.where(visible, table.values, UNOBSERVED).astype(np.int8))
    if setting.kind == "positives":
        return table.with_values(_some_of_each(table.values, setting, random))
    chosen = _one_positive_per_image(table, setting, random)
    if setting.kind == "sspl":
        chosen = _subset(chosen, len(table.classes), setting.fraction, random)
    values = np.full_like(table.values, UNOBSERVED)
    labelled = np.flatnonzero(chosen >= 0)
    values[labelled, chosen[labelled]] = POSITIVE
    return table.with_values(values)


def split_indices(
    count: int, fraction: float, seed: int, spml_compatible: bool = False
) -> tuple[IndexArray, IndexArray]:
    """Training and validation images, both sorted; `fraction` of `count` go to validation."""
    generator: np.random.Generator | np.random.RandomState
    if spml_compatible:
        generator = np.random.RandomState(seed)
    else:
        generator = np.random.default_rng([seed, 0x7370])
    order = generator.permutation(count).astype(np.int64)
    held_out = int(np.round(fraction * count))
    return np.sort(order[: count - held_out]), np.sort(order[count - held_out :])


def _spml_values(values: LabelMatrix, positives: int, negatives: int, seed: int) -> LabelMatrix:
    """SPML's masks: its generator shuffles positives, then negatives, image after image."""
    generator = np.random.RandomState(seed)
    visible = np.full_like(values, UNOBSERVED)
    for row, labels in enumerate(values):
        for value, count in ((POSITIVE, positives), (NEGATIVE, negatives)):
            candidates = np.nonzero(labels == value)[0]
            generator.shuffle(candidates)  # consumes random numbers even if none is kept
            visible[row, candidates[:count]] = value
    return visible


def _some_of_each(
    values: LabelMatrix, setting: Setting, random: np.random.Generator
) -> LabelMatrix:
    """Up to p random positives and n random negatives of every image."""
    visible = np.full_like(values, UNOBSERVED)
    for value, count in ((POSITIVE, setting.positives), (NEGATIVE, setting.negatives)):
        candidate = values == value
        lottery = np.where(candidate, random.random(values.shape), np.inf)
        rank = lottery.argsort(axis=1).argsort(axis=1)
        visible[candidate & (rank < count)] = value
    return visible


def _one_positive_per_image(
    table: LabelTable, setting: Setting, random: np.random.Generator
) -> IndexArray:
    """The class of each image's visible positive, −1 for images without a positive."""
    positive = table.values == POSITIVE
    if setting.kind == "biased" and setting.bias == "size":
        if table.sizes is None:
            raise InputError("setting biased:size: this table knows no object sizes")
        chance = np.where(positive, np.maximum(table.sizes, 1e-9), 0.0)
    elif setting.kind == "biased":
        chance = np.where(positive, positive.sum(axis=0, keepdims=True), 0).astype(np.float64)
    else:
        chance = positive.astype(np.float64)
    # a race of exponential clocks: class j rings first with probability chance_j / sum of chances
    with np.errstate(divide="ignore"):
        race = np.where(positive, random.exponential(size=chance.shape) / chance, np.inf)
    chosen = np.where(positive.any(axis=1), race.argmin(axis=1), -1).astype(np.int64)
    return _cover_every_class(chosen, positive, random)


def _cover_every_class(
    chosen: IndexArray, positive: npt.NDArray[np.bool_], random: np.random.Generator
) -> IndexArray:
    """Change as few choices as possible so that every class with a positive is chosen once.

    A class without an image takes one over from a class that has two or more, if need be along a
    chain of classes (an augmenting path of the bipartite matching).
    """
    chosen = chosen.copy()
    classes = positive.shape[1]
    count = np.bincount(chosen[chosen >= 0], minlength=classes)
    for missing in np.flatnonzero((count == 0) & positive.any(axis=0)):
        came_from: dict[int, tuple[int, int]] = {}  # class -> (image that it gives, class it helps)
        queue, seen = deque([int(missing)]), {int(missing)}
        while queue:
            taker = queue.popleft()
            if count[taker] > 1:
                break
            for image in random.permutation(np.flatnonzero(positive[:, taker])):
                giver = int(chosen[image])
                if giver not in seen:
                    seen.add(giver)
                    came_from[giver] = (int(image), taker)
                    queue.append(giver)
        else:
            continue  # more classes than images that could carry them
        giver = taker
        count[giver] -= 1
        count[missing] += 1
        while giver != missing:
            image, taker = came_from[giver]
            chosen[image] = taker
            giver = taker
    return chosen


def _subset(
    chosen: IndexArray, classes: int, fraction: float, random: np.random.Generator
) -> IndexArray:
    """Keep the label of a fraction of the labelled images, every chosen class at least once."""
    order = random.permutation(np.flatnonzero(chosen >= 0))
    size = max(round(fraction * len(order)), min(1, len(order)))
    first_of_class: dict[int, int] = {}
    for image in order:
        first_of_class.setdefault(int(chosen[image]), int(image))
    kept = list(order[:size])
    count = np.bincount(chosen[order[:size]], minlength=classes)
    position = size - 1
    for label in sorted(set(first_of_class) - set(chosen[order[:size]].tolist())):
        while position >= 0 and count[chosen[kept[position]]] < 2:
            position -= 1
        if position < 0:
            break  # fewer labelled images than classes
        count[chosen[kept[position]]] -= 1
        count[label] += 1
        kept[position] = first_of_class[label]
        position -= 1
    subset = np.full_like(chosen, -1)
    subset[kept] = chosen[kept]
    return subset
