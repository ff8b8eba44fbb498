"""A label table made label by label, in any order, for formats that name labels one by one."""

from array import array
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from g2netpl.entries import MOST_CELLS, UNOBSERVED, Entries
from g2netpl.errors import InputError
from g2netpl.formats.reading import Problems, Reading, class_problem, twins_note, unknown_class
from g2netpl.labels import LabelTable, name_problem, repeated


class Collector:
    """Takes labels with the place where they stand, tells what is wrong, and makes the table.

    `at` turns a position (a line, an index) into words for a person. Nothing is kept per image
    but its name and place, and 13 bytes per label.
    """

    def __init__(
        self, at: Callable[[int], str], classes: Iterable[str] | None, problems: Problems
    ) -> None:
        self.at, self.problems = at, problems
        self.known = None if classes is None else tuple(classes)
        self.images: list[str] = []
        self.classes = {name: column for column, name in enumerate(self.known or ())}
        self._row_of: dict[str, int] = {}
        self._unknown: dict[str, str] = {}
        self._image_at = array("I")
        self._rows, self._columns = array("i"), array("i")
        self._values, self._places = array("b"), array("I")

    def image(self, place: int, name: str) -> int:
        """The row of an image, new or named before."""
        row = self._row_of.get(name)
        if row is None:
            row = self._row_of[name] = self.new_image(place, name)
        return row

    def new_image(self, place: int, name: str) -> int:
        """The row of an image that is not to be named again; `table` looks for those that are."""
        problem = name_problem(name)
        if problem is not None:
            self.problems.add(self.at(place), "image name", f"image {name!r}: {problem}")
        self.images.append(name)
        self._image_at.append(place)
        return len(self.images) - 1

    def label(self, place: int, row: int, name: str, value: int) -> None:
        """A label of an image."""
        column = self.classes.get(name)
        if column is None:
            column = self._new_class(place, name)
            if column is None:
                return
        self._rows.append(row)
        self._columns.append(column)
        self._values.append(value)
        self._places.append(place)

    def table(self, absent: int, notes: Sequence[str] = (), drop_twins: bool = False) -> LabelTable:
        """The table; classes in the order of the file's list, or else sorted by name.

        An image named twice is a mistake; with `drop_twins` only where its labels differ.
        """
        if not self.classes:
            self.problems.raise_any()
            raise InputError("no label at all; expected at least one image with a class")
        count, classes = len(self.images), len(self.classes)
        rare = len(self._rows) < 3 * classes
        if count * classes > MOST_CELLS and (rare or absent != UNOBSERVED):
            self.problems.raise_any()
            raise InputError(f"{count:,} images × {classes:,} classes; are these names of classes?")
        names, entries = self._entries()
        kept, dropped = self._without_twins(entries, drop_twins)
        self.problems.raise_any()
        images = self.images
        if dropped:
            images, entries = [images[row] for row in kept.tolist()], entries.take(kept)
        labels = entries if absent == UNOBSERVED else entries.matrix(unknown=absent)
        return LabelTable(images, names, labels, notes=(*twins_note(dropped), *notes))

    def _new_class(self, place: int, name: str) -> int | None:
        """The column of a class that was not met before; None where there must not be such one."""
        problem = class_problem(name)
        if problem is not None:
            self.problems.add(self.at(place), "class name", problem)
            return None
        if self.known is not None:
            if name not in self._unknown:
                told = Reading(classes=self.known)
                self._unknown[name] = unknown_class(name, told, len(self._unknown))
            self.problems.add(self.at(place), "unknown class", self._unknown[name])
            return None
        column = self.classes[name] = len(self.classes)
        return column

    def _entries(self) -> tuple[tuple[str, ...], Entries]:
        """The classes in their order, and the labels; of both signs the positive stays."""
        names = tuple(self.classes)
        rows, columns, values = (
            np.asarray(each) for each in (self._rows, self._columns, self._values)
        )
        if self.known is None:
            order = np.argsort(np.array(names, dtype=object), kind="stable")
            names = tuple(names[column] for column in order)
            columns = np.argsort(order).astype(np.int32)[columns]
        entries = Entries.of_pairs((len(self.images), len(names)), rows, columns, values)
        if entries.known < len(rows):
            key = entries.rows() * len(names) + entries.columns
            kept = entries.signs[np.searchsorted(key, rows.astype(np.int64) * len(names) + columns)]
            for index in np.flatnonzero(kept != values).tolist():
                self.problems.add(
                    self.at(self._places[index]),
                    "contradiction",
                    f"image {self.images[rows[index]]!r}, class {names[columns[index]]!r}: "
                    "negative here, positive elsewhere in the file",
                )
        return names, entries

    def _without_twins(self, entries: Entries, drop: bool) -> tuple[np.ndarray, int]:
        """The rows without those of images named before, and how many of them say the same."""
        twins = repeated(self.images)
        for row, first in twins:
            if drop and entries.part(row, row + 1) == entries.part(first, first + 1):
                continue
            self.problems.add(
                self.at(self._image_at[row]),
                "image listed twice",
                f"image {self.images[row]!r} is listed already ({self.at(self._image_at[first])}); "
                "put all its labels in one place",
            )
        rows = np.arange(len(self.images))
        return np.delete(rows, [row for row, _ in twins]), len(twins)
