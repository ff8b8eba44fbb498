"""Wide CSV: `image,cat,dog,…`, a row per image; 1 positive, 0 negative, empty or −1 unobserved.

A column `group` names what images must stay together in a split; it is no class.

Spreadsheets of many countries write semicolons for commas, some programs tabs: the header shows it.

Plain rows are read in blocks, all at once; a block with anything unusual is read row by row, so
that every mistake is named by its line. From the first quote on, Python's csv reads the rest.
"""

import io
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from g2netpl.base.disk import text_written_whole
from g2netpl.base.errors import InputError
from g2netpl.labels.formats.groups import GROUP, Groups, group_cells, group_header
from g2netpl.labels.formats.problems import LabelFileError, Problems
from g2netpl.labels.formats.reading import Reading, as_told, good_rows, without_twins
from g2netpl.labels.formats.text import (
    IMAGE_HEADERS,
    CsvWriter,
    csv_rows,
    delimiter,
    text_blocks,
    unguarded,
)
from g2netpl.labels.table import (
    NEGATIVE,
    POSITIVE,
    UNOBSERVED,
    LabelMatrix,
    LabelTable,
    name_problem,
    plain_name,
)

TAG_HEADERS = ("labels", "label", "tags")

_CELLS = {"1": POSITIVE, "0": NEGATIVE, "": UNOBSERVED, "-1": UNOBSERVED}
_ODD = 2  # a byte that no plain cell begins with
_FIRST_BYTE = np.full(256, _ODD, dtype=np.int8)
for _text, _value in (("1", POSITIVE), ("0", NEGATIVE), (",", UNOBSERVED), ("\n", UNOBSERVED)):
    _FIRST_BYTE[ord(_text)] = _value
_SUSPICIOUS = re.compile(r"^[/\\\s,]|\.\.|:", flags=re.MULTILINE)


def recognises(path: Path) -> bool:
    """By its ending."""
    return path.suffix.lower() == ".csv" and path.is_file()


def read(path: Path, reading: Reading) -> LabelTable:
    """Read a wide table; every mistake is named by file and line."""
    problems = Problems()
    rows = _Rows(path, problems)
    try:
        for block, first_line in text_blocks(path, problems, whole_from=b'"'):
            rows.add(block, first_line)
        return as_told(rows.table(), reading, f"{path}:1")
    except LabelFileError as mistake:
        mistake.readable = rows.readable
        raise


def write(table: LabelTable, path: Path) -> list[str]:
    """Write the wide shape; unobserved cells stay empty."""
    refuse_odd_header(table, path)
    for name in table.classes:
        if name != name.strip():
            raise InputError(f"{path}: class {name!r} begins or ends with a space")
    names = {POSITIVE: "1", NEGATIVE: "0", UNOBSERVED: ""}
    with text_written_whole(path) as file:
        writer = CsvWriter(file)
        writer.write(["image", *group_header(table), *table.classes])
        for image, values, group in zip(
            table.images, table.rows(), group_cells(table), strict=True
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


def is_tag_header(header: list[str]) -> bool:
    """`image,labels`, `image,tags`, perhaps with `absent`, `group`; capitals make no difference."""
    names = [name.lower() for name in header]
    if len(names) < 2 or sorted(names[2:]) not in ([], ["absent"], [GROUP], ["absent", GROUP]):
        return False
    return names[0] in IMAGE_HEADERS and names[1] in TAG_HEADERS


class _Rows:
    """The rows read so far; the first one is the header."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self.path, self.problems = path, problems
        self.delimiter = delimiter(path)
        self.classes: list[str] | None = None
        self.images: list[str] = []
        self.lines: list[npt.NDArray[np.int64]] = []
        self.parts: list[LabelMatrix] = []
        self.groups, self.group_at = Groups(problems), 0  # its column, if there is one

    def add(self, text: str, first_line: int) -> None:
        """Read a block of whole rows."""
        if self.classes is None:
            head, _, rest = text.partition("\n")
            if head.count('"') % 2 or "\r" in head[:-1]:  # it goes on, or ends before
                self._slowly(text, first_line)
                return
            rows = csv_rows(iter([head]), self.path, 0, self.problems, self.delimiter)
            self._header(*next(rows, (1, [])))
            text, first_line = rest, first_line + 1
        usual = self.delimiter == "," and not self.group_at
        if text and not (usual and self._at_once(text, first_line)):
            self._slowly(text, first_line)

    def table(self) -> LabelTable:
        """Everything read, checked."""
        if self.classes is None:
            self._header(1, [])
        assert self.classes is not None
        lines = np.concatenate([*self.lines, np.zeros(0, dtype=np.int64)])
        values = self._values()
        images, values, notes = without_twins(
            self.images, values, lambda row: f"{self.path}:{lines[row]}", self.problems
        )
        self.problems.raise_any()
        table = LabelTable(tuple(images), tuple(self.classes), values, notes=tuple(notes))
        return self.groups.on(table)

    def readable(self) -> LabelTable | None:
        """Rows of images with a good name, each once; a cell that is no label is unobserved."""
        first = {name: column for column, name in reversed(list(enumerate(self.classes or ())))}
        columns = sorted(column for name, column in first.items() if name)
        if self.classes is None or not columns:
            return None
        names = [self.classes[column] for column in columns]
        rows = good_rows(self.images)
        return LabelTable(
            [self.images[row] for row in rows], names, self._values()[rows][:, columns]
        )

    def _values(self) -> LabelMatrix:
        nothing = np.zeros((0, len(self.classes or ())), dtype=np.int8)
        return np.concatenate([*self.parts, nothing])

    def _header(self, line: int, header: list[str]) -> None:
        header = [unguarded(name.strip()) for name in header]
        if len(header) < 2 or header[0].lower() not in IMAGE_HEADERS:
            came = ",".join(header)[:80]
            self.problems.stop(
                f"{self.path}:{line}",
                "header",
                f"expected a header 'image,<class>,…', 'image,labels' or 'image,tags', got "
                f"{came!r}",
            )
        seen: set[str] = set()
        where = f"{self.path}:{line}"
        lower = [name.lower() for name in header]
        if GROUP in lower:
            self.group_at = lower.index(GROUP)
            del header[self.group_at]
        for position, name in enumerate(header[1:], start=2):
            if not name:
                self.problems.add(where, "header", f"column {position} has no class name")
            elif name in seen:
                self.problems.add(where, "header", f"class {name!r} is listed twice")
            seen.add(name)
        self.classes = header[1:]

    def _at_once(self, text: str, first_line: int) -> bool:
        """Read a block of plain rows; False where one of them is not plain."""
        assert self.classes is not None
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
            values[row, column] = UNOBSERVED
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

    def _slowly(self, text: str, first_line: int) -> None:
        names: list[str] = []
        lines: list[int] = []
        rows: list[list[int]] = []
        try:
            for line, row in self._whole_rows(text, first_line):
                names.append(row[0])
                lines.append(line)
                rows.append([self._cell(line, column, cell) for column, cell in enumerate(row[1:])])
        finally:  # also what was read before a mistake that ends the reading
            self.images += names[: len(rows)]
            self.lines.append(np.array(lines[: len(rows)], dtype=np.int64))
            width = len(self.classes or ())
            self.parts.append(np.array(rows, dtype=np.int8).reshape(len(rows), width))

    def _whole_rows(self, text: str, first_line: int) -> Iterator[tuple[int, list[str]]]:
        """Rows with as many cells as the header, which may be the first of them."""
        source, before = iter(io.StringIO(text, newline="")), first_line - 1
        for line, row in csv_rows(source, self.path, before, self.problems, self.delimiter):
            if self.classes is None:
                self._header(line, row)
                continue
            where = f"{self.path}:{line}"
            cells = len(self.classes) + 1 + (self.group_at > 0)
            if len(row) != cells:
                what = f"expected {cells} cells as in the header, got {len(row)}"
                self.problems.add(where, "number of cells", what)
                continue
            row[0] = plain_name(unguarded(row[0]))
            if self.group_at:
                self.groups.add(where, row[0], unguarded(row.pop(self.group_at)))
            self.problems.add_name(where, row[0])
            yield line, row

    def _cell(self, line: int, column: int, cell: str) -> int:
        value = _CELLS.get(cell)
        if value is not None:
            return value
        text = cell.strip()
        if text in ("1.0", "0.0", "-1.0"):  # as spreadsheets and pandas write them
            text = text.removesuffix(".0")
        if text not in _CELLS:
            assert self.classes is not None
            self.problems.add(
                f"{self.path}:{line}",
                "cell",
                f"class {self.classes[column]!r}: expected 1, 0 or an empty cell (unobserved), "
                f"got {cell[:40]!r}",
            )
            return UNOBSERVED
        return _CELLS[text]
