"""Workbooks of Excel, LibreOffice and others (.xlsx): the first sheet as rows of text, and back.

Nothing in a workbook is run: a formula is read as what the program that saved it last made of it.
Needs openpyxl, the extra `xlsx`.
"""

import io
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, repeat, zip_longest
from pathlib import Path
from typing import Any

from g2netpl.base.arrays import in_short
from g2netpl.base.errors import InputError, listed
from g2netpl.base.files import atomic_write
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.text import Row, read_bytes
from g2netpl.labels.formats.xml_file import Walk

_ENDINGS = (".xlsx", ".xlsm", ".xltx", ".xls", ".xlsb", ".ods", ".numbers")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # begins old workbooks, and those with a password
_MOST_ROWS, _MOST_COLUMNS = 1 << 20, 1 << 14  # of a sheet of Excel
_MOST_TEXT = 32_767  # characters of a cell of Excel
_SOME = 1_000  # rows at a time
_PIECE = 1 << 18  # bytes at a time
_CHANGED = re.compile(r"^=|[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]|_x[0-9A-Fa-f]{4}_")

Cells = tuple[Any, ...]  # of a row


class _Part(Walk):
    """A part of a workbook; keeps the ranges of merged cells, as A2:A5."""

    def __init__(self) -> None:
        super().__init__()
        self.merged: list[str] = []

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        if name.endswith("mergeCell"):
            self.merged.append(attributes.get("ref", ""))


def recognises(path: Path, there: bool = True) -> bool:
    """By its ending."""
    return path.suffix.lower() in _ENDINGS and (not there or path.is_file())


class Book:
    """The first sheet of a workbook that is not hidden."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self.path, self.problems = path, problems
        self.notes: list[str] = []
        self._formulas = False
        self._merged: dict[str, list[str]] = {}  # of each part
        self.content = read_bytes(path)
        self._refuse_others()
        with self._told():
            self._check_parts()
            shown = [each for each in self._open(True) if each.sheet_state == "visible"]
        if not shown:
            self._stop("has no sheet to be seen")
        self._sheet, self._title = shown[0], shown[0].title
        if len(shown) > 1:
            what = f"sheet {self._title!r} is read, the first of {len(shown)}"
            self.notes.append(f"{what}; to read another, put it first")
        ranges = self._merged.get(self._sheet._worksheet_path, [])
        with self._told():
            self._filling = _Filling(ranges)
        if ranges:
            shown_as = "are read as if each held the text of the first"
            self.notes.append(f"merged cells ({listed(ranges)}) {shown_as}")

    def rows(self) -> Iterator[Row]:
        """The rows that hold anything, each without the empty cells at its end."""
        line = 0
        formulas = self._blocks(self._twin()) if self._formulas else repeat(())
        for values, written in zip(self._blocks(self._sheet), formulas, strict=False):
            for found, formula in zip_longest(values, written, fillvalue=()):
                line += 1
                self._check_computed(line, found, formula)
                texts = [_text(value) for value in found]
                while texts and not texts[-1]:
                    texts.pop()
                if texts:
                    yield line, self._filling.filled(line, texts)
            if line > _MOST_ROWS:
                self._stop(f"its sheet has more than {_MOST_ROWS:,} rows; save it as CSV")

    def _refuse_others(self) -> None:
        """Say what to do about what is no workbook, or none that can be read."""
        content, save = self.content, "save it as .xlsx or CSV"
        if content.startswith(_OLE) and "EncryptedPackage".encode("utf-16-le") in content:
            self._stop("is protected by a password; save it without one")
        if content.startswith(_OLE):
            self._stop(f"a workbook of Excel's old format (.xls); {save}")
        if b"mimetypeapplication/vnd.oasis.opendocument" in content[:200]:
            self._stop(f"a table of OpenDocument (.ods); {save}")
        if not content.startswith(b"PK"):
            self._stop(f"not a workbook: it begins with {content[:12]!r}; {save}")
        if self.path.suffix.lower() in (".xlsb", ".numbers"):
            self._stop(f"cannot be read; {save}")

    def _check_parts(self) -> None:
        """Look at every part before it is read: it must have no entities."""
        with zipfile.ZipFile(io.BytesIO(self.content)) as archive:
            for part in archive.infolist():
                if part.filename.lower().endswith((".xml", ".rels")):
                    with archive.open(part) as file:
                        self._merged[part.filename] = self._check_part(file)

    def _check_part(self, file: Any) -> list[str]:
        """Look at a part; gives its ranges of merged cells."""
        walk, rest = _Part(), b""
        while piece := file.read(_PIECE):
            walk.parser.Parse(piece, False)
            seen = rest + piece
            self._formulas = self._formulas or b"<f>" in seen or b"<f " in seen
            rest = piece[-3:]
        walk.parser.Parse(b"", True)
        return walk.merged

    def _open(self, computed: bool) -> list[Any]:
        """The sheets, whose cells hold what was computed, or else the formulas."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = _openpyxl().load_workbook(
                io.BytesIO(self.content), read_only=True, data_only=computed, keep_links=False
            )
        return list(book.worksheets)

    def _twin(self) -> Any:
        """The same sheet with formulas instead of what they gave."""
        with self._told():
            return next(each for each in self._open(False) if each.title == self._title)

    def _blocks(self, sheet: Any) -> Iterator[Sequence[Cells]]:
        """Some rows at a time."""
        sheet.reset_dimensions()  # what a file claims of its size is not believed
        values = sheet.iter_rows(values_only=True)
        while True:
            with self._told(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                some = list(islice(values, _SOME))
            yield some
            if len(some) < _SOME:
                return

    def _check_computed(self, line: int, values: Cells, formulas: Cells) -> None:
        for place, (value, formula) in enumerate(zip(values, formulas, strict=False)):
            if value is None and formula is not None:
                what = f"column {place + 1} has a formula that nothing was made of yet"
                where = f"{self.path}:{line}"
                self.problems.stop(where, "formula", f"{what}; open the file in Excel and save it")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except InputError:
            raise
        except Exception as problem:  # a damaged file can say anything
            self._stop(f"not a readable workbook ({in_short(problem)})")

    def _stop(self, what: str) -> None:
        self.problems.stop(str(self.path), "workbook", what)


class _Filling:
    """Fills merged cells below the header with the text of the first, which alone holds it.

    A row without a cell of its own shows nothing that the row above does not show.
    """

    def __init__(self, ranges: Iterable[str]) -> None:
        self._width = 0  # of the header
        self._begin: dict[int, list[tuple[int, int, int]]] = {}  # in a row: left, right and last
        self._held: dict[int, tuple[str, int]] = {}  # of a column: the text, and its last row
        for each in ranges:
            left, top, right, last = _openpyxl().worksheet.cell_range.CellRange(each).bounds
            self._begin.setdefault(top, []).append((left - 1, right, last))

    def filled(self, line: int, texts: list[str]) -> list[str]:
        """A row that holds anything; the first is the header."""
        if not self._begin:
            return texts
        below, self._width = self._width > 0, self._width or len(texts)
        row = [*texts, *[""] * (self._width - len(texts))]
        for left, right, last in self._begin.get(line, ()):
            for column in range(left, min(right, self._width)):
                self._held[column] = row[left], last
        for column, (text, last) in self._held.items():
            if below and line <= last:
                row[column] = text
        return row


class BookWriter:
    """Writes rows of a sheet."""

    def __init__(self, sheet: Any, path: Path) -> None:
        self._sheet, self._path, self._rows = sheet, path, 0

    def write(self, cells: Iterable[Any]) -> None:
        """A row."""
        row = [self._cell(cell) for cell in cells]
        self._rows += 1
        if self._rows > _MOST_ROWS or len(row) > _MOST_COLUMNS:
            raise InputError(
                f"{self._path}: a sheet has {_MOST_ROWS:,} rows and {_MOST_COLUMNS:,} columns at "
                "most; write csv or parquet instead"
            )
        self._sheet.append(row)

    def _cell(self, cell: Any) -> Any:
        if not isinstance(cell, str):
            return cell
        if _CHANGED.search(cell) or len(cell) > _MOST_TEXT:
            raise InputError(f"{self._path}: {cell[:40]!r} cannot stand in a workbook as it is")
        return cell or None


@contextmanager
def book_written(path: Path) -> Iterator[BookWriter]:
    """A workbook of one sheet, which takes its name once it is complete."""
    book = _openpyxl().Workbook(write_only=True)
    sheet = book.create_sheet("labels")
    sheet.freeze_panes = "B2"
    try:
        yield BookWriter(sheet, path)
    except BaseException:
        sheet.close()
        raise
    content = io.BytesIO()  # openpyxl leaves its archive open where a disk is full
    book.save(content)
    with atomic_write(path) as file:
        file.write(content.getbuffer())


def _text(value: Any) -> str:
    """A cell as it would stand in CSV."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).removesuffix(" 00:00:00")  # of a day without a time


def _openpyxl() -> Any:
    try:
        import openpyxl
    except ImportError:
        raise InputError(
            "workbooks need openpyxl: pip install 'g2netpl[xlsx]', or save as CSV"
        ) from None
    return openpyxl
