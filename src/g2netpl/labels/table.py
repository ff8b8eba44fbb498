"""What is known about each image: a table of labels, positive (1), negative (0), unobserved (−1).

"Not observed" is never "negative". Inside the package these three int8 values are the only
encoding; files with another one are converted at the border, in `labels/io`.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from g2netpl.utils.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame

POSITIVE, NEGATIVE, UNOBSERVED = 1, 0, -1
LARGEST = 4 << 30  # bytes of a label matrix

LabelMatrix = npt.NDArray[np.int8]
Indices = Sequence[int] | npt.NDArray[np.int64]
IndexArray = npt.NDArray[np.int64]


@dataclass(frozen=True, init=False, eq=False)
class LabelTable:
    """N images, L classes and the labels (N, L), in the order of the file."""

    images: tuple[str, ...]
    classes: tuple[str, ...]
    values: LabelMatrix
    notes: tuple[str, ...]
    """Notes on the file that the table was read from, to print."""
    groups: tuple[str, ...] | None
    """What images must stay together in a split, by name, (N,); an empty name is one by itself."""

    def __init__(
        self,
        images: Sequence[str],
        classes: Sequence[str],
        values: npt.ArrayLike,
        notes: Sequence[str] = (),
        groups: Sequence[str] | None = None,
    ) -> None:
        check_size(len(images), len(classes))
        labels = check_values(values)
        if labels.shape != (len(images), len(classes)):
            raise InputError(
                f"labels: expected a matrix of {len(images)} images × {len(classes)} classes, got "
                f"shape {labels.shape}"
            )
        if groups is not None and len(groups) != len(images):
            raise InputError(f"groups: expected one per image, {len(images)}, got {len(groups)}")
        if not classes:
            raise InputError("labels: expected at least one class, got none")
        for what, names in (("class", classes), ("image", images)):
            if len(set(names)) < len(names):
                twice, _ = Counter(names).most_common(1)[0]
                raise InputError(f"labels: {what} {twice!r} is listed twice; each must be unique")
        labels.setflags(write=False)
        together = None if groups is None else tuple(groups)
        parts = (tuple(images), tuple(classes), labels, tuple(notes), together)
        for field, value in zip(fields(self), parts, strict=True):
            object.__setattr__(self, field.name, value)

    def __len__(self) -> int:
        return len(self.images)

    @property
    def known(self) -> int:
        """How many labels somebody observed, positive or negative."""
        return int(np.count_nonzero(self.values != UNOBSERVED))

    @property
    def labelled(self) -> npt.NDArray[np.bool_]:
        """Which images have any label, (N,)."""
        return per_image(self.values) > 0

    @property
    def observed_fraction(self) -> float:
        """Fraction of the labels that somebody observed, positive or negative."""
        return self.known / (len(self) * len(self.classes)) if len(self) else 0.0

    @property
    def is_complete(self) -> bool:
        """True where no entry is unobserved."""
        return self.known == len(self) * len(self.classes)

    @property
    def group_numbers(self) -> npt.NDArray[np.int64]:
        """The number of each image's group, (N,); without groups every image is one by itself."""
        return np.arange(len(self)) if self.groups is None else group_numbers(self.groups)

    @classmethod
    def from_dataframe(cls, frame: "DataFrame", **options: Any) -> "LabelTable":
        """The labels in a data frame of pandas, as `read_labels` reads them from a file.

        It has a column (or index) `image`, and a column per class or one of tags; `options` are
        those of `ReadOptions`, as `tags_column="keywords"`.
        """
        from g2netpl import ReadOptions, read_labels  # which need tables

        return read_labels(frame, options=ReadOptions(**options))

    def take(self, indices: Indices) -> "LabelTable":
        """The table of some of the images, in the given order."""
        rows = np.asarray(indices, dtype=np.int64)
        images = [self.images[row] for row in rows.tolist()]
        groups = self.groups and [self.groups[row] for row in rows.tolist()]
        return self._with(images=images, values=self.values[rows], groups=groups)

    def with_images(self, images: Sequence[str]) -> "LabelTable":
        """The same labels of images that are called otherwise."""
        return self._with(images=images)

    def with_values(self, values: npt.ArrayLike) -> "LabelTable":
        """The same images and classes with other labels."""
        return self._with(values=values)

    def with_notes(self, notes: Sequence[str]) -> "LabelTable":
        """The same table with other notes."""
        return self._with(notes=notes)

    def with_groups(self, groups: Sequence[str] | None) -> "LabelTable":
        """The same table with other groups, or without."""
        return self._with(groups=groups)

    def with_classes(self, classes: Sequence[str], places: Indices) -> "LabelTable":
        """The same images with class j at places[j] of `classes`; others are unobserved.

        Of several classes at one place the largest label counts.
        """
        moved = np.asarray(places, dtype=np.int64)
        values = np.full((len(self), len(classes)), UNOBSERVED, dtype=np.int8)
        values[:, moved] = self.values
        for place in np.flatnonzero(np.bincount(moved) > 1):
            values[:, place] = self.values[:, moved == place].max(axis=1)
        return self._with(classes=classes, values=values)

    def with_unlabelled(self, images: Sequence[str]) -> "LabelTable":
        """The same table with more images, about which nothing is known."""
        rows = np.full((len(images), len(self.classes)), UNOBSERVED, dtype=np.int8)
        groups = self.groups and (*self.groups, *("" for _ in images))
        values = np.vstack([self.values, rows])
        return self._with(images=(*self.images, *images), values=values, groups=groups)

    def _with(self, **changes: Any) -> "LabelTable":
        return replace(self, **changes)

    def fingerprint(self) -> str:
        """SHA-256 over images, classes, labels and groups: equal tables, equal fingerprints."""
        digest = hashlib.sha256()
        for names in (self.images, self.classes, *(() if self.groups is None else (self.groups,))):
            digest.update("\0".join(names).encode() + b"\1")
        digest.update(np.ascontiguousarray(self.values).data)
        return digest.hexdigest()


def check_size(images: int, classes: int) -> None:
    """Reject a label matrix that would take more than 4 GB."""
    if images * classes > LARGEST:
        raise InputError(
            f"{images:,} images × {classes:,} classes: the labels would take "
            f"{images * classes / 2**30:,.1f} GB, more than the limit of 4 GB; sample the "
            "images, or use fewer classes"
        )


def per_class(labels: LabelMatrix, value: int | None = None) -> IndexArray:
    """How often each class has this value, (L,); without one, how often it is known."""
    return np.asarray(_has(labels, value).sum(axis=0), dtype=np.int64)


def per_image(labels: LabelMatrix, value: int | None = None) -> IndexArray:
    """How many labels of each image have this value, (N,); without one, how many are known."""
    return np.asarray(_has(labels, value).sum(axis=1), dtype=np.int64)


def _has(labels: LabelMatrix, value: int | None) -> npt.NDArray[np.bool_]:
    return np.asarray(labels != UNOBSERVED if value is None else labels == value)


def group_numbers(names: Sequence[str]) -> npt.NDArray[np.int64]:
    """A number for each group of images, (N,); an image without a group name is its own."""
    order: dict[str | int, int] = {}
    numbers = [order.setdefault(name or row, len(order)) for row, name in enumerate(names)]
    return np.array(numbers, dtype=np.int64)


def check_values(values: npt.ArrayLike) -> LabelMatrix:
    """A private int8 copy of `values`, or an error that names the first value that is no label."""
    matrix = np.asarray(values)
    if matrix.ndim != 2:
        raise InputError(f"labels: expected a matrix (images × classes), got {matrix.ndim}-d")
    if matrix.dtype == np.int8 and matrix.size and matrix.min() >= -1 and matrix.max() <= 1:
        return np.array(matrix)
    wrong = ~np.isin(matrix, (POSITIVE, NEGATIVE, UNOBSERVED))
    if wrong.any():
        row, column = (int(index) for index in np.argwhere(wrong)[0])
        raise InputError(
            f"labels: image {row}, class {column}: expected 1 (positive), 0 (negative) or "
            f"-1 (unobserved), got {matrix[row, column]}"
        )
    return np.array(matrix, dtype=np.int8)
