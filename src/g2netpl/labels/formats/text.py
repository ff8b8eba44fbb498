"""Text from the bytes of a file, whole or in pieces, and rows of CSV; mistakes by line and byte."""

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import Any, TextIO

from g2netpl.base.disk import opening
from g2netpl.base.errors import InputError
from g2netpl.labels.formats.problems import Problems

Row = tuple[int, list[str]]  # the line it begins on, and its cells
IMAGE_HEADERS = ("image", "file_name")
TEXT_ENDINGS = (".csv", ".tsv", ".txt")
_BLOCK = 1 << 22  # bytes that are read at a time
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # as Excel begins "Unicode text"
_QUOTED = re.compile('"[^"]*("|$)')
_SEPARATOR = re.compile(r"sep=([,;\t|])\s*$", re.IGNORECASE)  # a first line that only Excel writes


def read_text(path: Path, problems: Problems) -> str:
    """The whole file as text."""
    content = read_bytes(path)
    start = len(codecs.BOM_UTF8) if content.startswith(codecs.BOM_UTF8) else 0
    return decoded(content[start:], path, problems, 1, start)


def text_blocks(
    path: Path, problems: Problems, encoding: str | None = None
) -> Iterator[tuple[str, int]]:
    """Pieces of whole lines with the number of their first.

    What the file says of its encoding by its first bytes counts more than what a person says.
    """
    with opening(path), open(path, "rb") as file:
        first = file.read(3)
        start = len(codecs.BOM_UTF8) if first == codecs.BOM_UTF8 else 0
        file.seek(start)
        if first[:2] in _UTF_16 or (encoding is not None and not start):
            other = "utf-16" if first[:2] in _UTF_16 else encoding
            yield _in_encoding(file.read(), other or "utf-8", path, problems), 1
            return
        line, rest = 1, b""
        while piece := file.read(_BLOCK):
            piece = rest + piece
            end = piece.rfind(b"\n") + 1
            block, rest = piece[:end], piece[end:]
            if block:
                yield decoded(block, path, problems, line, start), line
            line += block.count(b"\n")
            start += len(block)
        if rest:
            yield decoded(rest, path, problems, line, start), line


def text_lines(path: Path, problems: Problems, encoding: str | None = None) -> Iterator[str]:
    """Line after line with its end, for `csv_rows`; never the whole file at once."""
    for block, _ in text_blocks(path, problems, encoding):
        yield from io.StringIO(block, newline="")


def numbered_lines(path: Path, problems: Problems) -> Iterator[tuple[int, str]]:
    """The lines that are not empty, without spaces at their ends, and their numbers."""
    for line, text in enumerate(read_text(path, problems).split("\n"), start=1):
        if text.strip():
            yield line, text.strip()


def decoded(content: bytes, path: Path, problems: Problems, line: int, start: int) -> str:
    """A part of a file as text; other encodings than UTF-8 are named by line and byte."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as problem:
        line += content.count(b"\n", 0, problem.start)
        problems.stop(
            f"{path}:{line}",
            "encoding",
            f"expected UTF-8 text, byte {start + problem.start} is "
            f"0x{content[problem.start]:02x}; save the file as UTF-8, or for CSV name its "
            "encoding, as --encoding cp1252",
        )
    return _without_nul(text, path, problems, line)


def _without_nul(text: str, path: Path, problems: Problems, line: int) -> str:
    if "\0" in text:
        line += text.count("\n", 0, text.index("\0"))
        problems.stop(f"{path}:{line}", "encoding", "a NUL character; is this a text file?")
    return text


def _in_encoding(content: bytes, encoding: str, path: Path, problems: Problems) -> str:
    """The whole of a file that is not in UTF-8."""
    try:
        text = content.decode(encoding)
    except (UnicodeError, LookupError) as problem:
        at = f" (byte {problem.start})" if isinstance(problem, UnicodeDecodeError) else ""
        what = f"expected text in the encoding {encoding}, which it is not{at}"
        problems.stop(f"{path}:1", "encoding", what)
    return _without_nul(text, path, problems, 1)


def csv_rows(
    source: Iterator[str], path: Path, before: int, problems: Problems, delimiter: str = ","
) -> Iterator[Row]:
    """Rows with the line each begins on, past empty lines. Broken quotes end the reading."""
    reader = csv.reader(source, strict=True, delimiter=delimiter)
    began = before
    try:
        for row in reader:
            if row:
                yield began + 1, row
            began = before + reader.line_num
    except csv.Error as problem:
        what = str(problem)
        if what == "unexpected end of data":
            what = "a quote is opened in this row and never closed"
        problems.stop(f"{path}:{began + 1}", "broken row", what)


def csv_table(
    path: Path, problems: Problems, encoding: str | None = None
) -> tuple[int, list[str], Iterator[Row]]:
    """The header, the line it is on, and the rows below it."""
    mark = delimiter(path)
    rows = csv_rows(text_lines(path, problems, encoding), path, 0, problems, mark)
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
