"""The cells of a table in a data frame: CSV, workbooks, Parquet, or a frame from Python.

Text stays as it is written: `007`, `NA` and dates.
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
from pyarrow import parquet

from g2netpl.labels.io.issues import Issues, read_bytes, read_text
from g2netpl.labels.names import normalize_name
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED
from g2netpl.utils.arrays import first_line

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
    def header_place(self) -> str:
        """Where the header is, in words."""
        return str(self.path) if self.line is None else f"{self.path}:{self.line}"

    @property
    def separators(self) -> str:
        """What separates tags in a cell: nothing that separates columns."""
        return ";|" if self.delimiter in (",", None) else ",|;"

    def where(self, row: int) -> str:
        """The place of a row of `cells`, in words."""
        return f"{self.path}{': row ' if self.line is None else ':'}{self.places[row]}"

    def head(self, place: int) -> list[str]:
        """The first cells of a column that are not empty."""
        texts = (cell_text(cell).strip() for cell in self.cells[place].iloc[:_HEAD])
        return [text for text in texts if text]

    def texts(self, place: int) -> list[str]:
        """A column as text."""
        return [cell_text(cell) for cell in self.cells[place].tolist()]


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
        return json.dumps([str(item) for item in cell if item is not None], ensure_ascii=False)
    if pd.isna(cell):
        return ""
    if isinstance(cell, bool | np.bool_):
        return str(cell).upper()
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    return str(cell).removesuffix(" 00:00:00")  # of a day without a time


def open_sheet(path: Path, issues: Issues, encoding: str | None = None) -> Sheet:
    """The table in a file, by its ending."""
    ending = path.suffix.lower()
    if ending in PARQUET_ENDINGS:
        return sheet_of_frame(read_parquet(path, issues), path, issues)
    if ending in BOOK_ENDINGS:
        return _open_book(path, issues)
    return _open_text(path, issues, encoding)


# text


def delimiter_of(header: str) -> str:
    """What separates the columns, by the first line."""
    return max(_DELIMITERS, key=_QUOTED.sub("", header).count)


def read_rows(
    path: Path, text: str, delimiter: str, before: int, issues: Issues
) -> tuple[list[list[str]], list[int]]:
    """The rows of CSV, and the line at which each begins; `before` lines are before the text."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    rows, lines, line = [], [], before + 1
    try:
        for row in reader:
            rows.append(row)
            lines.append(line)
            line = before + 1 + reader.line_num
    except csv.Error as problem:
        is_open = str(problem) == "unexpected end of data"
        message = "a quote is opened in this row and never closed" if is_open else str(problem)
        issues.stop(f"{path}:{line}", "broken row", message)
    return rows, lines


def _open_text(path: Path, issues: Issues, encoding: str | None) -> Sheet:
    text = read_text(path, issues, encoding)
    if "\r" in text and ('"' not in text or "\n" not in text):
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    start, before, mark = 0, 0, None
    while found := _BEFORE.match(text, start):
        start, before, mark = found.end(), before + 1, found[1] or mark
    text = text[start:]
    mark = mark or delimiter_of(text.partition("\n")[0])
    first, _, rest = text.partition("\n")
    header = first.split(mark)
    frame = None if '"' in text else _parsed(rest, mark, len(header))
    if frame is not None:
        lines = range(before + 2, before + 2 + len(frame))
        return Sheet(path, header, frame, issues, lines, before + 1, mark)
    return _rectangle(path, *read_rows(path, text, mark, before, issues), issues, mark)


def _parsed(text: str, mark: str, width: int) -> pd.DataFrame | None:
    """All rows of a text without quotes, quickly; None if a row has more or fewer cells."""
    if text.partition("\n")[0].count(mark) != width - 1:
        return None
    try:
        return pd.read_csv(
            io.BytesIO(text.encode()),
            sep=mark,
            names=range(width),
            dtype=str,
            keep_default_na=False,
            skip_blank_lines=False,
            engine="pyarrow",
        )
    except ValueError:
        return None


def _rectangle(
    path: Path,
    rows: Sequence[list[str]],
    places: Sequence[int],
    issues: Issues,
    mark: str | None = None,
) -> Sheet:
    """The header and the rows with as many cells; other rows are issues."""
    header = rows[0] if rows else []
    while header and not header[-1].strip():
        header.pop()
    width, kept, kept_places = len(header), [], []
    for place, row in zip(places[1:], rows[1:], strict=True):
        if len(row) == width or (len(row) > width and not any(map(str.strip, row[width:]))):
            kept.append(row[:width])
            kept_places.append(place)
        elif any(map(str.strip, row)):
            message = f"expected {width} cells as in the header, got {len(row)}"
            hint = "; separate tags by ';' or '|'" if mark == "," else ""
            issues.add(f"{path}:{place}", "number of cells", message + hint)
    frame = pd.DataFrame(kept, columns=range(width), dtype=object)
    return Sheet(path, header, frame, issues, kept_places, (places or [1])[0], mark)


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
    sheet = _rectangle(path, rows[top:], range(top + 1, len(rows) + 1), issues)
    if len(names) > 1:
        message = f"sheet {names[0]!r} is read, the first of {len(names)}"
        sheet.notes.append(f"{message}; to read another, put it first")
    if merged:
        sheet.notes.append("merged cells are read as if each held the text of the first")
    return sheet


def read_parquet(path: Path, issues: Issues) -> pd.DataFrame:
    """A Parquet file as a data frame."""
    try:
        table = parquet.ParquetFile(pa.OSFile(str(path))).read()
        table.validate(full=True)
        return table.to_pandas(ignore_metadata=True)
    except Exception as problem:  # a damaged file can say anything
        issues.stop(str(path), "Parquet", f"not a readable Parquet file ({first_line(problem)})")


def sheet_of_frame(frame: pd.DataFrame, path: Path | str, issues: Issues) -> Sheet:
    """A data frame of pandas as a table."""
    header = frame.columns.astype(str)
    if header.has_duplicates:
        twice = header[header.duplicated()][0]
        issues.stop(str(path), "header", f"column {twice!r} is there twice")
    cells = frame.set_axis(range(len(header)), axis=1)
    return Sheet(path, list(header), cells, issues, range(len(frame)))
