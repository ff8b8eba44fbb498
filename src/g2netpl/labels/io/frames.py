"""The cells of a table in a data frame: CSV, workbooks, Parquet, or a frame from Python.

Text stays as it is written: `007`, `NA` and dates. A CSV file without quotes whose rows all have
the cells of the header is parsed by Arrow; others by `csv`, which knows the line of each row.
"""

import csv
import io
import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.text import beginning, read_bytes, read_text
from g2netpl.labels.names import normalize_name
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED
from g2netpl.utils.arrays import first_line
from g2netpl.utils.errors import InputError

TEXT_ENDINGS = (".csv", ".tsv", ".txt")
BOOK_ENDINGS = (".xlsx", ".xlsm", ".xltx", ".xls", ".xlsb", ".ods")
PARQUET_ENDINGS = (".parquet", ".pq")
MINUS_ONE = -2  # a cell of -1, until it is known whether that means negative or unobserved
_HEAD = 200  # rows that show what a column holds
_WORDS = {  # of labels, in lower case
    POSITIVE: ("1", "1.0", "1,0", "true", "yes", "x", "✓", "✔", "wahr", "ja", "vrai", "oui"),
    NEGATIVE: ("0", "0.0", "0,0", "false", "no", "falsch", "nein", "faux", "non"),
    UNOBSERVED: ("", "?", "na", "n/a", "nan", "null"),
    MINUS_ONE: ("-1", "-1.0", "-1,0"),
}
_LABELS = {word: value for value, words in _WORDS.items() for word in words}
_BLOCK = 1 << 24  # bytes that are parsed at a time; a line must not be longer
_DELIMITERS = ",;\t|"
_BEFORE = re.compile(r"\r?\n|sep=([,;\t|])[ \t]*\r?\n", re.IGNORECASE)  # as only Excel writes
_QUOTED = re.compile('"[^"]*("|$)')


@dataclass
class Sheet:
    """The header and the cells of a table, and the place of each row in the file."""

    path: Path | str
    header: list[str]
    cells: pd.DataFrame  # a column for each place of the header, 0 to width - 1
    issues: Issues
    places: Sequence[int]  # of the rows: their lines, or indices
    line: int | None = None  # of the header; None if rows are counted from 0, as in Parquet
    delimiter: str | None = None  # of a text file
    notes: list[str] = field(default_factory=list)
    _heads: dict[int, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [normalize_name(str(name).strip()) for name in self.header]
        while names and not names[-1]:
            names.pop()
        self.header = names
        empty = np.arange(len(self.cells))
        for place in self.cells:  # rows that hold nothing are left out
            cells = self.cells[place].iloc[empty]
            empty = empty[np.asarray(cells.isna() | (cells == ""), dtype=bool)]
            if not len(empty):
                return
        kept = np.setdiff1d(np.arange(len(self.cells)), empty)
        self.cells = self.cells.iloc[kept]
        self.places = np.asarray(self.places)[kept].tolist()

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
        """The place of a row of `cells`, in words."""
        return self.at(int(self.places[row]))

    def head(self, place: int) -> list[str]:
        """The first cells of a column that are not empty."""
        if place not in self._heads:
            texts = (cell_text(cell).strip() for cell in self.cells[place].iloc[:_HEAD])
            self._heads[place] = [text for text in texts if text]
        return self._heads[place]

    def texts(self, place: int) -> pa.Array:
        """A column as text."""
        column = self.cells[place]
        if isinstance(column.dtype, pd.StringDtype) or pd.api.types.infer_dtype(column) == "string":
            found = pa.array(column, pa.large_string(), from_pandas=True)
            found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
            return found.fill_null("")
        return pa.array(map(cell_text, column), pa.large_string())


def label_of(cell: str) -> int | None:
    """The label in a cell of a class column; None if it is none."""
    text = cell.strip().lower()
    if text in _LABELS or not text[-1:].isdecimal():
        return _LABELS.get(text)
    try:  # 1.00
        return {1.0: POSITIVE, 0.0: NEGATIVE, -1.0: MINUS_ONE}.get(float(text))
    except ValueError:
        return None


def cell_text(cell: Any) -> str:
    """A cell as it would be written in CSV; a list as JSON."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, list | tuple | set | frozenset | np.ndarray):
        items = [str(item) for item in cell if item is not None]
        return json.dumps(items, ensure_ascii=False)
    if cell is None or cell is pd.NaT or cell is pd.NA or cell != cell:
        return ""
    if isinstance(cell, bool | np.bool_):
        return str(cell).upper()
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    if isinstance(cell, bytes):
        return cell.decode(errors="replace")
    return str(cell).removesuffix(" 00:00:00")  # of a day without a time


def open_sheet(path: Path, issues: Issues, encoding: str | None = None, hint: str = "") -> Sheet:
    """The table in a file, by its ending."""
    ending = path.suffix.lower()
    if ending in PARQUET_ENDINGS:
        return sheet_of_frame(read_parquet(path, issues), path, issues)
    if ending in BOOK_ENDINGS:
        return _open_book(path, issues)
    return _open_text(path, issues, encoding, hint)


# text


def delimiter_of(path: Path) -> str:
    """What separates the columns of a text file."""
    return _most_frequent(beginning(path))


def _most_frequent(header: str) -> str:
    return max(_DELIMITERS, key=_QUOTED.sub("", header).count)


def _open_text(path: Path, issues: Issues, encoding: str | None, hint: str) -> Sheet:
    text = read_text(path, issues, encoding)
    if "\r" in text and ('"' not in text or "\n" not in text):
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    start, line, mark = 0, 1, None
    while before := _BEFORE.match(text, start):
        start, line, mark = before.end(), line + 1, before[1] or mark
    text = text[start:]
    first, _, rest = text.partition("\n")
    mark = mark or _most_frequent(first)
    header = first.split(mark)
    if '"' not in text and len(header) > 1:
        frame = _parsed(rest, mark, len(header))
        if frame is not None:
            places = range(line + 1, line + 1 + len(frame))
            return Sheet(path, header, frame, issues, places, line, mark)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=mark)
    rows, lines, began = [], [], line
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(began)
            began = line + reader.line_num
    except csv.Error as problem:
        is_open = str(problem) == "unexpected end of data"
        message = "a quote is opened in this row and never closed" if is_open else str(problem)
        issues.stop(f"{path}:{began}", "broken row", message)
    return _rectangle(path, rows, lines, issues, line, mark, hint)


def _parsed(text: str, mark: str, width: int) -> pd.DataFrame | None:
    """All rows by Arrow; None if one has not `width` cells."""
    head = [row.split(mark) for row in text[: 1 << 20].split("\n")[:_HEAD]]
    if len(head[0]) != width:
        return None
    columns = zip(*(row for row in head if len(row) == width), strict=True)
    is_label = [all(label_of(cell) is not None for cell in column) for column in columns]
    names = list(map(str, range(width)))
    types = (pa.dictionary(pa.int32(), pa.string()) if label else pa.string() for label in is_label)
    try:
        table = arrow_csv.read_csv(
            pa.py_buffer(text.encode()),
            arrow_csv.ReadOptions(column_names=names, block_size=_BLOCK),
            arrow_csv.ParseOptions(delimiter=mark, quote_char=False, ignore_empty_lines=False),
            arrow_csv.ConvertOptions(column_types=dict(zip(names, types, strict=True))),
        )
    except pa.ArrowInvalid:  # rows that differ
        return None
    return table.to_pandas().set_axis(range(width), axis=1)


def _rectangle(
    path: Path,
    rows: Sequence[list[str]],
    places: Sequence[int],
    issues: Issues,
    line: int,
    mark: str | None = None,
    hint: str = "",
) -> Sheet:
    """The header and the rows with as many cells; other rows are issues."""
    header = rows[0] if rows else []
    while header and not header[-1].strip():
        header.pop()
    width, kept, kept_places = len(header), [], []
    for place, row in zip(places[1:], rows[1:], strict=True):
        if len(row) >= width and not any(cell.strip() for cell in row[width:]):
            kept.append(row[:width])
            kept_places.append(place)
        elif any(cell.strip() for cell in row):
            message = f"expected {width} cells as in the header, got {len(row)}{hint}"
            issues.add(f"{path}:{place}", "number of cells", message)
    columns = zip(*kept, strict=True) if kept else [()] * width
    frame = pd.DataFrame(dict(enumerate(columns)), dtype=object)
    return Sheet(path, header, frame, issues, kept_places, line, mark)


# workbooks, Parquet and data frames


def _open_book(path: Path, issues: Issues) -> Sheet:
    """The first visible sheet of a workbook; merged cells hold the text of the first."""
    content = read_bytes(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = pd.ExcelFile(io.BytesIO(content), engine="calamine").book
        about = zip(book.sheet_names, book.sheets_metadata, strict=True)
        names = [name for name, sheet in about if str(sheet.visible).endswith("Visible")]
        page = book.get_sheet_by_name(names[0])
        merged = page.merged_cell_ranges or []
        rows = [[cell_text(cell) for cell in row] for row in page.to_python(skip_empty_area=False)]
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as problem:  # a damaged file can say anything, and Rust may panic
        issues.stop(str(path), "workbook", f"not a readable workbook ({problem!s:.200})")
    top = next((number for number, row in enumerate(rows) if any(row)), 0)
    for (first, left), (last, right) in merged:
        for row in rows[max(first, top + 1) : last + 1]:
            row[left : right + 1] = [rows[first][left]] * len(row[left : right + 1])
    lines = range(top + 1, len(rows) + 1)
    sheet = _rectangle(path, rows[top:], lines, issues, top + 1)
    if len(names) > 1:
        message = f"sheet {names[0]!r} is read, the first of {len(names)}"
        sheet.notes.append(f"{message}; to read another, put it first")
    if merged:
        sheet.notes.append("merged cells are read as if each held the text of the first")
    return sheet


def read_parquet(path: Path, issues: Issues) -> pd.DataFrame:
    """A Parquet file as a data frame."""
    if not path.is_file():
        raise InputError(f"{path}: {'not a regular file' if path.exists() else 'no such file'}")
    try:
        table = parquet.ParquetFile(pa.OSFile(str(path))).read()
        table.validate(full=True)
        return table.to_pandas(ignore_metadata=True, strings_to_categorical=False)
    except Exception as problem:  # a damaged file can say anything
        issues.stop(str(path), "Parquet", f"not a readable Parquet file ({first_line(problem)})")


def sheet_of_frame(frame: pd.DataFrame, path: Path | str, issues: Issues) -> Sheet:
    """A data frame of pandas as a table."""
    header = [str(name) for name in frame.columns]
    twice = frame.columns[frame.columns.astype(str).duplicated()]
    if len(twice):
        issues.stop(str(path), "header", f"column {str(twice[0])!r} is there twice")
    cells = frame.set_axis(range(len(header)), axis=1)
    return Sheet(path, header, cells, issues, range(len(frame)))
