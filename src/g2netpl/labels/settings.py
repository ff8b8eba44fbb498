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

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from g2netpl.base.errors import InputError, did_you_mean
from g2netpl.labels import masks as drawing
from g2netpl.labels.entries import blocks, pairs, per_class
from g2netpl.labels.masks import IndexArray
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable

Kind = Literal["full", "fspl", "sspl", "positives", "known", "biased", "own"]
SPML_SEED = 1200

__all__ = ["SPML_SEED", "IndexArray", "Setting", "observe", "split_indices", "split_table"]


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
        if kind not in get_args(Kind):
            raise InputError(f"unknown setting {text!r} ({did_you_mean(kind, get_args(Kind))})")
        if kind in ("full", "fspl", "own") and colon:
            raise InputError(f"setting {text!r}: {kind} takes no value")
        value: dict[str, Any] = {}
        try:
            if kind == "positives":
                positives, _, negatives = argument.partition("+")
                value = {"positives": int(positives), "negatives": int(negatives or 0)}
            elif kind == "biased":
                value = {"bias": argument}
            elif kind in ("sspl", "known"):
                value = {"fraction": float(argument)}
        except ValueError:
            example = {"positives": "positives:1+1"}.get(kind, f"{kind}:0.2")
            raise InputError(f"setting {text!r}: expected a form like {example}") from None
        return cls(kind, spml_compatible=suffix == "spml", **value)  # type: ignore[arg-type]

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
            unknown = len(table) * len(table.classes) - table.known
            raise InputError(
                f"setting full: every label must be known, {unknown} are not; "
                "use the setting 'own' to train on the labels as they are"
            )
        return table
    if setting.spml_compatible:
        positives, negatives = (
            (1, 0) if setting.kind == "fspl" else (setting.positives, setting.negatives)
        )
        return table.with_values(drawing.spml_masks(table.held, positives, negatives, seed))
    # one stream of random numbers per kind: sspl:0.2 of a seed is a part of fspl of that seed
    random = np.random.default_rng([seed, 0x6F62])
    if setting.kind == "known":
        return table.with_values(drawing.by_chance(table.held, setting.fraction, random))
    if setting.kind == "positives":
        counts = {POSITIVE: setting.positives, NEGATIVE: setting.negatives}
        return table.with_values(drawing.some_of_each(table.held, counts, random))
    chosen = drawing.one_per_image(table.held, _chances(table, setting), random)
    if setting.kind == "sspl":
        chosen = drawing.subset(chosen, len(table.classes), setting.fraction, random)
    return table.with_values(drawing.single_positives(table.held, chosen))


def _chances(table: LabelTable, setting: Setting) -> npt.NDArray[np.floating] | None:
    """How likely each class is to be named, (L,) or (N, L); None where all are alike."""
    if setting.kind != "biased":
        return None
    if setting.bias == "frequency":
        return per_class(table.held, POSITIVE).astype(np.float64)
    if table.sizes is None:
        raise InputError("setting biased:size: this table knows no object sizes")
    return np.maximum(table.sizes, 1e-9)


def split_indices(
    count: int,
    fraction: float,
    seed: int,
    spml_compatible: bool = False,
    groups: IndexArray | None = None,
    kept: npt.NDArray[np.bool_] | None = None,
) -> tuple[IndexArray, IndexArray]:
    """Training and validation images, both sorted; `fraction` of `count` go to validation.

    Images with the same number in `groups`, (count,), go to the same part, so that there may be
    some more or fewer; a group with an image that must be `kept` for training stays there.
    """
    generator: np.random.Generator | np.random.RandomState
    if spml_compatible:
        generator = np.random.RandomState(seed)
    else:
        generator = np.random.default_rng([seed, 0x7370])
    order = generator.permutation(count).astype(np.int64)
    wanted = int(np.round(fraction * count))
    if groups is None and kept is None:
        return np.sort(order[: count - wanted]), np.sort(order[count - wanted :])
    numbers = np.arange(count) if groups is None else groups
    staying = np.zeros(0, np.int64) if kept is None else np.unique(numbers[kept])
    held = np.isin(numbers, _drawn_groups(numbers[order[::-1]], wanted, staying))
    return np.flatnonzero(~held), np.flatnonzero(held)


def _drawn_groups(drawn: IndexArray, wanted: int, staying: IndexArray) -> list[int]:
    """Groups of about so many images, in the order in which their first image is drawn.

    A group is taken if that brings us nearer to the number and something is left; at least one is.
    """
    if not wanted:
        return []
    numbers, first, sizes = np.unique(drawn, return_index=True, return_counts=True)
    order = np.argsort(first)
    free = order[~np.isin(numbers[order], staying)]
    taken: list[int] = []
    count = 0
    for group, size in zip(numbers[free].tolist(), sizes[free].tolist(), strict=True):
        if size < min(2 * (wanted - count), len(drawn) - count):
            taken.append(group)
            count += size
    if not taken and len(free) and len(numbers) > 1:
        taken = [int(numbers[free[np.argmin(sizes[free])]])]
    return taken


def split_table(
    table: LabelTable, fraction: float, seed: int, rows: IndexArray | None = None
) -> tuple[IndexArray, IndexArray]:
    """Images to train on and images to judge by, which are drawn from `rows` if these are given.

    Groups stay together, and the only image or group with a positive of a class is trained on.
    """
    among = np.arange(len(table)) if rows is None else rows
    groups = None if table.groups is None else table.group_numbers
    kept = _only_positives(table)
    some = None if groups is None else groups[among]
    which = kept[among] if kept.any() else None
    held = among[split_indices(len(among), fraction, seed, groups=some, kept=which)[1]]
    if groups is not None:  # with those that nothing is known about
        held = np.flatnonzero(np.isin(groups, groups[held]))
    return np.setdiff1d(np.arange(len(table)), held), held


def _only_positives(table: LabelTable) -> npt.NDArray[np.bool_]:
    """Which images are of a group that has all positives of some class, (N,)."""
    numbers, kept = table.group_numbers, np.zeros(len(table), dtype=bool)
    if table.groups is None and not (per_class(table.held, POSITIVE) == 1).any():
        return kept
    lowest = np.full(len(table.classes), len(table))
    highest = np.full(len(table.classes), -1)
    for start, part in blocks(table.held):
        rows, columns = pairs(part, POSITIVE)
        np.minimum.at(lowest, columns, numbers[start + rows])
        np.maximum.at(highest, columns, numbers[start + rows])
    return np.asarray(np.isin(numbers, lowest[lowest == highest]))
