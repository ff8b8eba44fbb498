"""What is known about each image: a table of labels, positive (1), negative (0), unobserved (−1).

"Not observed" is never "negative". Inside the package these three int8 values are the only
encoding; files with another one are converted at the border, in `formats/`.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

from g2netpl.base.errors import InputError
from g2netpl.labels.entries import NEGATIVE as NEGATIVE
from g2netpl.labels.entries import POSITIVE as POSITIVE
from g2netpl.labels.entries import UNOBSERVED as UNOBSERVED
from g2netpl.labels.entries import (
    Entries,
    Indices,
    Labels,
    as_matrix,
    blocks,
    dense,
    per_image,
    take,
    with_columns,
)
from g2netpl.labels.entries import LabelMatrix as LabelMatrix

_NAMES = 1 << 16  # that are hashed at a time
_IDLE = re.compile(r"(^|/)(?:\.?/)+")  # parts of a name that lead nowhere
_LARGE = 1 << 30  # cells from which on the fingerprint is one of the known labels alone


@dataclass(frozen=True, init=False, eq=False)
class LabelTable:
    """N images, L classes and the labels (N, L), in the order of the file.

    The labels are `held` as they were given, as a matrix or as entries. Either form can be had,
    as `values` or `entries`; the other one is made when it is first asked for.
    """

    images: tuple[str, ...]
    classes: tuple[str, ...]
    held: Labels
    notes: tuple[str, ...]
    """What a person should be told about the file the table was read from."""
    groups: tuple[str, ...] | None
    """What images must stay together in a split, by name, (N,); an empty name is one by itself."""

    def __init__(
        self,
        images: Sequence[str],
        classes: Sequence[str],
        values: npt.ArrayLike | Entries,
        notes: Sequence[str] = (),
        groups: Sequence[str] | None = None,
    ) -> None:
        images, classes = tuple(images), tuple(classes)
        held = values if isinstance(values, Entries) else check_values(values)
        if held.shape != (len(images), len(classes)):
            raise InputError(
                f"labels: expected a matrix of {len(images)} images × {len(classes)} classes, got "
                f"shape {held.shape}"
            )
        if groups is not None and len(groups) != len(images):
            raise InputError(f"groups: expected one per image, {len(images)}, got {len(groups)}")
        if not classes:
            raise InputError("labels: expected at least one class, got none")
        for what, names in (("class", classes), ("image", images)):
            for place, _ in repeated(names)[:1]:
                twice = names[place]
                raise InputError(f"labels: {what} {twice!r} is listed twice; each must be unique")
        if not isinstance(held, Entries):
            held.setflags(write=False)
        together = None if groups is None else tuple(groups)
        parts = (images, classes, held, tuple(notes), together)
        for field, value in zip(fields(self), parts, strict=True):
            object.__setattr__(self, field.name, value)

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def values(self) -> LabelMatrix:
        """The labels as an int8 matrix; refused where it would take more than 4 GB."""
        if not isinstance(self.held, Entries):
            return self.held
        matrix = self.held.matrix()
        matrix.setflags(write=False)
        return matrix

    @cached_property
    def entries(self) -> Entries:
        """The known labels alone."""
        return self.held if isinstance(self.held, Entries) else Entries.of_matrix(self.held)

    @property
    def known(self) -> int:
        """How many labels somebody observed, positive or negative."""
        if isinstance(self.held, Entries):
            return self.held.known
        return int(np.count_nonzero(self.held != UNOBSERVED))

    @property
    def labelled(self) -> npt.NDArray[np.bool_]:
        """Which images have any label, (N,)."""
        return per_image(self.held) > 0

    @property
    def observed_fraction(self) -> float:
        """Share of the entries that somebody observed, positive or negative."""
        return self.known / (len(self) * len(self.classes)) if len(self) else 0.0

    @property
    def is_complete(self) -> bool:
        """True where no entry is unobserved."""
        return self.known == len(self) * len(self.classes)

    @property
    def group_numbers(self) -> npt.NDArray[np.int64]:
        """The number of each image's group, (N,); without groups every image is one by itself."""
        return np.arange(len(self)) if self.groups is None else group_numbers(self.groups)

    def dense(self, indices: Indices) -> LabelMatrix:
        """The labels of some of the images as a matrix, whatever the size of the table."""
        return dense(self.held, indices)

    def rows(self) -> Iterator[LabelMatrix]:
        """The labels of one image after the other, (L,), whatever the size of the table."""
        for _, part in blocks(self.held):
            yield from as_matrix(part)

    def take(self, indices: Indices) -> "LabelTable":
        """The table of some of the images, in the given order."""
        rows = np.asarray(indices, dtype=np.int64)
        return LabelTable(
            tuple(self.images[row] for row in rows.tolist()),
            self.classes,
            take(self.held, rows),
            self.notes,
            None if self.groups is None else [self.groups[row] for row in rows.tolist()],
        )

    def with_images(self, images: Sequence[str]) -> "LabelTable":
        """The same labels of images that are called otherwise."""
        return LabelTable(images, self.classes, self.held, self.notes, self.groups)

    def with_values(self, values: npt.ArrayLike | Entries) -> "LabelTable":
        """The same images and classes with other labels."""
        return LabelTable(self.images, self.classes, values, self.notes, self.groups)

    def with_classes(self, classes: Sequence[str], places: Indices) -> "LabelTable":
        """The same images with class j at places[j] of `classes`; others are unobserved."""
        held = with_columns(self.held, places, len(classes))
        return LabelTable(self.images, classes, held, self.notes, self.groups)

    def with_notes(self, notes: Sequence[str]) -> "LabelTable":
        """The same table with other notes."""
        return LabelTable(self.images, self.classes, self.held, notes, self.groups)

    def with_groups(self, groups: Sequence[str] | None) -> "LabelTable":
        """The same table with other groups, or without."""
        return LabelTable(self.images, self.classes, self.held, self.notes, groups)

    def with_unlabelled(self, images: Sequence[str]) -> "LabelTable":
        """The same table with more images, about which nothing is known."""
        shape = (len(images), len(self.classes))
        held: Labels
        if isinstance(self.held, Entries):
            held = self.held.followed_by(len(images))
        else:
            held = np.vstack([self.held, np.full(shape, UNOBSERVED, dtype=np.int8)])
        groups = None if self.groups is None else (*self.groups, *("" for _ in images))
        return LabelTable((*self.images, *images), self.classes, held, self.notes, groups)

    def fingerprint(self) -> str:
        """SHA-256 over images, classes, labels and groups: equal tables, equal fingerprints.

        It does not depend on the form in which the labels are held.
        """
        digest = hashlib.sha256()
        parts = (self.images, self.classes, *(() if self.groups is None else (self.groups,)))
        for names in parts:
            for start in range(0, len(names), _NAMES):
                text = "\0".join(names[start : start + _NAMES])
                digest.update((f"\0{text}" if start else text).encode())
            digest.update(b"\1")
        large = len(self) * len(self.classes) > _LARGE
        for _, part in blocks(self.held):
            if not large:
                digest.update(as_matrix(part).tobytes())
                continue
            entries = part if isinstance(part, Entries) else Entries.of_matrix(part)
            for array in (entries.starts, entries.columns, entries.signs):
                digest.update(array.tobytes())
        return digest.hexdigest()


def group_numbers(names: Sequence[str]) -> npt.NDArray[np.int64]:
    """A number for each group of images, (N,); an image whose group has no name is alone."""
    order = dict.fromkeys(name or row for row, name in enumerate(names))
    number = {name: place for place, name in enumerate(order)}
    return np.array([number[name or row] for row, name in enumerate(names)], dtype=np.int64)


def hashes_of(names: Sequence[str]) -> npt.NDArray[np.int64]:
    """A number for each name, 8 bytes, in this process; a set takes 30."""
    return np.fromiter(map(hash, names), np.int64, len(names))


def repeated(
    names: Sequence[str], hashes: npt.NDArray[np.int64] | None = None
) -> list[tuple[int, int]]:
    """Places of names that stand further up already, each with the first place of the name."""
    hashes = hashes_of(names) if hashes is None else hashes
    ordered = np.sort(hashes)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(twice):
        return []
    first: dict[str, int] = {}
    suspects = np.flatnonzero(np.isin(hashes, twice)).tolist()
    return [
        (place, before)
        for place in suspects
        if (before := first.setdefault(names[place], place)) != place
    ]


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


def plain_name(name: str) -> str:
    """An image name without `./` and doubled slashes, so that every image has one name.

    A name that leads out of the folder, or may not be looked for, stays as it is.
    """
    if ("./" in name or "//" in name) and name_problem(name) is None:
        return _IDLE.sub(r"\1", name)
    return name
