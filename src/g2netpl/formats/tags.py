"""Labels by name: `image,labels` in CSV, tags separated by `;` or `|`; the rest is unobserved.

A third column, `absent`, may name what is known not to be there. With `absent = negative` every
class that a listed image is not tagged with is negative: for tags known to be complete. `Collector`
makes the table, also for the other formats that name labels one by one.
"""

import io
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from g2netpl.errors import InputError
from g2netpl.formats.reading import (
    Problems,
    Reading,
    beginning,
    class_problem,
    csv_rows,
    read_text,
    twins_note,
    unknown_class,
)
from g2netpl.formats.table import csv_writer, is_tag_header
from g2netpl.labels import NEGATIVE, POSITIVE, LabelTable, name_problem

MOST_LABELS = 1 << 32  # as a matrix of bytes

Tags = tuple[int, str, Iterable[str], Iterable[str]]  # place, image, present, absent


def recognises(path: Path) -> bool:
    """A CSV file whose header is `image,labels`."""
    if path.suffix.lower() != ".csv" or not path.is_file():
        return False
    return is_tag_header([name.strip().strip('"') for name in beginning(path).split(",")])


def read(path: Path, reading: Reading) -> LabelTable:
    """Read tags; every mistake is named by file and line."""
    problems = Problems()
    text = read_text(path, problems)
    rows = csv_rows(iter(io.StringIO(text, newline="")), path, 0, problems)
    line, header = next(rows, (1, []))
    header = [name.strip() for name in header]
    if not is_tag_header(header):
        problems.stop(
            f"{path}:{line}",
            "header",
            f"expected a header 'image,labels', got {','.join(header)[:80]!r}",
        )

    def tags() -> Iterable[Tags]:
        for line, row in rows:
            if len(row) != len(header):
                problems.add(
                    f"{path}:{line}",
                    "number of cells",
                    f"expected {len(header)} cells as in the header, got {len(row)}; separate "
                    "tags by ';' or '|'",
                )
                continue
            absent = split(row[2], reading) if len(row) > 2 else []
            yield line, row[0], split(row[1], reading), absent

    return collect(path, tags(), reading, problems)


def collect(
    path: Path, tags: Iterable[Tags], reading: Reading, problems: Problems, unit: str = ":"
) -> LabelTable:
    """A table from the tags of each image."""
    collector = Collector(lambda place: f"{path}{unit}{place}", reading.classes, problems)
    seen: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    twins = 0
    for place, image, present, absent in tags:
        content = (frozenset(present), frozenset(absent))
        if seen.get(image) == content:
            twins += 1
            continue
        seen.setdefault(image, content)
        row = collector.new_image(place, image)
        for value, names in ((POSITIVE, content[0]), (NEGATIVE, content[1])):
            for name in sorted(names):
                collector.label(place, row, name, value)
    if not problems.found and not collector.classes:
        problems.stop(str(path), "no tag", "no image has a tag; expected tags in 'labels'")
    return collector.table(reading.absent_value("unobserved"), twins_note(twins))


def write(table: LabelTable, path: Path) -> list[str]:
    """Write `image,labels,absent`, or `image,labels` where nothing is known to be absent."""
    odd = [name for name in table.classes if ";" in name or "|" in name or name != name.strip()]
    if odd:
        raise InputError(f"{path}: class {odd[0]!r} cannot be a tag: it holds ';', '|' or spaces")
    names = np.array(table.classes, dtype=object)
    negative = bool((table.values == NEGATIVE).any())
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv_writer(file, table)
        writer.writerow(["image", "labels", "absent"] if negative else ["image", "labels"])
        for image, values in zip(table.images, table.values, strict=True):
            row = [image, ";".join(names[values == POSITIVE])]
            writer.writerow([*row, ";".join(names[values == NEGATIVE])] if negative else row)
    silent = int((table.values < 0).all(axis=0).sum())
    return [f"{silent} classes without any label are not in the file"] if silent else []


def split(text: str, reading: Reading) -> list[str]:
    """The tags in a cell."""
    if reading.separator is None:
        text = text.replace("|", ";")
    parts = text.split(reading.separator or ";")
    return [part.strip() for part in parts if part.strip()]


class Collector:
    """A label table made label by label, in any order, by readers of files that are not wide.

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
