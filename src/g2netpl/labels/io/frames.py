"""The cells of a table in a data frame: CSV, workbooks, Parquet, or a frame from Python.

Text stays as it is written: `007`, `NA` and dates.
"""

import csv
import io
import json
import re
import warnings
import zipfile
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

BOOK_ENDINGS = (".xlsx", ".xlsm", ".xltx", ".xls", ".xlsb", ".ods")
PARQUET_ENDINGS = (".parquet", ".pq")
ENDINGS = (".csv", ".tsv", *BOOK_ENDINGS, *PARQUET_ENDINGS)
MINUS_ONE = -2  # a cell of -1, until it is known whether that means negative or unobserved
_HEAD = 200  # rows that show what a column holds
_WORDS = {  # of labels, in lower case
    POSITIVE: (
        *("1", "1.0", "1,0", "true", "t", "yes", "y", "present", "x", "✓", "✔", "☑", "✅"),
        *("wahr", "ja", "vrai", "oui", "vero", "verdadero", "sí", "si"),
    ),
    NEGATIVE: (
        *("0", "0.0", "0,0", "false", "f", "no", "n", "absent", "✗", "✘", "☐", "❌"),
        *("falsch", "nein", "faux", "non", "falso"),
    ),
    UNOBSERVED: ("", "?", "na", "n/a", "nan", "none", "null", "<na>", "\\n"),
    MINUS_ONE: ("-1", "-1.0", "-1,0"),
}
LABEL_WORDS = "1, 0, true, false, yes, no, present, absent, x, ✓, ✗ or nothing"
_LABELS = {word: value for value, words in _WORDS.items() for word in words}
_DELIMITERS = ",;\t|"
_BEFORE = re.compile(r"\r?\n|sep=([,;\t|])[ \t]*\r?\n", re.IGNORECASE)  # as only Excel writes
_QUOTED = re.compile('"[^"]*("|$)')

Rows = dict[int, list[str]]  # by line


@dataclass
class Sheet:
    """The header and the cells of a table, all of them text."""

    path: Path | str
    header: list[str]
    cells: pd.DataFrame  # columns 0 to width - 1; the index is the line or row in the file
    issues: Issues
    line: int | None = None  # of the header; None if rows are counted from 0, as in Parquet
    delimiter: str | None = None  # of a text file
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.header = [normalize_name(name.strip()) for name in self.header]
        while self.header and not self.header[-1]:
            self.header.pop()
        if self.header:  # rows that hold nothing are left out
            blank = self.cells[self.cells[0] == ""]
            blank = blank[(blank == "").all(axis=1)]
            self.cells = self.cells.drop(index=blank.index) if len(blank) else self.cells

    @property
    def header_place(self) -> str:
        """Where the header is, in words."""
        return str(self.path) if self.line is None else f"{self.path}:{self.line}"

    @property
    def separators(self) -> str:
        """What separates tags in a cell: nothing that separates columns."""
        return ";|；" if self.delimiter in (",", None) else ",|;；"

    def where(self, row: int) -> str:
        """The place of a row of `cells`, in words."""
        return f"{self.path}{': row ' if self.line is None else ':'}{self.cells.index[row]}"

    def head(self, place: int) -> list[str]:
        """The first cells of a column that are not empty."""
        texts = (cell.strip() for cell in self.cells[place].iloc[:_HEAD])
        return [text for text in texts if text]

    def texts(self, place: int) -> list[str]:
        """The cells of a column."""
        cells: list[str] = self.cells[place].to_numpy(object).tolist()
        return cells


def label_of(cell: str) -> int | None:
    """The label in a cell of a class column; None if it is none."""
    text = cell.strip().removesuffix("\ufe0f").lower()  # which makes ✔ an emoji
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


def read_rows(path: Path, text: str, delimiter: str, line: int, issues: Issues) -> Rows:
    """The rows of CSV by the line at which each begins; `line` is the first."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    rows, at = Rows(), line
    try:
        for row in reader:
            rows[at], at = row, line + reader.line_num
    except csv.Error as problem:
        is_open = str(problem) == "unexpected end of data"
        message = "a quote is opened in this row and never closed" if is_open else str(problem)
        issues.stop(f"{path}:{at}", "broken row", message)
    return rows


def _open_text(path: Path, issues: Issues, encoding: str | None) -> Sheet:
    text = read_text(path, issues, encoding)
    if "\r" in text and ('"' not in text or "\n" not in text):
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    start, mark = 0, None
    while found := _BEFORE.match(text, start):
        start, mark = found.end(), found[1] or mark
    line = 1 + text.count("\n", 0, start)
    text = text[start:]
    first, _, rest = text.partition("\n")
    mark = mark or delimiter_of(first)
    header = first.split(mark)
    has_odd = '"' in text or not header[-1].strip()  # a column without a name may hold cells
    frame = None if has_odd else _parsed(rest, mark, len(header))
    if frame is not None:
        frame.index += line + 1
        return Sheet(path, header, frame, issues, line, mark)
    return _rectangle(path, read_rows(path, text, mark, line, issues), issues, mark)


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


def _rectangle(path: Path, rows: Rows, issues: Issues, mark: str | None = None) -> Sheet:
    """The header and the rows with as many cells, by their lines; other rows are issues."""
    line = next(iter(rows), 1)
    header = rows.pop(line, [])
    while header and not header[-1].strip():
        header.pop()
    width, kept = len(header), Rows()
    for place, row in rows.items():
        if len(row) >= width and not any(map(str.strip, row[width:])):
            kept[place] = row[:width]
        elif any(map(str.strip, row)):
            message = f"expected {width} cells as in the header (row {line}), got {len(row)}"
            hint = "separate tags by ';' or '|'" if mark == "," else "name each column in one row"
            issues.add(f"{path}:{place}", "number of cells", f"{message}; {hint}")
    frame = pd.DataFrame([*kept.values()], [*kept], range(width), dtype=object)
    return Sheet(path, header, frame, issues, line, mark)


# workbooks, Parquet and data frames


def _open_book(path: Path, issues: Issues) -> Sheet:
    """The first visible sheet of a workbook; merged cells hold the text of the first."""
    if path.name.startswith("~$"):
        message = f"a lock file of Excel; close Excel and name {path.name[2:]}"
        issues.stop(str(path), "workbook", message)
    file = io.BytesIO(read_bytes(path))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = pd.ExcelFile(file, engine="calamine").book
        about = zip(book.sheet_names, book.sheets_metadata, strict=True)
        names = [name for name, sheet in about if str(sheet.visible).endswith("Visible")]
        page = book.get_sheet_by_name(names[0])
        merged = page.merged_cell_ranges or []
        content = page.to_python(skip_empty_area=False)
        rows = {line: [*map(cell_text, row)] for line, row in enumerate(content, start=1)}
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as problem:  # a damaged file can say anything, and Rust may panic
        is_text = file.getvalue() and b"\0" not in file.getvalue()[:500]
        cause = "it holds CSV, HTML or XML" if is_text else "damaged or password-protected"
        message = f"not a readable workbook ({problem!s:.200}): {cause}; save it as .xlsx again"
        issues.stop(str(path), "workbook", message)
    top = next((line for line, row in rows.items() if any(row)), 1)
    for (first, left), (last, right) in merged:  # from 0; the header stays as it is
        for line in {*range(max(first, top) + 1, last + 2)} & {*rows}:
            text, row = rows[first + 1][left : left + 1], rows[line]
            row[left : right + 1] = text * len(row[left : right + 1])
    rows = {line: row for line, row in rows.items() if line >= top}
    sheet = _rectangle(path, rows, issues)
    if len(names) > 1:
        message = f"sheet {names[0]!r} is read, the first of {len(names)}"
        sheet.notes.append(f"{message}; to read another, put it first")
    if merged:
        sheet.notes.append("merged cells are read as if each held the text of the first")
    return sheet


def holds_formulas(path: Path | str) -> bool:
    """Whether a workbook that can be read has formulas."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as book:
        pages = (name for name in book.namelist() if "worksheets/sheet" in name)
        return any(b"<f>" in book.read(name) for name in pages)


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
    cells = {place: _as_text(column) for place, (_, column) in enumerate(frame.items())}
    return Sheet(path, list(header), pd.DataFrame(cells, range(len(frame))), issues)


def _as_text(column: "pd.Series[Any]") -> Any:
    """The cells of a column; each different number is written once."""
    if not pd.api.types.is_numeric_dtype(column):
        return [*map(cell_text, column)]
    codes, numbers = pd.factorize(column, use_na_sentinel=False)
    return pd.Categorical.from_codes(codes, [*map(cell_text, numbers)])
