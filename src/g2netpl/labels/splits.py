"""Which images are held out: groups stay together, and what is rare stays in training."""

import numpy as np
import numpy.typing as npt

from g2netpl.labels.table import POSITIVE, IndexArray, LabelTable, per_class


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
    if table.groups is None and not (per_class(table.values, POSITIVE) == 1).any():
        return kept
    lowest = np.full(len(table.classes), len(table))
    highest = np.full(len(table.classes), -1)
    rows, columns = np.nonzero(table.values == POSITIVE)
    np.minimum.at(lowest, columns, numbers[rows])
    np.maximum.at(highest, columns, numbers[rows])
    return np.asarray(np.isin(numbers, lowest[lowest == highest]))
