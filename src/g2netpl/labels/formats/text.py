"""Text from the bytes of a file, and rows of CSV; mistakes by line and byte."""

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import Any, TextIO

from g2netpl.base.errors import InputError
from g2netpl.labels.formats.problems import Problems

Row = tuple[int, list[str]]  # the line it begins on, and its cells
IMAGE_HEADERS = ("image", "file_name")
BOM = "\ufeff"
TEXT_ENDINGS = (".csv", ".tsv", ".txt")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # as Excel begins "Unicode text"
_QUOTED = re.compile('"[^"]*("|$)')
_SEPARATOR = re.compile(r"sep=([,;\t|])\s*$", re.IGNORECASE)  # a first line that only Excel writes


def read_text(path: Path, problems: Problems, encoding: str | None = None) -> str:
    """The whole file as text, without a byte order mark.

    What the file says of its encoding by its first bytes counts more than what a person says.
    """
    content = read_bytes(path)
    if content.startswith(_UTF_16):
        encoding = "utf-16"
    elif content.startswith(codecs.BOM_UTF8):
        encoding = None
    try:
        text = content.decode(encoding or "utf-8").removeprefix(BOM)
    except (UnicodeError, LookupError) as problem:
        at = problem.start if isinstance(problem, UnicodeDecodeError) else 0
        line = f"{path}:{1 + content[:at].count(10)}"
        what = f"expected text in the encoding {encoding}, which it is not (byte {at})"
        if encoding is None:
            what = f"expected UTF-8 text, byte {at} is 0x{content[at]:02x}; save the file as "
            what += "UTF-8, or for CSV name its encoding, as --encoding cp1252"
        problems.stop(line, "encoding", what)
    if "\0" in text:
        line = f"{path}:{1 + text.count(chr(10), 0, text.index(chr(0)))}"
        problems.stop(line, "encoding", "a NUL character; is this a text file?")
    return text


def numbered_lines(path: Path, problems: Problems) -> Iterator[tuple[int, str]]:
    """The lines that are not empty, without spaces at their ends, and their numbers."""
    for line, text in enumerate(read_text(path, problems).split("\n"), start=1):
        if text.strip():
            yield line, text.strip()


def csv_rows(text: str, path: Path, problems: Problems, delimiter: str = ",") -> Iterator[Row]:
    """Rows with the line each begins on, past empty lines. Broken quotes end the reading."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    began = 0
    try:
        for row in reader:
            if row:
                yield began + 1, row
            began = reader.line_num
    except csv.Error as problem:
        what = str(problem)
        if what == "unexpected end of data":
            what = "a quote is opened in this row and never closed"
        problems.stop(f"{path}:{began + 1}", "broken row", what)


def csv_table(
    path: Path, problems: Problems, encoding: str | None = None
) -> tuple[int, list[str], Iterator[Row]]:
    """The header, the line it is on, and the rows below it."""
    rows = csv_rows(read_text(path, problems, encoding), path, problems, delimiter(path))
    if _SEPARATOR.match(beginning(path)):
        next(rows, None)
    first, header = next(rows, (1, []))
    return first, header, rows


def lines_of(path: Path, names: Set[str]) -> dict[str, int]:
    """The first line on which each of these names is a cell."""
    found: dict[str, int] = {}
    for line, row in csv_table(path, Problems())[2]:
        for name in names & {*row}:
            found.setdefault(name, line)
    return found


def delimiter(path: Path) -> str:
    """What stands between the columns: a comma, unless a header without one shows another."""
    header = beginning(path)
    if told := _SEPARATOR.match(header):
        return told[1]
    bare = _QUOTED.sub("", header.partition("\r")[0])
    return next((mark for mark in ",;\t" if mark in bare), ",")


class CsvWriter:
    """Writes rows of CSV."""

    def __init__(self, file: TextIO) -> None:
        self._usual = csv.writer(file, lineterminator="\n")
        self._quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)

    def write(self, cells: Iterable[Any]) -> None:
        """A row."""
        row = list(cells)
        odd = any(isinstance(cell, str) and "\r" in cell for cell in row)  # csv leaves them bare
        (self._quoted if odd else self._usual).writerow(row)


def read_bytes(path: Path) -> bytes:
    """The content of a regular file."""
    try:
        if path.is_file():
            return path.read_bytes()
        problem = "not a regular file" if path.exists() else "no such file"
    except OSError as trouble:
        problem = f"cannot be read ({trouble.strerror})"
    raise InputError(f"{path}: {problem}")


def beginning(path: Path) -> str:
    """The first line of a file, or as much as is needed to recognise it."""
    try:
        with open(path, "rb") as file:
            content = file.read(4096)
    except OSError:
        return ""
    encoding = "utf-16" if content[:2] in _UTF_16 else "utf-8-sig"
    return content.decode(encoding, errors="replace").strip().partition("\n")[0]
