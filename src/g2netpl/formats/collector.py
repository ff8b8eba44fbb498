"""A label table made label by label, in any order, for formats that name labels one by one."""

from array import array
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from g2netpl.errors import InputError
from g2netpl.formats.reading import Problems, Reading, class_problem, unknown_class
from g2netpl.labels import LabelTable, name_problem

MOST_LABELS = 1 << 32  # as a matrix of bytes


class Collector:
    """Takes labels with the place where they stand, tells what is wrong, and makes the table.

    `at` turns a position (a line, an index) into words for a person.
    """

    def __init__(
        self, at: Callable[[int], str], classes: Iterable[str] | None, problems: Problems
    ) -> None:
        self.at, self.problems = at, problems
        self.known = None if classes is None else tuple(classes)
        self.images: dict[str, int] = {}
        self.classes = {name: column for column, name in enumerate(self.known or ())}
        self._unknown: dict[str, str] = {}
        self._image_at = array("q")
        self._rows, self._columns = array("q"), array("q")
        self._values, self._places = array("b"), array("q")

    def image(self, place: int, name: str) -> int:
        """The row of an image, new or named before."""
        row = self.images.get(name)
        if row is None:
            problem = name_problem(name)
            if problem is not None:
                self.problems.add(self.at(place), "image name", f"image {name!r}: {problem}")
            row = self.images[name] = len(self.images)
            self._image_at.append(place)
        return row

    def new_image(self, place: int, name: str) -> int:
        """The row of an image that must not have been named before."""
        if name in self.images:
            first = self.at(self._image_at[self.images[name]])
            self.problems.add(
                self.at(place),
                "image listed twice",
                f"image {name!r} is listed already ({first}); put all its labels in one place",
            )
        return self.image(place, name)

    def label(self, place: int, row: int, name: str, value: int) -> None:
        """A label of an image."""
        column = self.classes.get(name)
        if column is None:
            problem = class_problem(name)
            if problem is not None:
                self.problems.add(self.at(place), "class name", problem)
                return
            if self.known is not None:
                if name not in self._unknown:
                    told = Reading(classes=self.known)
                    self._unknown[name] = unknown_class(name, told, len(self._unknown))
                self.problems.add(self.at(place), "unknown class", self._unknown[name])
                return
            column = self.classes[name] = len(self.classes)
        self._rows.append(row)
        self._columns.append(column)
        self._values.append(value)
        self._places.append(place)

    def table(self, absent: int, notes: Sequence[str] = ()) -> LabelTable:
        """The table; classes in the order of the file's list, or else sorted by name."""
        shape = (len(self.images), len(self.classes))
        if not self.classes or shape[0] * shape[1] > MOST_LABELS:
            self.problems.raise_any()
            raise InputError(
                f"{shape[0]:,} images × {shape[1]:,} classes; are these names of classes?"
                if self.classes
                else "no label at all; expected at least one image with a class"
            )
        rows, columns, values, places = (
            np.array(each, dtype=each.typecode)
            for each in (self._rows, self._columns, self._values, self._places)
        )
        matrix = np.full(shape, absent, dtype=np.int8)
        order = np.argsort(values, kind="stable")  # of both signs the positive stays
        matrix[rows[order], columns[order]] = values[order]
        names, images = tuple(self.classes), tuple(self.images)
        for index in np.flatnonzero(matrix[rows, columns] != values):
            self.problems.add(
                self.at(int(places[index])),
                "contradiction",
                f"image {images[rows[index]]!r}, class {names[columns[index]]!r}: negative here, "
                "positive elsewhere in the file",
            )
        self.problems.raise_any()
        if self.known is None:
            order = np.argsort(np.array(names, dtype=object), kind="stable")
            names, matrix = tuple(names[column] for column in order), matrix[:, order]
        return LabelTable(images, names, matrix, notes=tuple(notes))
