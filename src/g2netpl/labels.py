"""What is known about each image: a table of labels, positive (1), negative (0), unobserved (−1).

"Not observed" is never "negative". Inside the package these three int8 values are the only
encoding; files with another one are converted at the border, in `formats/`.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from g2netpl.errors import InputError

POSITIVE, NEGATIVE, UNOBSERVED = 1, 0, -1

LabelMatrix = npt.NDArray[np.int8]


@dataclass(frozen=True)
class LabelTable:
    """N images, L classes and an int8 matrix (N, L) of labels, in the order of the file."""

    images: tuple[str, ...]
    classes: tuple[str, ...]
    values: LabelMatrix
    sizes: npt.NDArray[np.float32] | None = None
    """Area of each object as a share of its image, (N, L), where the source knows boxes."""
    notes: tuple[str, ...] = ()
    """What a person should be told about the file the table was read from."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "images", tuple(self.images))
        object.__setattr__(self, "classes", tuple(self.classes))
        values = check_values(self.values)
        if values.shape != (len(self.images), len(self.classes)):
            raise InputError(
                f"labels: expected a matrix of {len(self.images)} images × "
                f"{len(self.classes)} classes, got shape {values.shape}"
            )
        if self.sizes is not None and self.sizes.shape != values.shape:
            raise InputError(f"sizes: expected shape {values.shape}, got {self.sizes.shape}")
        if not self.classes:
            raise InputError("labels: expected at least one class, got none")
        for what, names in (("class", self.classes), ("image", self.images)):
            if len(set(names)) != len(names):
                twice = next(name for name, count in Counter(names).items() if count > 1)
                raise InputError(f"labels: {what} {twice!r} is listed twice; each must be unique")
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    def __len__(self) -> int:
        return len(self.images)

    @property
    def observed_fraction(self) -> float:
        """Share of the entries that somebody observed, positive or negative."""
        return float(np.mean(self.values != UNOBSERVED)) if self.values.size else 0.0

    @property
    def is_complete(self) -> bool:
        """True where no entry is unobserved."""
        return not bool(np.any(self.values == UNOBSERVED))

    def take(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> "LabelTable":
        """The table of some of the images, in the given order."""
        rows = np.asarray(indices, dtype=np.int64)
        return LabelTable(
            tuple(self.images[row] for row in rows),
            self.classes,
            self.values[rows],
            None if self.sizes is None else self.sizes[rows],
            self.notes,
        )

    def with_values(self, values: LabelMatrix) -> "LabelTable":
        """The same images and classes with other labels."""
        return LabelTable(self.images, self.classes, values, self.sizes, self.notes)

    def with_unlabelled(self, images: Sequence[str]) -> "LabelTable":
        """The same table with more images, about which nothing is known."""
        nothing = np.full((len(images), len(self.classes)), UNOBSERVED, dtype=np.int8)
        sizes = self.sizes
        if sizes is not None:
            sizes = np.vstack([sizes, np.zeros(nothing.shape, dtype=np.float32)])
        values = np.vstack([self.values, nothing])
        return LabelTable((*self.images, *images), self.classes, values, sizes, self.notes)

    def fingerprint(self) -> str:
        """SHA-256 over images, classes and labels: equal tables, equal fingerprints."""
        digest = hashlib.sha256()
        for names in (self.images, self.classes):
            digest.update("\0".join(names).encode() + b"\1")
        digest.update(np.ascontiguousarray(self.values).tobytes())
        return digest.hexdigest()


def check_values(values: npt.ArrayLike) -> LabelMatrix:
    """A private int8 copy of `values`, or an error that names the first value that is no label."""
    matrix = np.asarray(values)
    if matrix.ndim != 2:
        raise InputError(f"labels: expected a matrix (images × classes), got {matrix.ndim}-d")
    if matrix.dtype == np.int8 and (
        not matrix.size or (matrix.min() >= UNOBSERVED and matrix.max() <= POSITIVE)
    ):
        return np.array(matrix)
    wrong = ~np.isin(matrix, (POSITIVE, NEGATIVE, UNOBSERVED))
    if wrong.any():
        row, column = (int(index) for index in np.argwhere(wrong)[0])
        raise InputError(
            f"labels: image {row}, class {column}: expected 1 (positive), 0 (negative) or "
            f"-1 (unobserved), got {matrix[row, column]}"
        )
    return np.array(matrix, dtype=np.int8)


def name_problem(name: str) -> str | None:
    """Why an image name must not be looked for below a folder; None if it may."""
    if not name.strip():
        return "the name is empty"
    if "\0" in name:
        return "the name contains a NUL character"
    if "://" in name:
        return "expected a file name, not an address"
    if name[0] in "/\\" or (len(name) > 1 and name[1] == ":" and name[0].isalpha()):
        return "leads out of the image folder; expected a name relative to it"
    if ".." in name.replace("\\", "/").split("/"):
        return "leads out of the image folder ('..')"
    return None
