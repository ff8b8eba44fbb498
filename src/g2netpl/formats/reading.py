"""What every reader shares: how to read, what is wrong where, and text from bytes.

A reader goes on after a mistake, so that all of them are told at once: `Problems` keeps them, and
`LabelFileError` carries them to `g2netpl check`. Its own text is the first one, in one line.
"""

import codecs
import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

import numpy as np

from g2netpl.entries import with_columns
from g2netpl.errors import InputError, did_you_mean
from g2netpl.labels import (
    NEGATIVE,
    UNOBSERVED,
    LabelMatrix,
    LabelTable,
    name_problem,
    repeated,
)

Absent = Literal["unobserved", "negative"]

MOST_PROBLEMS = 100_000
BOM = "\ufeff"  # may begin a text; not a part of it
_BLOCK = 1 << 22  # bytes that are read at a time


@dataclass(frozen=True)
class Reading:
    """How a label file is to be understood, where it does not say so itself."""

    absent: Absent | None = None  # what a label means that the file does not name; None: usual
    separator: str | None = None  # between tags; None: ';' or '|'
    classes: tuple[str, ...] | None = None  # the only classes there may be, in this order

    def absent_value(self, usual: Absent) -> int:
        """The label of a class that the file does not name for an image."""
        return NEGATIVE if (self.absent or usual) == "negative" else UNOBSERVED


@dataclass(frozen=True)
class Problem:
    """One mistake in a label file."""

    where: str
    kind: str
    what: str


class LabelFileError(InputError):
    """A label file with mistakes: all of them in `problems`, the first one in the message.

    `readable` gives a table of what could be read all the same, where the reader can tell.
    """

    readable: Callable[[], LabelTable | None] | None = None

    def __init__(self, problems: Sequence[Problem]) -> None:
        first, more = problems[0], len(problems) - 1
        noun = "problem" if more == 1 else "problems"
        rest = f" (and {more:,} more {noun}: g2netpl check lists them)" if more else ""
        super().__init__(f"{first.where}: {first.what}{rest}")
        self.problems = tuple(problems)


class Problems:
    """The mistakes found so far."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(self, where: str, kind: str, what: str) -> None:
        """Keep one more; beyond a hundred thousand there is no point in reading on."""
        self.found.append(Problem(where, kind, what))
        if len(self.found) >= MOST_PROBLEMS:
            self.raise_any()

    def keep(self, mistake: LabelFileError) -> None:
        """Go on after a mistake that ended the reading of one entry only."""
        for problem in mistake.problems:
            self.add(problem.where, problem.kind, problem.what)

    def raise_any(self) -> None:
        """Stop here if there was a mistake."""
        if self.found:
            raise LabelFileError(self.found)

    def stop(self, where: str, kind: str, what: str) -> NoReturn:
        """A mistake after which nothing can be read."""
        self.found.append(Problem(where, kind, what))
        raise LabelFileError(self.found)


def in_class_order(table: LabelTable, reading: Reading, where: str) -> LabelTable:
    """The table with exactly the classes the reader was told, in that order."""
    if reading.classes is None or reading.classes == table.classes:
        return table
    known = set(reading.classes)
    problems = Problems()
    for name in table.classes:
        if name not in known:
            problems.add(where, "unknown class", unknown_class(name, reading, len(problems.found)))
    problems.raise_any()
    position = {name: column for column, name in enumerate(reading.classes)}
    columns = [position[name] for name in table.classes]
    labels = with_columns(table.held, columns, len(reading.classes))
    sizes = None
    if table.sizes is not None:
        sizes = np.zeros(labels.shape, dtype=np.float32)
        sizes[:, columns] = table.sizes
    return LabelTable(table.images, reading.classes, labels, sizes, table.notes)


def every_cell_speaks(table: LabelTable, reading: Reading) -> LabelTable:
    """A wide table, with a note for those who said what is absent: an empty cell is unknown."""
    if reading.absent != "negative" or table.is_complete:
        return table
    note = "--absent negative has no effect on a wide table: an empty cell means unknown"
    return table.with_notes((*table.notes, note))


def unknown_class(name: str, reading: Reading, before: int) -> str:
    """What to say of a class that is not among the known; a hint takes time, the first get one."""
    hint = f" ({did_you_mean(name, reading.classes or ())})" if before < 20 else ""
    return f"unknown class {name!r}{hint}"


def without_twins(
    images: Sequence[str], values: LabelMatrix, at: Callable[[int], str], problems: Problems
) -> tuple[Sequence[str], LabelMatrix, list[str]]:
    """Rows of images listed twice: equal ones are dropped and counted, others are mistakes."""
    first: dict[str, int] = {}
    keep, dropped = np.ones(len(images), dtype=bool), 0
    if len(set(images)) == len(images):
        return images, values, []
    for row, name in enumerate(images):
        before = first.setdefault(name, row)
        if before == row:
            continue
        keep[row] = False
        dropped += 1
        if not np.array_equal(values[row], values[before]):
            problems.add(
                at(row),
                "image listed twice",
                f"image {name!r} is listed already ({at(before)}) with other labels",
            )
    kept = [name for name, keeps in zip(images, keep, strict=True) if keeps]
    return kept, values[keep], twins_note(dropped)


def good_rows(images: Sequence[str]) -> list[int]:
    """Where the names stand that may be looked for, each for the first time."""
    twins = {row for row, _ in repeated(images)}
    return [
        row
        for row, name in enumerate(images)
        if row not in twins and name_problem(name) is None and is_text(name)
    ]


def twins_note(dropped: int) -> list[str]:
    """A note on rows that say the same as an earlier one."""
    rows = "row was" if dropped == 1 else "rows were"
    return [f"{dropped:,} {rows} listed twice, and dropped"] if dropped else []


def class_problem(name: str) -> str | None:
    """Why a text cannot name a class; None if it can."""
    if not name.strip():
        return "the class name is empty"
    return None if is_text(name) and "\0" not in name else f"class {name!r}: the name is not text"


def is_text(name: str) -> bool:
    """False where a name holds half a character, as names of files can."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_text(path: Path, problems: Problems) -> str:
    """The whole file as text."""
    content = read_bytes(path)
    start = len(codecs.BOM_UTF8) if content.startswith(codecs.BOM_UTF8) else 0
    return decoded(content[start:], path, problems, 1, start)


def text_blocks(
    path: Path, problems: Problems, whole_from: bytes | None = None
) -> Iterator[tuple[str, int]]:
    """Pieces of whole lines with the number of their first; all the rest from a mark on."""
    try:
        with open(path, "rb") as file:
            start = len(codecs.BOM_UTF8) if file.read(3) == codecs.BOM_UTF8 else 0
            file.seek(start)
            line, rest = 1, b""
            while piece := file.read(_BLOCK):
                if whole_from is not None and whole_from in piece:
                    rest += piece + file.read()
                    break
                piece = rest + piece
                end = piece.rfind(b"\n") + 1
                block, rest = piece[:end], piece[end:]
                if block:
                    yield decoded(block, path, problems, line, start), line
                line += block.count(b"\n")
                start += len(block)
            if rest:
                yield decoded(rest, path, problems, line, start), line
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror})") from None


def text_lines(path: Path, problems: Problems) -> Iterator[str]:
    """Line after line with its end, for `csv_rows`; never the whole file at once."""
    for block, _ in text_blocks(path, problems):
        yield from io.StringIO(block, newline="")


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
            f"0x{content[problem.start]:02x}; save the file as UTF-8",
        )
    if "\0" in text:
        line += text.count("\n", 0, text.index("\0"))
        problems.stop(f"{path}:{line}", "encoding", "a NUL character; is this a text file?")
    return text


def csv_rows(
    source: Iterator[str], path: Path, before: int, problems: Problems, delimiter: str = ","
) -> Iterator[tuple[int, list[str]]]:
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
            text = file.read(4096).decode("utf-8-sig", errors="replace")
    except OSError:
        return ""
    return text.strip().partition("\n")[0]


def read_classes(path: str | Path) -> tuple[str, ...]:
    """A list of class names, one per line."""
    problems = Problems()
    names: dict[str, int] = {}
    for line, text in enumerate(read_text(Path(path), problems).split("\n"), start=1):
        name = text.strip()
        if name and name in names:
            problems.add(f"{path}:{line}", "class name", f"class {name!r} is listed twice")
        if name:
            names.setdefault(name, line)
    problems.raise_any()
    if not names:
        raise InputError(f"{path}: expected class names, one per line; the file is empty")
    return tuple(names)


def positives_only(table: LabelTable, path: Path, format_name: str) -> None:
    """Refuse to write unknown labels where the format could only call them negative."""
    unknown = len(table) * len(table.classes) - table.known
    if unknown:
        raise InputError(
            f"{path}: {format_name} cannot say 'unknown', and {unknown:,} labels are; "
            "write csv, parquet, coco, tags or label-studio instead"
        )
