"""Images that are the same: equal files, and near-duplicates by a perceptual hash.

The hash has 64 bits: the signs of the lowest frequencies of a grey 32 × 32 thumbnail. Another size,
JPEG quality or brightness changes a few of them, another image about half. Images that differ in at
most 8 bits are near-duplicates.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy.fft import dctn
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from g2netpl.utils.image_refs import file_digest, stamp_of

Numbers = npt.NDArray[np.int64]

MAX_BITS = 8  # in which the hashes of near-duplicates differ
_SIDE, _FREQUENCIES = 32, 8
_CELLS = 1 << 24  # pairs that are compared at a time


def same_files(paths: Sequence[str], others: Sequence[str]) -> list[tuple[int, int]]:
    """Which of the others are among `paths`, as the same file or with the same content.

    Returns the row of a path and of another, for every other once. Only files of equal size are
    read.
    """
    places = {os.path.realpath(path): row for row, path in reversed([*enumerate(paths)])}
    same = {row: places.get(os.path.realpath(path)) for row, path in enumerate(others)}
    sizes = [stamp_of(path)[0] for path in paths]
    left = {row: stamp_of(others[row])[0] for row, place in same.items() if place is None}
    shared = {size for size in left.values() if size > 0} & set(sizes)
    mine = [row for row, size in enumerate(sizes) if size in shared]
    theirs = [row for row, size in left.items() if size in shared]
    with ThreadPoolExecutor() as pool:  # enough to keep a disk busy
        digests = [*pool.map(file_digest, (paths[row] for row in mine))]
        by_content = dict(zip(reversed(digests), reversed(mine), strict=True))
        by_content.pop(None, None)  # of files that cannot be read
        for row, digest in zip(
            theirs, pool.map(file_digest, (others[row] for row in theirs)), strict=True
        ):
            same[row] = by_content.get(digest)
    return [(place, row) for row, place in same.items() if place is not None]


def phash(image: Image.Image) -> int:
    """The perceptual hash. The mean brightness is left out; an image without contrast has 0."""
    grey = image.convert("L").resize((_SIDE, _SIDE), Image.Resampling.BOX, reducing_gap=2)
    waves = dctn(np.asarray(grey, dtype=np.float32))[:_FREQUENCIES, :_FREQUENCIES]
    signs = waves.ravel() > 4  # not 0, because of rounding
    signs[0] = False
    return int.from_bytes(np.packbits(signs).tobytes())


@dataclass(frozen=True)
class NearDuplicates:
    """What was found among N images."""

    groups: Numbers  # a number per image, (N,); near-duplicates have the same
    pairs: int
    apart: int  # pairs whose images are in different splits


def near_duplicates(
    hashes: Sequence[int], splits: Sequence[int], groups: Numbers | None = None
) -> NearDuplicates:
    """Join images that look the same, and all that look like one of them, into a group.

    `splits` is the split of each image; `groups` are those that exist already.
    """
    count = len(hashes)
    different, which = np.unique(np.array(hashes, dtype=np.uint64), return_inverse=True)
    in_split = np.zeros((len(different), max(splits, default=0) + 1), np.int64)
    np.add.at(in_split, (which, np.asarray(splits, dtype=np.int64)), 1)
    sizes, (one, other) = in_split.sum(axis=1), _near(different)
    pairs = (sizes * (sizes - 1) // 2).sum() + (sizes[one] * sizes[other]).sum()
    together = (in_split * (in_split - 1) // 2).sum() + (in_split[one] * in_split[other]).sum()
    # nodes of the graph: images, then hashes, then groups
    edges = [(np.arange(count), count + which), (count + one, count + other)]
    if groups is not None:
        _, group = np.unique(groups, return_inverse=True)
        edges.append((np.arange(count), count + len(different) + group))
    rows, columns = np.concatenate(edges, axis=1)
    nodes = 2 * count + len(different)
    graph = coo_array((np.ones(len(rows), np.int8), (rows, columns)), shape=(nodes, nodes))
    _, joined = connected_components(graph, directed=False)
    return NearDuplicates(joined[:count].astype(np.int64), int(pairs), int(pairs - together))


def named_groups(images: Sequence[str], names: Sequence[str], numbers: Numbers) -> dict[str, str]:
    """The group name of every image in a group of several: that of a member, or its first image."""
    members: dict[int, list[int]] = {}
    for row, number in enumerate(numbers.tolist()):
        members.setdefault(number, []).append(row)
    groups: dict[str, str] = {}
    for rows in members.values():
        name = next((names[row] for row in rows if names[row]), images[rows[0]])
        groups |= {images[row]: name for row in rows if len(rows) > 1}
    return groups


def _near(hashes: npt.NDArray[np.uint64]) -> tuple[Numbers, Numbers]:
    """All pairs of near hashes, as two arrays of rows; compared in blocks."""
    pairs = [np.zeros((2, 0), np.int64)]
    step = max(1, _CELLS // max(len(hashes), 1))
    for start in range(0, len(hashes), step):
        distance = np.bitwise_count(hashes[start : start + step, None] ^ hashes[start:])
        pairs.append(start + np.stack(np.nonzero(np.triu(distance <= MAX_BITS, 1))))
    one, other = np.concatenate(pairs, axis=1)
    return one, other
