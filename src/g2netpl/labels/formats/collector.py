"""A label table made label by label, in any order, for formats that name labels one by one."""

from array import array
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from g2netpl.base.errors import InputError
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.reading import Reading, class_problem, unknown_class
from g2netpl.labels.formats.twins import dropped_twins, twins_note
from g2netpl.labels.spelling import composed
from g2netpl.labels.table import (
    NEGATIVE,
    POSITIVE,
    UNOBSERVED,
    LabelMatrix,
    LabelTable,
    check_size,
    name_problem,
    plain_name,
)


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
        self._looks = {composed(name): column for name, column in reversed(self.classes.items())}
        self._alike: dict[str, int] = {}  # names that look like one of a class
        self._image_at = array("I")
        self._rows, self._columns = array("i"), array("i")
        self._values, self._places = array("b"), array("I")

    def image(self, place: int, name: str) -> int:
        """The row of an image, new or named before."""
        name = plain_name(name)
        row = self._row_of.get(name)
        if row is None:
            row = self._row_of[name] = self.next_image(place, name)
        return row

    def new_image(self, place: int, name: str) -> int:
        """The row of an image that must not have been named before."""
        name = plain_name(name)
        if name in self._row_of:
            first = self.at(self._image_at[self._row_of[name]])
            what = f"image {name!r} is listed already ({first}); put all its labels in one place"
            self.problems.add(self.at(place), "image listed twice", what)
        return self.image(place, name)

    def next_image(self, place: int, name: str) -> int:
        """A new row, whatever was named before, which is told apart in the end.

        Of images named twice with the same labels `table` drops the second one, and it refuses
        those with other labels.
        """
        name = plain_name(name)
        if name_problem(name) is not None:  # so that a place is put in words where it must be
            self.problems.add_name(self.at(place), name)
        self.images.append(name)
        self._image_at.append(place)
        return len(self.images) - 1

    def label(self, place: int, row: int, name: str, value: int) -> None:
        """A label of an image."""
        column = self.classes.get(name)
        if column is None:
            column = self._alike.get(name)
        if column is None:
            column = self._new_class(place, name)
            if column is None:
                return
        self._rows.append(row)
        self._columns.append(column)
        self._values.append(value)
        self._places.append(place)

    def table(self, absent: int, notes: Sequence[str] = ()) -> LabelTable:
        """The table; classes in the order of the file's list, or else sorted by name."""
        if not self.classes:
            self.problems.raise_any()
            raise InputError("no label at all; expected at least one image with a class")
        names, columns, labels = self._labels()
        twins = []
        if len(self._row_of) < len(self.images):  # some were not looked up
            where = self._image_at
            twins = dropped_twins(
                self.images, labels, lambda row: self.at(where[row]), self.problems
            )
        self._find_contradictions(names, columns, labels)
        self.problems.raise_any()
        images = self.images
        if twins:
            kept = np.delete(np.arange(len(images)), twins)
            images, labels = [images[row] for row in kept.tolist()], labels[kept]
        labels[labels == UNOBSERVED] = absent
        return LabelTable(images, names, labels, notes=(*twins_note(len(twins)), *notes))

    def _labels(self) -> tuple[tuple[str, ...], npt.NDArray[np.int32], LabelMatrix]:
        """The classes in order, the place of each label's class there, and the labels.

        A label named with both signs is positive.
        """
        names, columns = self._in_order()
        check_size(len(self.images), len(names))
        rows, values = np.asarray(self._rows), np.asarray(self._values)
        labels = np.full((len(self.images), len(names)), UNOBSERVED, dtype=np.int8)
        for sign in (NEGATIVE, POSITIVE):
            labels[rows[values == sign], columns[values == sign]] = sign
        return names, columns, labels

    def _new_class(self, place: int, name: str) -> int | None:
        """The column of a class that was not met before; None where there must not be such one."""
        problem = class_problem(name)
        if problem is not None:
            self.problems.add(self.at(place), "class name", problem)
            return None
        column = self._looks.get(composed(name))
        if column is not None:
            self._alike[name] = column
            return column
        if self.known is not None:
            if name not in self._unknown:
                told = Reading(classes=self.known)
                self._unknown[name] = unknown_class(name, told, len(self._unknown))
            self.problems.add_often(self.at(place), "unknown class", self._unknown[name])
            return None
        column = self.classes[name] = self._looks[composed(name)] = len(self.classes)
        return column

    def _in_order(self) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
        """The classes in the order of the table, and the place of each label's class there."""
        names, columns = tuple(self.classes), np.asarray(self._columns)
        if self.known is not None:
            return names, columns
        order = np.argsort(np.array(names, dtype=object), kind="stable")
        place = np.argsort(order).astype(np.int32)
        return tuple(names[column] for column in order), place[columns]

    def _find_contradictions(
        self, names: Sequence[str], columns: npt.NDArray[np.int32], labels: LabelMatrix
    ) -> None:
        """Labels that are negative here and positive, which stays, elsewhere."""
        kept = labels[np.asarray(self._rows), columns]
        for index in np.flatnonzero(kept != np.asarray(self._values)).tolist():
            self.problems.add(
                self.at(self._places[index]),
                "contradiction",
                f"image {self.images[self._rows[index]]!r}, class {names[columns[index]]!r}: "
                "negative here, positive elsewhere in the file",
            )
