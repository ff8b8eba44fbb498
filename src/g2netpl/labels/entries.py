"""Labels as a matrix, or as a list of what is known, and what both forms can be asked.

A label is positive (1), negative (0) or unobserved (−1). A matrix holds one byte for each of the
N images × L classes. `Entries` hold five bytes for each known label alone: a million images with
three labels each of ten thousand classes take 23 MB instead of 10 GB.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from g2netpl.base.errors import InputError

POSITIVE, NEGATIVE, UNOBSERVED = 1, 0, -1

MOST_CELLS = 1 << 32  # of a matrix that is made from entries: 4 GB
_BLOCK = 1 << 20  # cells that are looked at as a matrix at a time

LabelMatrix = npt.NDArray[np.int8]
Indices = Sequence[int] | npt.NDArray[np.int64]
IndexArray = npt.NDArray[np.int64]
Matrix = TypeVar("Matrix", npt.NDArray[np.int8], npt.NDArray[np.float32])


@dataclass(frozen=True, eq=False)
class Entries:
    """The known labels of N images: of each image its classes, in order, and their signs.

    Image i has the places starts[i] to starts[i + 1] of `columns` and `signs`. The arrays become
    its own, and read-only.
    """

    starts: npt.NDArray[np.int64]  # (N + 1,)
    columns: npt.NDArray[np.int32]  # numbers of classes
    signs: LabelMatrix  # 1 or 0
    classes: int  # L

    def __post_init__(self) -> None:
        for name, kind in (("starts", np.int64), ("columns", np.int32), ("signs", np.int8)):
            array = np.ascontiguousarray(getattr(self, name), dtype=kind)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        problem = self._problem()
        if problem is not None:
            raise InputError(f"label entries: {problem}")

    @classmethod
    def of_matrix(cls, matrix: LabelMatrix) -> "Entries":
        """The known labels of a matrix."""
        known = matrix != UNOBSERVED
        columns = np.nonzero(known)[1].astype(np.int32)
        return cls(_starts(known.sum(axis=1)), columns, matrix[known], matrix.shape[1])

    @classmethod
    def of_pairs(
        cls,
        shape: tuple[int, int],
        rows: npt.NDArray[np.integer],
        columns: npt.NDArray[np.integer],
        signs: npt.NDArray[np.integer],
    ) -> "Entries":
        """Labels in any order; named twice they are one, and of both signs the positive stays."""
        if not (rows[1:] >= rows[:-1]).all():
            order = np.argsort(rows, kind="stable")
            rows, columns, signs = rows[order], columns[order], signs[order]
        counts = np.zeros(shape[0], dtype=np.int64)
        kept: list[tuple[npt.NDArray[np.int32], LabelMatrix]] = []
        start = 0
        while start < len(rows):  # some images at a time, which takes less memory
            last = rows[min(start + _BLOCK, len(rows)) - 1]
            stop = int(np.searchsorted(rows, last, side="right"))
            part = slice(start, stop)
            kept.append(_sorted(rows[part], columns[part], signs[part], shape[1], counts))
            start = stop
        return cls(
            _starts(counts),
            np.concatenate([np.zeros(0, dtype=np.int32), *(each for each, _ in kept)]),
            np.concatenate([np.zeros(0, dtype=np.int8), *(each for _, each in kept)]),
            shape[1],
        )

    @classmethod
    def nothing(cls, images: int, classes: int) -> "Entries":
        """No label known."""
        none = np.zeros(0, dtype=np.int32)
        return cls(np.zeros(images + 1, dtype=np.int64), none, none.astype(np.int8), classes)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Entries)
            and self.shape == other.shape
            and np.array_equal(self.starts, other.starts)
            and np.array_equal(self.columns, other.columns)
            and np.array_equal(self.signs, other.signs)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def shape(self) -> tuple[int, int]:
        """N and L."""
        return len(self), self.classes

    @property
    def known(self) -> int:
        """How many labels are known."""
        return len(self.columns)

    def take(self, rows: Indices) -> "Entries":
        """Some of the images, in the given order."""
        every = np.arange(len(self))
        chosen = every[np.asarray(rows, dtype=np.int64)]  # counts from the end, and refuses, for us
        if np.array_equal(chosen, every):
            return self
        lengths = np.diff(self.starts)[chosen]
        starts = _starts(lengths)
        places = np.arange(starts[-1]) + np.repeat(self.starts[chosen] - starts[:-1], lengths)
        return Entries(starts, self.columns[places], self.signs[places], self.classes)

    def part(self, start: int, stop: int) -> "Entries":
        """Neighbouring images, without a copy."""
        begin, end = self.starts[start], self.starts[stop]
        return Entries(
            self.starts[start : stop + 1] - begin,
            self.columns[begin:end],
            self.signs[begin:end],
            self.classes,
        )

    def followed_by(self, images: int) -> "Entries":
        """With more images, about which nothing is known."""
        starts = np.concatenate([self.starts, np.full(images, self.starts[-1])])
        return Entries(starts, self.columns, self.signs, self.classes)

    def rows(self) -> npt.NDArray[np.int64]:
        """The image of each label."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def matrix(self, unknown: int = UNOBSERVED) -> LabelMatrix:
        """All of it as a matrix, with `unknown` where nothing is known."""
        cells = len(self) * self.classes
        if cells > MOST_CELLS:
            raise InputError(
                f"{len(self):,} images × {self.classes:,} classes: this step needs all labels as "
                f"one matrix of {cells / 2**30:,.1f} GB, and {MOST_CELLS >> 30} GB is the most; "
                "use fewer images or classes"
            )
        matrix = np.full(self.shape, unknown, dtype=np.int8)
        matrix[self.rows(), self.columns] = self.signs
        return matrix

    def _problem(self) -> str | None:
        """What is not as promised; None if all is."""
        starts, columns, signs = self.starts, self.columns, self.signs
        if starts.ndim != 1 or not len(starts) or starts[0] != 0 or (np.diff(starts) < 0).any():
            return "starts must begin with 0 and never fall"
        if not starts[-1] == len(columns) == len(signs):
            return f"{len(columns)} classes and {len(signs)} signs, but starts end at {starts[-1]}"
        if not len(columns):
            return None
        if columns.min() < 0 or columns.max() >= self.classes:
            return f"expected numbers of classes from 0 to {self.classes - 1}"
        if signs.min() < NEGATIVE or signs.max() > POSITIVE:
            return "expected 1 (positive) or 0 (negative) as signs"
        rising = np.ones(len(columns), dtype=bool)
        np.greater(columns[1:], columns[:-1], out=rising[1:])
        rising[starts[:-1][starts[:-1] < len(columns)]] = True  # an image may begin anywhere
        return None if rising.all() else "the classes of an image must be in order, each once"


Labels = LabelMatrix | Entries


def per_class(labels: Labels, value: int | None = None) -> IndexArray:
    """How often each class has this value, (L,); without one, how often it is known."""
    if isinstance(labels, Entries):
        chosen = labels.columns if value is None else labels.columns[labels.signs == value]
        return np.bincount(chosen, minlength=labels.classes)
    return np.asarray(_has(labels, value).sum(axis=0), dtype=np.int64)


def per_image(labels: Labels, value: int | None = None) -> IndexArray:
    """How many labels of each image have this value, (N,); without one, how many are known."""
    if not isinstance(labels, Entries):
        return np.asarray(_has(labels, value).sum(axis=1), dtype=np.int64)
    if value is None:
        return np.diff(labels.starts)
    return np.bincount(labels.rows()[labels.signs == value], minlength=len(labels))


def pairs(labels: Labels, value: int) -> tuple[IndexArray, IndexArray]:
    """Image and class of every label with this value, image after image."""
    if isinstance(labels, Entries):
        chosen = labels.signs == value
        return labels.rows()[chosen], labels.columns[chosen].astype(np.int64)
    rows, columns = np.nonzero(labels == value)
    return rows, columns


def take(labels: Labels, rows: Indices) -> Labels:
    """The labels of some images, in the same form."""
    if isinstance(labels, Entries):
        return labels.take(rows)
    return np.asarray(labels[np.asarray(rows, dtype=np.int64)])


def of_classes(labels: Labels, classes: Indices) -> Labels:
    """The labels of some classes, in the given order, in the same form."""
    chosen = np.asarray(classes, dtype=np.int64)
    if not isinstance(labels, Entries):
        return np.asarray(labels[:, chosen])
    place = np.full(labels.classes, -1)
    place[chosen] = np.arange(len(chosen))
    columns = place[labels.columns]
    kept = columns >= 0
    shape = (len(labels), len(chosen))
    return Entries.of_pairs(shape, labels.rows()[kept], columns[kept], labels.signs[kept])


def dense(labels: Labels, rows: Indices) -> LabelMatrix:
    """The labels of some images as a matrix."""
    return as_matrix(take(labels, rows))


def as_matrix(labels: Labels) -> LabelMatrix:
    """The labels as a matrix, in whatever form they are held."""
    return labels.matrix() if isinstance(labels, Entries) else labels


def blocks(labels: Labels) -> Iterator[tuple[int, Labels]]:
    """Neighbouring images, not many at a time: the row of the first, and their labels."""
    count, classes = labels.shape
    size = max(1, _BLOCK // max(classes, 1))
    for start in range(0, count, size):
        stop = min(start + size, count)
        if isinstance(labels, Entries):
            yield start, labels.part(start, stop)
        else:
            yield start, labels[start:stop]


def stacked(parts: Sequence[Labels]) -> Labels:
    """The images of all parts, one part after the other; all have the form of the first."""
    sparse = [part for part in parts if isinstance(part, Entries)]
    if not sparse:
        return np.concatenate([part for part in parts if not isinstance(part, Entries)])
    return Entries(
        _starts(np.concatenate([np.diff(part.starts) for part in sparse])),
        np.concatenate([part.columns for part in sparse]),
        np.concatenate([part.signs for part in sparse]),
        sparse[0].classes,
    )


def together(parts: Sequence[Labels]) -> Labels:
    """What is known in any of the parts, which are of one shape and form; positive wins."""
    sparse = [part for part in parts if isinstance(part, Entries)]
    if not sparse:
        return np.asarray(np.maximum.reduce([np.asarray(part) for part in parts]))
    return Entries.of_pairs(
        sparse[0].shape,
        np.concatenate([part.rows() for part in sparse]),
        np.concatenate([part.columns for part in sparse]),
        np.concatenate([part.signs for part in sparse]),
    )


def with_columns(labels: Labels, places: Indices, classes: int) -> Labels:
    """The labels with class j at places[j] of `classes`; what nobody moves there is unknown.

    Of several classes that are moved to one place, positive wins, and then negative.
    """
    moved = np.asarray(places, dtype=np.int64)
    if isinstance(labels, Entries):
        shape = (len(labels), classes)
        return Entries.of_pairs(shape, labels.rows(), moved[labels.columns], labels.signs)
    return spread(labels, moved, classes, UNOBSERVED)


def spread(matrix: Matrix, places: Indices, width: int, empty: int) -> Matrix:
    """The matrix with column j at places[j] of `width`; of several at one place the largest."""
    moved = np.asarray(places, dtype=np.int64)
    wide = np.full((len(matrix), width), empty, dtype=matrix.dtype)
    wide[:, moved] = matrix
    for place in np.flatnonzero(np.bincount(moved) > 1):
        wide[:, place] = matrix[:, moved == place].max(axis=1)
    return wide


def with_labels(labels: Labels, rows: Indices, columns: Indices, signs: Indices) -> Labels:
    """The labels with other signs at some places, each of which is named once."""
    where = np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64)
    if not isinstance(labels, Entries):
        matrix = labels.copy()
        matrix[where] = np.asarray(signs, dtype=np.int8)
        return matrix
    keys = labels.rows() * labels.classes + labels.columns
    kept = ~np.isin(keys, where[0] * labels.classes + where[1])
    return Entries.of_pairs(
        labels.shape,
        np.concatenate([labels.rows()[kept], where[0]]),
        np.concatenate([labels.columns[kept], where[1]]),
        np.concatenate([labels.signs[kept], np.asarray(signs, dtype=np.int8)]),
    )


def _has(matrix: LabelMatrix, value: int | None) -> npt.NDArray[np.bool_]:
    return np.asarray(matrix != UNOBSERVED if value is None else matrix == value)


def _starts(lengths: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _sorted(
    rows: npt.NDArray[np.integer],
    columns: npt.NDArray[np.integer],
    signs: npt.NDArray[np.integer],
    classes: int,
    counts: IndexArray,
) -> tuple[npt.NDArray[np.int32], LabelMatrix]:
    """Classes and signs of some neighbouring images, in order and each once, and their counts."""
    key = (rows - rows[0]).astype(np.int64) * classes + columns
    if not (key[1:] > key[:-1]).all():
        order = np.argsort(key, kind="stable")
        first = np.flatnonzero(np.diff(key[order], prepend=-1))
        signs = np.maximum.reduceat(signs[order], first)
        rows, columns = rows[order[first]], columns[order[first]]
    counts[rows[0] : rows[-1] + 1] = np.bincount(rows - rows[0])
    return columns.astype(np.int32, copy=False), signs.astype(np.int8, copy=False)
