"""A table as rows of cells, each with its line: of a CSV file, or of a workbook.

The cells are text in either, so that one reader does for both. A spreadsheet that was saved has
cells below and beside the table that hold nothing; they are passed over.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

from g2netpl.base.disk import text_written_whole, writing
from g2netpl.base.errors import InputError
from g2netpl.labels.formats import xlsx
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.text import CsvWriter, Row, csv_table, delimiter

HEAD = 200  # rows that tell what the columns hold


@dataclass
class Sheet:
    """The header of a table, some rows to tell its columns by, and all rows to be read once."""

    path: Path
    line: int  # of the header; 0 where there are none
    header: list[str]
    head: list[list[str]]
    rows: Iterator[Row]
    problems: Problems
    mark: str | None = None  # between the columns of a text; None in a workbook
    notes: list[str] = field(default_factory=list)

    @property
    def between(self) -> str:
        """What may separate tags in a cell: what cannot separate columns."""
        return ";|" if self.mark in (",", None) else ",|;"

    def where(self, line: int) -> str:
        """A place in words."""
        return f"{self.path}:{line}" if line else str(self.path)

    def whole_rows(self, hint: str = "") -> Iterator[Row]:
        """The rows that have a cell for every column; others are mistakes, empty ones are not."""
        for line, row in self.rows:
            cells = self._whole(line, row, hint)
            if cells is not None:
                yield line, cells

    def column(self, place: int) -> list[str]:
        """The cells of a column in the first rows, but for those that hold nothing."""
        return [cell for row in self.head if place < len(row) and (cell := row[place].strip())]

    @cached_property
    def width(self) -> int:
        """How many columns there are."""
        return len(self.header)

    def _whole(self, line: int, row: list[str], hint: str) -> list[str] | None:
        if not any(cell and not cell.isspace() for cell in row):
            return None
        if len(row) > self.width and not any(cell.strip() for cell in row[self.width :]):
            return row[: self.width]
        if len(row) != self.width:
            what = f"expected {self.width} cells as in the header, got {len(row)}{hint}"
            self.problems.add(self.where(line), "number of cells", what)
            return None
        return row


def open_sheet(path: Path, problems: Problems, encoding: str | None = None) -> Sheet:
    """The table of a file; mistakes below the header are told when the rows are read."""
    if xlsx.recognises(path):
        book = xlsx.Book(path, problems)
        rows = book.rows()
        line, header = next(rows, (1, []))
        first, names = list(islice(rows, HEAD)), _names(header)
        head = [row for _, row in first]
        rows = _padded(chain(first, rows), len(names))
        return Sheet(path, line, names, head, rows, problems, None, book.notes)
    line, header, rows = csv_table(path, problems, encoding)
    head = []
    with suppress(InputError):  # which is told in its turn
        head = [row for _, row in islice(csv_table(path, Problems(), encoding)[2], HEAD)]
    return Sheet(path, line, _names(header), head, rows, problems, delimiter(path))


@contextmanager
def sheet_written(
    path: Path,
) -> Iterator[CsvWriter | xlsx.BookWriter]:
    """A table that takes its name once it is complete: a workbook by its ending, or else CSV."""
    if xlsx.recognises(path, there=False):
        with xlsx.book_written(path) as writer:
            yield writer
        return
    with text_written_whole(path) as file:
        yield CsvWriter(file)


def write_rows(path: str | Path, header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table that a person or a command named, whole or not at all."""
    with writing(path), sheet_written(Path(path)) as writer:
        for row in chain([header], rows):
            writer.write(row)


def _names(header: list[str]) -> list[str]:
    """The names of the columns; those behind the last name have none, and should hold nothing."""
    names = [name.strip() for name in header]
    while names and not names[-1]:
        names.pop()
    return names


def _padded(rows: Iterator[Row], width: int) -> Iterator[Row]:
    """A workbook leaves out what is empty at the end of a row."""
    for line, row in rows:
        yield line, [*row, *[""] * (width - len(row))]
