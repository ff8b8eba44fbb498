"""Near-duplicates: pictures that look the same, whatever their files hold.

The look of a picture is 64 bits: the signs of the lowest frequencies of a grey 32 × 32 thumbnail
(a perceptual hash). Another size, JPEG quality or brightness changes a few of them, another picture
about half. Pictures that differ in 8 bits at most are taken as near-duplicates.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

Looks = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]

MOST_BITS = 8  # in which the looks of near-duplicates differ
_SIDE, _FREQUENCIES = 32, 8
_CELLS = 1 << 24  # pairs that are compared at a time
_WAVES = np.cos(
    np.pi / (2 * _SIDE) * np.outer(np.arange(_FREQUENCIES), 2 * np.arange(_SIDE) + 1)
).astype(np.float32)


def look_of(image: Image.Image) -> int:
    """The look of a picture. Its mean brightness is left out; one without any contrast has 0."""
    grey = image.convert("L").resize((_SIDE, _SIDE), Image.Resampling.BOX, reducing_gap=2)
    waves = _WAVES @ np.asarray(grey, dtype=np.float32) @ _WAVES.T
    signs = waves.ravel() > 1  # and not 0: rounding
    signs[0] = False
    return int.from_bytes(np.packbits(signs).tobytes())


@dataclass(frozen=True)
class NearDuplicates:
    """What was found among N pictures."""

    groups: Numbers  # a number per picture, (N,); near-duplicates have the same
    pairs: int
    apart: int  # pairs of which one is in another part than the other


def near_duplicates(
    looks: Sequence[int], parts: Sequence[int], groups: Numbers | None = None
) -> NearDuplicates:
    """Pictures that look the same, and whatever looks the same as they, are joined in a group.

    `parts` says in which part of the data each picture is; `groups` are those there are already.
    """
    different, which = np.unique(np.array(looks, dtype=np.uint64), return_inverse=True)
    joined = np.arange(len(which)) if groups is None else groups.copy()
    in_part = np.zeros((len(different), max(parts, default=0) + 1), dtype=np.int64)
    np.add.at(in_part, (which, np.asarray(parts, dtype=np.int64)), 1)
    sizes = in_part.sum(axis=1)
    pairs = int((sizes * (sizes - 1)).sum()) // 2
    apart = int((sizes**2).sum() - (in_part**2).sum()) // 2
    members = np.split(np.argsort(which, kind="stable"), np.cumsum(sizes)[:-1])
    for look in np.flatnonzero(sizes > 1).tolist():
        _join(joined, members[look])
    for one, others in _near(different):
        together = int(sizes[one] * sizes[others].sum())
        pairs += together
        apart += together - int((in_part[others] @ in_part[one]).sum())
        _join(joined, np.concatenate([members[one], *(members[other] for other in others)]))
    return NearDuplicates(joined, pairs, apart)


def named_groups(images: Sequence[str], names: Sequence[str], numbers: Numbers) -> dict[str, str]:
    """The group of every image that is not alone, called as one of them was, or as its first."""
    members: dict[int, list[int]] = {}
    for row, number in enumerate(numbers.tolist()):
        members.setdefault(number, []).append(row)
    found: dict[str, str] = {}
    for rows in members.values():
        name = next((names[row] for row in rows if names[row]), images[rows[0]])
        found |= {images[row]: name for row in rows if len(rows) > 1}
    return found


def _near(looks: Looks) -> Iterator[tuple[int, Numbers]]:
    """Different looks, each with those further on that are near: all are compared, in blocks."""
    bits = np.unpackbits(looks[:, None].view(np.uint8), axis=1).astype(np.float32)
    signs = 2 * bits - 1
    step = max(1, _CELLS // max(len(looks), 1))
    for start in range(0, len(looks), step):
        alike = signs[start : start + step] @ signs[start:].T  # 64, less 2 for every other bit
        near = np.triu(alike >= 64 - 2 * MOST_BITS, 1)
        for row in np.flatnonzero(near.any(axis=1)).tolist():
            yield start + row, start + np.flatnonzero(near[row])


def _join(groups: Numbers, members: Numbers) -> None:
    """Make one group of all groups that the members are in."""
    numbers = np.unique(groups[members])
    if len(numbers) > 1:
        groups[np.isin(groups, numbers)] = numbers[0]
