"""A label table made label by label or from columns; rows of one image are united.

What any row knows about an image counts. A label that one row has as positive and another as
negative is an issue.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from g2netpl.labels.io.frames import MINUS_ONE
from g2netpl.labels.io.groups import Groups
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import ReadOptions, class_problem, in_class_order, unknown_class
from g2netpl.labels.names import normalize_name, plain_name
from g2netpl.labels.table import (
    NEGATIVE,
    POSITIVE,
    UNOBSERVED,
    IndexArray,
    LabelMatrix,
    LabelTable,
    check_size,
)
from g2netpl.utils.errors import InputError, counted

Where = Callable[[int], str]  # the place of a row, in words


class TableBuilder:
    """Takes images and labels, each with its place in the file, and makes the checked table.

    `at` turns a place (a line, an index) into words for a person.
    """

    def __init__(self, at: Where, classes: Iterable[str] | None, issues: Issues) -> None:
        self.at, self.issues = at, issues
        self.known = None if classes is None else tuple(classes)
        self.images: list[str] = []
        self.classes = {name: column for column, name in enumerate(self.known or ())}
        self._column = {normalize_name(name): at for name, at in reversed(self.classes.items())}
        self._row_of: dict[str, int] = {}
        self._unknown: dict[str, tuple[int, int]] = {}  # times, and the first place
        self._labels: list[tuple[int, int, int, int]] = []  # row, column, value, place
        self._parts: list[tuple[IndexArray, IndexArray, int, IndexArray]] = []

    def image(self, place: int, name: str) -> int:
        """The row of an image, new or named before."""
        name = normalize_name(plain_name(name))
        row = self._row_of.get(name)
        if row is None:
            row = self._row_of[name] = len(self.images)
            self.issues.add_names([name], lambda _: self.at(place))
            self.images.append(name)
        return row

    def add_images(self, names: Sequence[str], places: Sequence[int]) -> IndexArray:
        """The rows of many images, whose names are plain already."""
        self.issues.add_names(names, lambda row: self.at(int(places[row])))
        rows, unique = pd.factorize(np.asarray(names, dtype=object))
        self.images = unique.tolist()
        return np.asarray(rows)

    def label(self, place: int, row: int, name: str, value: int) -> None:
        """A label of an image."""
        column = self.column(place, name)
        if column is not None:
            self._labels.append((row, column, value, place))

    def add_labels(self, rows: IndexArray, columns: IndexArray, value: int, at: IndexArray) -> None:
        """Many labels of one value."""
        self._parts.append((rows, columns, value, at))

    def column(self, place: int, name: str, times: int = 1) -> int | None:
        """The column of a class; None if there must not be such a class."""
        column = self._column.get(name)
        if column is None:
            name = normalize_name(name)
            column = self._column.get(name)
        if column is not None:
            return column
        problem = class_problem(name)
        if problem is not None:
            self.issues.add(self.at(place), "class name", problem)
        elif self.known is not None:
            before, first = self._unknown.get(name, (0, place))
            self._unknown[name] = before + times, min(first, place)
        else:
            self.classes[name] = self._column[name] = len(self.classes)
        return self._column.get(name)

    def table(self, absent: int, notes: Sequence[str] = ()) -> LabelTable:
        """The table; classes in the order of the given list, or else sorted by name."""
        for count, (name, (times, place)) in enumerate(self._unknown.items()):
            message = unknown_class(name, self.known or (), count)
            message += f", {times:,} times" if times > 1 else ""
            self.issues.add(self.at(place), "unknown class", message)
        if not self.classes:
            self.issues.raise_any()
            raise InputError("no label at all; expected at least one image with a class")
        names = list(self.classes) if self.known is not None else sorted(self.classes)
        place_of = np.argsort([self.classes[name] for name in names])
        check_size(len(self.images), len(names))
        labels = np.full((len(self.images), len(names)), UNOBSERVED, dtype=np.int8)
        rows, columns, values, at = np.array(self._labels, dtype=np.int64).reshape(-1, 4).T
        for sign in (NEGATIVE, POSITIVE):  # a label with both signs is positive, and an issue
            mine = values == sign
            self._parts.append((rows[mine], columns[mine], sign, at[mine]))
            for row, column, value, _ in self._parts:
                if value == sign:
                    labels[row, place_of[column]] = sign
        for row, column, value, at in self._parts:
            clash = np.flatnonzero(labels[row, place_of[column]] != value)
            picked = (row[clash], place_of[column[clash]], at[clash])
            cells = zip(*(each.tolist() for each in picked), strict=True)
            for image, name, place in dict.fromkeys(cells):
                add_contradiction(self.issues, self.at(place), self.images[image], names[name])
        self.issues.raise_any()
        labels[labels == UNOBSERVED] = absent
        return LabelTable(self.images, names, labels, notes)


def add_contradiction(issues: Issues, where: str, image: str, name: str) -> None:
    """A label that is negative here and positive elsewhere."""
    message = f"image {image!r}, class {name!r}: negative here, positive elsewhere in the file"
    issues.add(where, "contradiction", message, name)


def wide_table(
    images: Sequence[str],
    classes: Sequence[str],
    values: LabelMatrix,
    where: Where,
    groups: Groups,
    options: ReadOptions,
    header: str,
    notes: Sequence[str] = (),
) -> LabelTable:
    """The table of a file with a column per class; raises its issues."""
    issues = groups.issues
    is_minus_one = values == MINUS_ONE
    if options.minus_one is None and is_minus_one.any() and not (values == NEGATIVE).any():
        row, column = divmod(int(is_minus_one.argmax()), len(classes))
        message = f"class {classes[column]!r} is -1, and no cell is 0; give --minus-one negative "
        message += "if -1 means negative, or --minus-one unobserved if it means unknown"
        issues.add(where(row), "meaning of -1", message, classes[column])
    values[is_minus_one] = NEGATIVE if options.minus_one == "negative" else UNOBSERVED
    rows, unique = pd.factorize(np.asarray(images, dtype=object))
    if len(unique) < len(images):
        united = np.full((len(unique), len(classes)), UNOBSERVED, dtype=np.int8)
        np.maximum.at(united, rows, values)
        for row, column in np.argwhere((values == NEGATIVE) & (united[rows] == POSITIVE)).tolist():
            add_contradiction(issues, where(row), images[row], classes[column])
        notes = [*notes, *united_note(len(images) - len(unique))]
        images, values = unique.tolist(), united
    issues.raise_any()
    table = groups.on(LabelTable(images, classes, values, notes=notes))
    table = in_class_order(table, options, header)
    if options.absent != "negative" or table.is_complete:
        return table
    note = "--absent negative has no effect on a wide table: an empty cell means unknown"
    return table.with_notes((*table.notes, note))


def united_note(rows: int) -> list[str]:
    """A note on rows of images that were listed before."""
    return [f"united {counted(rows, 'row')} with an earlier row of the same image"] if rows else []
