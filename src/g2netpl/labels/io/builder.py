"""A label table made label by label, in any order, or from arrays of labels."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from g2netpl.labels.io.duplicates import dropped_duplicates, duplicates_note
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import class_problem, unknown_class
from g2netpl.labels.names import normalize_name, plain_name
from g2netpl.labels.table import (
    NEGATIVE,
    POSITIVE,
    UNOBSERVED,
    IndexArray,
    LabelTable,
    check_size,
)
from g2netpl.utils.errors import InputError


class TableBuilder:
    """Takes images and labels, each with its place in the file, and makes the checked table.

    `at` turns a place (a line, an index) into words for a person.
    """

    def __init__(
        self, at: Callable[[int], str], classes: Iterable[str] | None, issues: Issues
    ) -> None:
        self.at, self.issues = at, issues
        self.known = None if classes is None else tuple(classes)
        self.images: list[str] = []
        self.classes = {name: column for column, name in enumerate(self.known or ())}
        self._column = {normalize_name(name): at for name, at in reversed(self.classes.items())}
        self._row_of: dict[str, int] = {}
        self._unknown: dict[str, tuple[int, int]] = {}  # times, and the first place
        self._image_at: list[int] = []
        self._labels: list[tuple[int, int, int, int]] = []  # row, column, value, place
        self._arrays: list[tuple[IndexArray, IndexArray, int, IndexArray]] = []

    def image(self, place: int, name: str) -> int:
        """The row of an image, new or named before."""
        name = normalize_name(plain_name(name))
        row = self._row_of.get(name)
        if row is None:
            row = self._row_of[name] = self.next_image(place, name)
        return row

    def new_image(self, place: int, name: str) -> int:
        """The row of an image that must not have been named before."""
        name = normalize_name(plain_name(name))
        if name in self._row_of:
            first = self.at(self._image_at[self._row_of[name]])
            message = f"image {name!r} is listed already ({first}); put all its labels in one place"
            self.issues.add(self.at(place), "image listed twice", message)
        return self.image(place, name)

    def next_image(self, place: int, name: str) -> int:
        """A new row; `table` drops rows that repeat an image with the same labels."""
        name = normalize_name(plain_name(name))
        self.issues.add_name(self.at(place), name)
        self.images.append(name)
        self._image_at.append(place)
        return len(self.images) - 1

    def add_images(self, names: list[str], at: Sequence[int]) -> None:
        """Many new rows; the names are plain already."""
        self.issues.add_names(names, lambda place: self.at(at[place]))
        self.images += names
        self._image_at += list(at)

    def label(self, place: int, row: int, name: str, value: int) -> None:
        """A label of an image."""
        column = self.column(place, name)
        if column is not None:
            self._labels.append((row, column, value, place))

    def add_labels(self, rows: IndexArray, columns: IndexArray, value: int, at: IndexArray) -> None:
        """Many labels of one value."""
        self._arrays.append((rows, columns, value, at))

    def column(self, place: int, name: str, times: int = 1) -> int | None:
        """The column of a class; None if there must not be such a class."""
        column = self._column.get(name)
        if column is not None:
            return column
        name = normalize_name(name)
        if name in self._column:
            return self._column[name]
        problem = class_problem(name)
        if problem is not None:
            self.issues.add(self.at(place), "class name", problem)
            return None
        if self.known is not None:
            before, first = self._unknown.get(name, (0, place))
            self._unknown[name] = before + times, min(first, place)
            return None
        self.classes[name] = self._column[name] = len(self.classes)
        return self._column[name]

    def table(self, absent: int, notes: Sequence[str] = ()) -> LabelTable:
        """The table; classes in the order of the given list, or else sorted by name."""
        for count, (name, (times, place)) in enumerate(self._unknown.items()):
            message = unknown_class(name, self.known or (), count)
            message += f", {times:,} times" if times > 1 else ""
            self.issues.add(self.at(place), "unknown class", message)
        if not self.classes:
            self.issues.raise_any()
            raise InputError("no label at all; expected at least one image with a class")
        names, order = list(self.classes), np.arange(len(self.classes))
        if self.known is None:
            names.sort()
            order = np.array([self.classes[name] for name in names])
        check_size(len(self.images), len(names))
        rows, columns, values, at = np.array(self._labels, dtype=np.int64).reshape(-1, 4).T
        parts = [
            *(
                (rows[values == sign], columns[values == sign], sign, at[values == sign])
                for sign in (NEGATIVE, POSITIVE)
            ),
            *self._arrays,
        ]
        place_of = np.argsort(order)
        labels = np.full((len(self.images), len(names)), UNOBSERVED, dtype=np.int8)
        for rows, columns, sign, _ in sorted(parts, key=lambda part: part[2]):
            labels[rows, place_of[columns]] = sign  # a label named with both signs is positive
        dropped = dropped_duplicates(
            self.images, labels, lambda row: self.at(self._image_at[row]), self.issues
        )
        found: dict[tuple[int, int, int], None] = {}
        for rows, columns, _, at in (part for part in parts if part[2] == NEGATIVE):
            clash = np.flatnonzero(labels[rows, place_of[columns]] == POSITIVE)
            picked = (rows[clash], place_of[columns[clash]], at[clash])
            found |= dict.fromkeys(zip(*(each.tolist() for each in picked), strict=True))
        for row, column, place in found:
            message = f"image {self.images[row]!r}, class {names[column]!r}: negative here, "
            message += "positive elsewhere in the file"
            self.issues.add(self.at(place), "contradiction", message)
        self.issues.raise_any()
        images = self.images
        if len(dropped):
            kept = np.setdiff1d(np.arange(len(images)), dropped)
            images, labels = pd.Series(images).iloc[kept].tolist(), labels[kept]
        labels[labels == UNOBSERVED] = absent
        return LabelTable(images, names, labels, (*duplicates_note(len(dropped)), *notes))
