"""The cells of a table as text: CSV, workbooks, Parquet, or a data frame of pandas.

Text comes as it is written: `007`, `NA` and dates stay. A CSV file whose rows all have the cells of
the header is parsed by pandas; one with quotes or irregular rows by `csv`, which knows the lines.
"""

import contextlib
import csv
import io
import json
import re
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from g2netpl.labels.io.issues import Issues, LabelFileError
from g2netpl.labels.io.text import beginning, read_bytes, read_text
from g2netpl.labels.names import normalize_name
from g2netpl.utils.arrays import first_line
from g2netpl.utils.errors import InputError

BOOK_ENDINGS = (".xlsx", ".xlsm", ".xltx", ".xls", ".xlsb", ".ods")
PARQUET_ENDINGS = (".parquet", ".pq")
_BEGINNING = 1 << 24  # characters that the first rows are looked for in
HEAD = 200  # rows that show what the columns hold
Column = Any  # an array of Arrow with text, or an array of numbers
Cells = dict[int, Column]  # columns by their place
_DELIMITERS = ",;\t|"
_EXCEL_LINE = re.compile(r"sep=([,;\t|])\s*$", re.IGNORECASE)  # a first line that only Excel writes
_QUOTED = re.compile('"[^"]*("|$)')
_PASSWORD = "EncryptedPackage".encode("utf-16-le")
_BAD_CELL = re.compile(  # a formula that was never computed, or an error
    rb'<c(?=[^>]* r="([A-Z]+)(\d+)")?[^>]*(?:>\s*<f(?:>|\s[^>]*>)[^<]*</f>\s*</c>| t="e")'
)


class Sheet:
    """The header, the first rows and (by `load`) all rows of a table."""

    def __init__(self, path: Path | str, header: Iterable[Any], issues: Issues) -> None:
        names = [normalize_name(str(name).strip()) for name in header]
        while names and not names[-1]:
            names.pop()
        self.path, self.header, self.issues = path, names, issues
        self.head: list[list[str]] = []
        self.delimiter: str | None = None  # None: not a text file
        self.notes: list[str] = []
        self.places: Sequence[int] = range(0)  # of the loaded rows: their lines or indices
        self.line: int | None = 1  # of the header; None if rows are counted from 0, as in Parquet
        self.broken: tuple[str, str, str] | None = None  # an issue that ended the reading
        self.read: Callable[[Sequence[int]], Cells] = lambda text: {}

    @property
    def width(self) -> int:
        """How many columns there are."""
        return len(self.header)

    @property
    def header_place(self) -> str:
        """Where the header is, in words."""
        return str(self.path) if self.line is None else f"{self.path}:{self.line}"

    @property
    def separators(self) -> str:
        """What separates tags in a cell: nothing that separates columns."""
        return ";|" if self.delimiter in (",", None) else ",|;"

    def at(self, place: int) -> str:
        """A line or an index of a row, in words."""
        return f"{self.path}: row {place}" if self.line is None else f"{self.path}:{place}"

    def where(self, row: int) -> str:
        """The place of a loaded row, in words."""
        return self.at(int(self.places[row]))

    def column(self, place: int) -> list[str]:
        """The cells of a column in the first rows that are not empty."""
        return [cell for row in self.head if place < len(row) and (cell := row[place].strip())]

    def load(self, text: Sequence[int]) -> Cells:
        """All rows that hold anything, by place; the columns of `text` as text, others perhaps not.

        Rows are only looked at if the first of `text` is empty.
        """
        cells = self.read(text)
        if not text or not cells:
            return cells
        suspects = np.flatnonzero(_is_blank(cells[text[0]]))
        for column in cells.values():
            if len(suspects):
                suspects = suspects[_is_blank(column)[suspects]]
        if len(suspects):
            kept = np.setdiff1d(np.arange(len(self.places)), suspects)
            self.places = np.asarray(self.places)[kept].tolist()
            cells = {
                place: column.take(pa.array(kept)) if isinstance(column, pa.Array) else column[kept]
                for place, column in cells.items()
            }
        return cells

    def fill(self, rows: Sequence[Sequence[str]], places: Sequence[int], hint: str = "") -> Cells:
        """Columns of rows in memory; rows with other cells than the header are issues."""
        kept, at, width = [], [], self.width
        for place, row in zip(places, rows, strict=True):
            if len(row) == width:
                kept.append(row)
                at.append(place)
            elif len(row) > width and not any(cell.strip() for cell in row[width:]):
                kept.append(row[:width])
                at.append(place)
            elif any(cell.strip() for cell in row):
                message = f"expected {width} cells as in the header, got {len(row)}{hint}"
                self.issues.add(self.at(place), "number of cells", message)
        self.places = at
        columns = zip(*kept, strict=True) if kept else [()] * width
        return {place: pa.array(cells, pa.large_string()) for place, cells in enumerate(columns)}


def _is_blank(column: Column) -> npt.NDArray[np.bool_]:
    """Which cells hold nothing."""
    if not isinstance(column, pa.Array):
        return np.asarray(pd.isna(column))
    blank = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(column)), 0)
    return np.asarray(blank.to_numpy(zero_copy_only=False), dtype=bool)


def open_sheet(path: Path, issues: Issues, encoding: str | None = None, hint: str = "") -> Sheet:
    """The table of a file, by its ending."""
    ending = path.suffix.lower()
    if ending in BOOK_ENDINGS:
        return _open_book(path, issues)
    return _open_text(path, issues, encoding, hint)


# text


def delimiter_of(path: Path) -> str:
    """What separates the columns of a text file."""
    return _delimiter(beginning(path))


def _delimiter(header: str) -> str:
    if told := _EXCEL_LINE.match(header):
        return told[1]
    bare = _QUOTED.sub("", header)
    return max(_DELIMITERS, key=bare.count)


def _open_text(path: Path, issues: Issues, encoding: str | None, hint: str) -> Sheet:
    text = read_text(path, issues, encoding)
    mark = _delimiter(text.lstrip("\r\n")[:4096].replace("\r", "\n").partition("\n")[0])
    if '"' not in text and "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    first: list[tuple[int, list[str]]] = []
    with contextlib.suppress(csv.Error):  # which is reported when all rows are read
        first.extend(islice(_csv_rows(text[:_BEGINNING], mark), HEAD + 2))
    if len(text) > _BEGINNING and len(first) < HEAD + 2:
        first = first[:-1]  # half a row
    if first and _EXCEL_LINE.match(mark.join(first[0][1])):
        first = first[1:]
    line, raw = first[0] if first else (1, [])
    sheet = Sheet(path, raw, issues)
    sheet.delimiter, sheet.line = mark, line
    sheet.head = [row for _, row in first[1:]]
    if len(first) > 1 and '"' not in text and len(first[1][1]) == len(raw) > 1:
        sheet.read = lambda places: _parsed(sheet, text, len(raw), places, hint)
    else:
        sheet.read = lambda places: _parsed_slowly(sheet, text, hint)
    return sheet


def _csv_rows(text: str, mark: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line each begins on, without empty lines; csv.Error for broken quotes."""
    reader, began = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=mark), 0
    try:
        for row in reader:
            if row:
                yield began + 1, row
            began = reader.line_num
    except csv.Error as problem:
        raise csv.Error(f"{began + 1}:{problem}") from None


def _parsed(sheet: Sheet, text: str, width: int, places: Sequence[int], hint: str) -> Cells:
    """All rows by pandas, if each has as many cells as the header.

    A first row is added so that pandas takes columns of text as text, even if they hold numbers.
    """
    assert sheet.line is not None
    start, mark = 0, sheet.delimiter or ","
    for _ in range(sheet.line):
        start = text.index("\n", start) + 1
    lines = text.count("\n", start) + (not text.endswith("\n"))
    if text.count(mark, start) == lines * (width - 1):
        first = mark.join("\x01" if place in places else "1" for place in range(width)) + "\n"
        with contextlib.suppress(ValueError):  # of pandas' parser, if the rows differ after all
            data = pd.read_csv(
                io.BytesIO(first.encode() + text[start:].encode()),
                sep=mark,
                header=None,
                names=list(range(width)),
                index_col=False,
                keep_default_na=False,
                na_values=[""],
                quoting=csv.QUOTE_NONE,
                skip_blank_lines=False,
                low_memory=False,
            )
            if len(data) == lines + 1:
                sheet.places = range(sheet.line + 1, sheet.line + 1 + lines)
                return {place: _column(data[place].iloc[1:]) for place in range(sheet.width)}
    return _parsed_slowly(sheet, text, hint)


def _parsed_slowly(sheet: Sheet, text: str, hint: str) -> Cells:
    """All rows by `csv`, with their lines; broken quotes end the reading."""
    places, rows = [], []
    try:
        for place, row in _csv_rows(text, sheet.delimiter or ","):
            if place > (sheet.line or 0):
                places.append(place)
                rows.append(row)
    except csv.Error as problem:
        line, _, message = str(problem).partition(":")
        if message == "unexpected end of data":
            message = "a quote is opened in this row and never closed"
        sheet.broken = (sheet.at(int(line)), "broken row", message)
    return sheet.fill(rows, places, hint)


def _column(column: "pd.Series[Any]") -> Column:
    """A parsed column: numbers as they are, anything else as text."""
    if column.dtype.kind in "iufb":
        return column.to_numpy()
    found = pa.array(column, pa.large_string(), from_pandas=True)
    return pc.fill_null(found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found, "")


# workbooks, Parquet and data frames


def _open_book(path: Path, issues: Issues) -> Sheet:
    """The first visible sheet of a workbook; merged cells hold the text of the first."""
    content = read_bytes(path)
    if _PASSWORD in content[: 1 << 20]:
        issues.stop(str(path), "workbook", "is protected by a password; save it without one")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = pd.ExcelFile(io.BytesIO(content), engine="calamine").book
            visible = [str(s.visible).endswith("Visible") for s in book.sheets_metadata]
            names = [n for n, shown in zip(book.sheet_names, visible, strict=True) if shown]
            data = book.get_sheet_by_name(names[0]) if names else None
            merged = (data.merged_cell_ranges or []) if data is not None else []
            rows = [] if data is None else data.to_python(skip_empty_area=False)
        _check_formulas(path, content, issues)
    except LabelFileError:
        raise
    except ImportError:
        raise InputError("workbooks need python-calamine: pip install python-calamine") from None
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as problem:  # a damaged file can say anything, and Rust may panic
        issues.stop(str(path), "workbook", f"not a readable workbook ({problem!s:.200})")
    if not names:
        issues.stop(str(path), "workbook", "has no visible sheet")
    cells = [[_cell_text(cell) for cell in row] for row in rows]
    top = next((at for at, row in enumerate(cells) if any(row)), 0)
    sheet = Sheet(path, cells[top] if cells else [], issues)
    sheet.line = top + 1
    for (first, left), (last, right) in merged:
        for row in range(max(first, top + 1), min(last + 1, len(cells))):
            for column in range(left, min(right + 1, sheet.width)):
                cells[row][column] = cells[first][left]
    width = sheet.width
    for cells_of_row in cells:  # a row ends with its last cell that holds anything
        while len(cells_of_row) > width and not cells_of_row[-1]:
            cells_of_row.pop()
    if len(names) > 1:
        message = f"sheet {names[0]!r} is read, the first of {len(names)}"
        sheet.notes.append(f"{message}; to read another, put it first")
    if merged:
        sheet.notes.append("merged cells are read as if each held the text of the first")
    sheet.head = cells[top + 1 : top + 1 + HEAD]
    sheet.read = lambda places: sheet.fill(cells[top + 1 :], range(top + 2, len(cells) + 1))
    return sheet


def _check_formulas(path: Path, content: bytes, issues: Issues) -> None:
    """Refuse formulas without a value, as programs write them that do not compute, and errors."""
    if not content.startswith(b"PK"):
        return
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            found = name.startswith("xl/worksheets/sheet") and _BAD_CELL.search(archive.read(name))
            if found:
                where = f"{path}:{int(found[2])}" if found[2] else str(path)
                cell = f"cell {(found[1] + found[2]).decode()}" if found[2] else "a cell"
                message = f"{cell} has a formula without a value; open the file in Excel or "
                issues.stop(where, "formula", f"{message}LibreOffice, correct it and save it")


def read_parquet(path: Path, issues: Issues) -> pd.DataFrame:
    """A Parquet file as a data frame."""
    if not path.is_file():
        raise InputError(f"{path}: {'not a regular file' if path.exists() else 'no such file'}")
    try:
        table = parquet.ParquetFile(pa.OSFile(str(path))).read()
        table.validate(full=True)
        frame = table.to_pandas(ignore_metadata=True, strings_to_categorical=False)
    except Exception as problem:  # a damaged file can say anything
        issues.stop(str(path), "Parquet", f"not a readable Parquet file ({first_line(problem)})")
    return frame


def sheet_of_frame(frame: pd.DataFrame, path: Path | str, issues: Issues) -> Sheet:
    """A data frame of pandas; lists in cells are kept as text of JSON."""
    sheet = Sheet(path, frame.columns, issues)
    sheet.line, width = None, sheet.width
    names = [str(name) for name in frame.columns]
    twice = (
        next((name for name in names if names.count(name) > 1), None) if width < 1 << 14 else None
    )
    if twice is not None:
        issues.stop(str(path), "header", f"column {twice!r} is there twice")
    columns = [_frame_column(frame.iloc[:, place]) for place in range(width)]
    texts = [_as_text(column[:HEAD]).to_pylist() for column in columns]
    sheet.head = [list(row) for row in zip(*texts, strict=True)]

    def read(places: Sequence[int]) -> Cells:
        sheet.places = range(len(frame))
        return {
            place: _as_text(column) if place in places else column
            for place, column in enumerate(columns)
        }

    sheet.read = read
    return sheet


def _frame_column(column: "pd.Series[Any]") -> Column:
    """A column of a data frame: numbers as they are, anything else as text."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iufb":
        return column.to_numpy()
    cells = [_list_text(cell) if _is_list(cell) else cell for cell in column]
    codes, values = pd.factorize(np.array([*cells, None], dtype=object)[:-1])
    texts = pa.array([*map(_cell_text, values), ""], pa.large_string())
    return texts.take(pa.array(np.where(codes < 0, len(values), codes)))


def _as_text(column: Column) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    return pa.array(map(_cell_text, column.tolist()), pa.large_string())


def _is_list(cell: object) -> bool:
    return isinstance(cell, list | tuple | set | frozenset | np.ndarray)


def _list_text(cell: Any) -> str:
    items = cell.tolist() if isinstance(cell, np.ndarray) else list(cell)
    return json.dumps([str(item) for item in items if item is not None], ensure_ascii=False)


def _cell_text(value: Any) -> str:
    """A cell as it would stand in CSV."""
    if value is None or value is pd.NaT or value is pd.NA or value != value:
        return ""
    if isinstance(value, bool | np.bool_):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(value).removesuffix(" 00:00:00")  # of a day without a time
