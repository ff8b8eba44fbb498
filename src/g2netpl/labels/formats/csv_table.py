"""Wide tables: `image,cat,dog,…`, a row per image; 1 positive, 0 negative, empty unobserved.

A column `group` names what images must stay together in a split; it is no class. A table whose
header has a column of tags is read by `tags`.

Spreadsheets of many countries write semicolons for commas, some programs tabs: the header shows it.

Plain rows are read in blocks, all at once; a block with anything unusual is read row by row, so
that every mistake is named by its line. From the first quote on, Python's csv reads the rest.
"""

import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote

import numpy as np
import numpy.typing as npt

from g2netpl.base.errors import InputError, listed
from g2netpl.labels.formats.columns import (
    CELLS,
    GROUP,
    MINUS_ONE,
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
from g2netpl.labels.formats.text import Row, beginning, csv_rows, text_blocks, unguarded
from g2netpl.labels.formats.twins import good_rows, wide_table, with_minus_one
from g2netpl.labels.table import (
    NEGATIVE,
    POSITIVE,
    UNOBSERVED,
    LabelMatrix,
    LabelTable,
    name_problem,
    plain_name,
)

_ODD = 2  # a byte that no plain cell begins with
_FIRST_BYTE = np.full(256, _ODD, dtype=np.int8)
for _text, _value in (("1", POSITIVE), ("0", NEGATIVE), (",", UNOBSERVED), ("\n", UNOBSERVED)):
    _FIRST_BYTE[ord(_text)] = _value
_SUSPICIOUS = re.compile(r"^[/\\\s,]|\.\.|:", flags=re.MULTILINE)


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
        judged = LabelFileError(rows.judged(mistake.problems))
        judged.readable = rows.readable
        raise judged from None


def names_classes(path: Path, reading: Reading) -> bool:
    """A wide table does, tags do not."""
    try:
        sheet = open_sheet(path, Problems(), reading.encoding)
        return find_columns(sheet, reading).tags == ()
    except LabelFileError:
        return True  # which the reading will tell


def write(table: LabelTable, path: Path, bom: bool = False) -> list[str]:
    """Write the wide shape; unobserved cells stay empty."""
    refuse_odd_header(table, path)
    for name in table.classes:
        if name != name.strip():
            raise InputError(f"{path}: class {name!r} begins or ends with a space")
    names = {POSITIVE: "1", NEGATIVE: "0", UNOBSERVED: ""}
    with sheet_written(path, bom) as writer:
        writer.write(["image", *group_header(table), *table.classes])
        for image, values, group in zip(
            table.images, table.values, group_cells(table), strict=True
        ):
            writer.write([image, *group], (names[value] for value in values.tolist()))
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
        self.lines: list[npt.NDArray[np.int64]] = []
        self.parts: list[LabelMatrix] = []
        self.groups = Groups(sheet.problems)
        self.wrong: dict[str, str] = {}  # a cell of each column that is no label
        self._check_classes()

    def read(self) -> None:
        """Read every row: in blocks where a row is an image and its labels, and nothing else."""
        sheet, columns = self.sheet, self.columns
        usual = columns.image == 0 and columns.classes == tuple(range(1, sheet.width))
        if sheet.mark != "," or sheet.line > 1 or not usual or columns.root is not None:
            self._slowly(sheet.whole_rows())
            return
        blocks = text_blocks(sheet.path, self.problems, b'"', self.reading.encoding)
        for number, (text, line) in enumerate(blocks):
            if number == 0:
                head, _, rest = text.partition("\n")
                if head.count('"') % 2 or "\r" in head[:-1]:  # it goes on, or ends before
                    self._slowly(sheet.whole_rows())
                    return
                text, line = rest, 2
            if text and not self._at_once(text, line):
                sheet.rows = csv_rows(
                    iter(io.StringIO(text, newline="")), sheet.path, line - 1, self.problems
                )
                self._slowly(sheet.whole_rows())

    def table(self) -> LabelTable:
        """Everything read, checked."""
        lines = np.concatenate([*self.lines, np.zeros(0, dtype=np.int64)])
        return wide_table(
            self.images,
            self.classes,
            self._values(),
            lambda row: self.sheet.where(lines[row]),
            self.groups,
            self.reading,
            self.sheet.where(1),
            self.columns.notes,
        )

    def readable(self) -> LabelTable | None:
        """Rows of images with a good name, each once; a cell that is no label is unobserved."""
        others = self._without_labels(self.problems.found)
        first = {name: column for column, name in reversed(list(enumerate(self.classes)))}
        columns = sorted(column for name, column in first.items() if name and name not in others)
        if not columns:
            return None
        names = [self.classes[column] for column in columns]
        rows = good_rows(self.images)
        values = with_minus_one(self._values()[rows][:, columns], self.reading)
        return LabelTable([self.images[row] for row in rows], names, values)

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
        nothing = np.zeros((0, len(self.classes)), dtype=np.int8)
        return np.concatenate([*self.parts, nothing])

    def _check_classes(self) -> None:
        seen: set[str] = set()
        where = self.sheet.where(self.sheet.line)
        for place, name in zip(self.columns.classes, self.classes, strict=True):
            if not name:
                self.problems.add(where, "header", f"column {place + 1} has no class name")
            elif name in seen:
                self.problems.add(where, "header", f"class {name!r} is listed twice")
            seen.add(name)

    def _at_once(self, text: str, first_line: int) -> bool:
        """Read a block of plain rows; False where one of them is not plain."""
        text = text.replace("\r\n", "\n")
        if '"' in text or "\r" in text:
            return False
        if not text.endswith("\n"):
            text += "\n"
        content = text.encode()
        data = np.frombuffer(content, dtype=np.uint8)
        width = len(self.classes) + 1
        marks = np.flatnonzero((data == 44) | (data == 10)).astype(np.int32)
        if len(marks) % width:
            return False
        ends = marks.reshape(-1, width)
        if (data[ends[:, -1]] != 10).any() or np.count_nonzero(data == 10) != len(ends):
            return False
        starts = ends[:, :-1] + 1
        values = _FIRST_BYTE[data[starts]]
        plain = (ends[:, 1:] - starts <= 1) & (values != _ODD)
        if not plain.all():
            row, column = np.nonzero(~plain)
            begin, end = starts[row, column], ends[row, column + 1]
            minus_one = (end - begin == 2) & (data[begin] == 45) & (data[begin + 1] == 49)
            if not minus_one.all():
                return False
            values[row, column] = MINUS_ONE
        begins = np.concatenate([[0], ends[:-1, -1] + 1]).tolist()
        stops = ends[:, 0].tolist()
        if len(content) == len(text):
            names = [text[begin:stop] for begin, stop in zip(begins, stops, strict=True)]
        else:
            names = [
                content[begin:stop].decode() for begin, stop in zip(begins, stops, strict=True)
            ]
        if "'" in text:
            names = [unguarded(name) for name in names]
        if "./" in text or "//" in text:
            names = [plain_name(name) for name in names]
        if _SUSPICIOUS.search(text) and any(name_problem(name) for name in names):
            return False
        self.images += names
        self.lines.append(np.arange(first_line, first_line + len(names), dtype=np.int64))
        self.parts.append(values)
        return True

    def _slowly(self, rows: Iterable[Row]) -> None:
        names: list[str] = []
        lines: list[int] = []
        values: list[list[int]] = []
        columns, group = self.columns, self.columns.group
        try:
            for line, row in rows:
                where, name = self.sheet.where(line), columns.name(row[columns.image])
                if group is not None:
                    self.groups.add(where, name, unguarded(row[group]))
                self.problems.add_name(where, name)
                names.append(name)
                lines.append(line)
                values.append(
                    [
                        self._cell(where, column, row[place])
                        for column, place in enumerate(columns.classes)
                    ]
                )
        finally:  # also what was read before a mistake that ends the reading
            self.images += names[: len(values)]
            self.lines.append(np.array(lines[: len(values)], dtype=np.int64))
            width = len(self.classes)
            self.parts.append(np.array(values, dtype=np.int8).reshape(len(values), width))

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
