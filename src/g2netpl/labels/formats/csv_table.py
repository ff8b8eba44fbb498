"""Wide tables: `image,cat,dog,…`, a row per image; 1 positive, 0 negative, empty unobserved.

A column `group` names what images must stay together in a split; it is no class. A table whose
header has a column of tags is read by `tags`.

Spreadsheets of many countries write semicolons for commas, some programs tabs: the header shows it.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote

import numpy as np

from g2netpl.base.errors import InputError, listed
from g2netpl.labels.formats.columns import (
    CELLS,
    GROUP,
    Columns,
    find_columns,
    is_image_header,
    is_tag_header,
    label_of,
)
from g2netpl.labels.formats.groups import Groups, group_cells, group_header
from g2netpl.labels.formats.problems import LabelFileError, Problem, Problems
from g2netpl.labels.formats.reading import Reading
from g2netpl.labels.formats.sheet import Sheet, open_sheet, sheet_written
from g2netpl.labels.formats.tags import read_tags
from g2netpl.labels.formats.text import beginning
from g2netpl.labels.formats.twins import wide_table
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelMatrix, LabelTable


def recognises(path: Path) -> bool:
    """By its ending; a .txt file, as Excel saves "Unicode text", by its header."""
    ending = path.suffix.lower()
    if not path.is_file() or ending not in (".csv", ".tsv", ".txt"):
        return False
    return ending != ".txt" or is_image_header(beginning(path).split("\t"))


def read(path: Path, reading: Reading) -> LabelTable:
    """Read a wide table, or one of tags; every mistake is named by file and line."""
    sheet = open_sheet(path, Problems(), reading.encoding)
    columns = find_columns(sheet, reading)
    if columns.tags:
        return read_tags(sheet, columns, reading)
    rows = _Rows(sheet, columns, reading)
    try:
        rows.read()
        return rows.table()
    except LabelFileError as mistake:
        raise LabelFileError(rows.judged(mistake.problems)) from None


def names_classes(path: Path, reading: Reading) -> bool:
    """A wide table does, tags do not."""
    try:
        sheet = open_sheet(path, Problems(), reading.encoding)
        return find_columns(sheet, reading).tags == ()
    except LabelFileError:
        return True  # which the reading will tell


def write(table: LabelTable, path: Path) -> list[str]:
    """Write the wide shape; unobserved cells stay empty."""
    refuse_odd_header(table, path)
    for name in table.classes:
        if name != name.strip():
            raise InputError(f"{path}: class {name!r} begins or ends with a space")
    cells = {POSITIVE: 1, NEGATIVE: 0, UNOBSERVED: None}
    with sheet_written(path) as writer:
        writer.write(["image", *group_header(table), *table.classes])
        for image, values, group in zip(
            table.images, table.values, group_cells(table), strict=True
        ):
            writer.write([image, *group, *(cells[value] for value in values.tolist())])
    return []


def refuse_odd_header(table: LabelTable, path: Path) -> None:
    """Refuse to write classes whose columns would be read as tags or groups."""
    for name in table.classes:
        if name.lower() == GROUP:
            raise InputError(f"{path}: class {name!r} would be read as the column of groups")
    if is_tag_header(["image", *table.classes]):
        raise InputError(f"{path}: class {table.classes[0]!r} would be read as a column of tags")


class _Rows:
    """The rows read so far."""

    def __init__(self, sheet: Sheet, columns: Columns, reading: Reading) -> None:
        self.sheet, self.columns, self.problems = sheet, columns, sheet.problems
        self.reading = reading
        self.classes = [sheet.header[place] for place in columns.classes]
        self.images: list[str] = []
        self.lines = array("q")
        self.cells = array("b")  # row after row
        self.groups = Groups(sheet.problems)
        self.wrong: dict[str, str] = {}  # a cell of each column that is no label
        self._check_classes()

    def read(self) -> None:
        """Read every row."""
        columns, group = self.columns, self.columns.group
        for line, row in self.sheet.whole_rows():
            where, name = self.sheet.where(line), columns.name(row[columns.image])
            if group is not None:
                self.groups.add(where, name, row[group])
            self.problems.add_name(where, name)
            cells = (row[place] for place in columns.classes)
            values = [self._cell(where, column, cell) for column, cell in enumerate(cells)]
            self.images.append(name)
            self.lines.append(line)
            self.cells.extend(values)

    def table(self) -> LabelTable:
        """Everything read, checked."""
        return wide_table(
            self.images,
            self.classes,
            self._values(),
            lambda row: self.sheet.where(self.lines[row]),
            self.groups,
            self.reading,
            self.sheet.where(1),
            self.columns.notes,
        )

    def judged(self, problems: Sequence[Problem]) -> Sequence[Problem]:
        """The mistakes; those of columns that hold anything but labels are one, with its remedy."""
        others = self._without_labels(problems)
        if not others:
            return problems
        shown = listed(f"{name!r} (as {self.wrong[name][:20]!r})" for name in others)
        tags = others[0] if others[0].isalnum() else quote(others[0])
        what = f"no column holds labels: {shown}; tags are read with --tags-column {tags}"
        if len(others) < len(self.classes):
            odd = any("," in name for name in others)
            flags = [*others] if odd else [",".join(others)]
            flag = " ".join(f"--ignore-columns {quote(each)}" for each in flags)
            what = f"no labels (1, 0 or nothing) in the columns {shown}; leave them out: {flag}"
        one = Problem(self.sheet.where(self.sheet.line), "column", what)
        return [one, *(each for each in problems if each.column not in others)]

    def _without_labels(self, problems: Iterable[Problem]) -> list[str]:
        """Classes of whose cells more are no labels than labels."""
        odds = Counter(each.column for each in problems if each.column)
        known = (self._values() != UNOBSERVED).sum(axis=0).tolist()
        for name, labels in zip(self.classes, known, strict=True):
            odds[name] -= labels
        return [name for name, more in odds.items() if name and more > 0]

    def _values(self) -> LabelMatrix:
        return np.array(self.cells, dtype=np.int8).reshape(len(self.images), len(self.classes))

    def _check_classes(self) -> None:
        seen: set[str] = set()
        where = self.sheet.where(self.sheet.line)
        for place, name in zip(self.columns.classes, self.classes, strict=True):
            if not name:
                self.problems.add(where, "header", f"column {place + 1} has no class name")
            elif name in seen:
                self.problems.add(where, "header", f"class {name!r} is listed twice")
            seen.add(name)

    def _cell(self, where: str, column: int, cell: str) -> int:
        value = CELLS.get(cell)
        if value is None:
            value = label_of(cell)
        if value is None:
            name = self.classes[column]
            self.wrong.setdefault(name, cell)
            self.problems.add(
                where,
                "cell",
                f"class {name!r}: expected 1, 0 or an empty cell (unobserved), got {cell[:40]!r}",
                name,
            )
            return UNOBSERVED
        return value
