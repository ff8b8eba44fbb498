"""What is wrong in a label file, and where; and the text or JSON in a file.

A reader continues after an issue, so that `g2netpl check` reports all of them at once. The text of
a `LabelFileError` is the first one, in one line.
"""

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pydantic import TypeAdapter, ValidationError

from g2netpl.labels.names import name_problem
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.files import friendly_os_errors

MOST_ISSUES = 100_000
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # Excel's "Unicode text" begins with one


@dataclass(frozen=True)
class Issue:
    """One issue: the file and its row, the column if there is one, and what is wrong."""

    where: str
    kind: str
    message: str
    column: str = ""

    @property
    def row(self) -> str:
        """The row (or other place) in the file; empty if the issue is about the whole file."""
        number = re.search(r"[: ](\d+)$", self.where)
        return number[1] if number else ""


class LabelFileError(InputError):
    """A label file with issues; `hint` says what to do if that is not clear from the issues."""

    def __init__(self, issues: Sequence[Issue], hint: str = "") -> None:
        first, more = issues[0], len(issues) - 1
        rest = f" (and {counted(more, 'more problem')}: g2netpl check lists them)" if more else ""
        super().__init__(f"{first.where}: {first.message}{rest}{'; ' if hint else ''}{hint}")
        self.issues, self.hint = tuple(issues), hint


class Issues(list[Issue]):
    """The issues so far."""

    def add(self, where: str, kind: str, message: str, column: str = "") -> None:
        """Add one; the reading ends at a hundred thousand."""
        self.append(Issue(where, kind, message, column))
        if len(self) >= MOST_ISSUES:
            self.raise_any()

    def add_names(self, names: Sequence[str], where: Callable[[int], str]) -> None:
        """Add what is wrong with image names."""
        for row, problem in enumerate(map(name_problem, names)):
            if problem is not None:
                self.add(where(row), "image name", f"image {names[row]!r}: {problem}")

    def raise_any(self) -> None:
        """Stop here if there was an issue."""
        if self:
            raise LabelFileError(self)

    def stop(self, where: str, kind: str, message: str) -> NoReturn:
        """Add an issue after which nothing can be read; it is the first to be reported."""
        self.insert(0, Issue(where, kind, message))
        raise LabelFileError(self)


# text and JSON


def read_bytes(path: Path) -> bytes:
    """The content of a regular file."""
    if not path.is_file():
        raise InputError(f"{path}: {'not a regular file' if path.exists() else 'no such file'}")
    with friendly_os_errors(path):
        return path.read_bytes()


def encoding_of(content: bytes, encoding: str | None = None) -> str:
    """The encoding that a byte order mark names, or else the given one, or UTF-8."""
    if content.startswith(_UTF_16):
        return "utf-16"
    return "utf-8-sig" if content.startswith(codecs.BOM_UTF8) else encoding or "utf-8"


def read_text(path: Path, issues: Issues, encoding: str | None = None) -> str:
    """The whole file as text, without a byte order mark."""
    content = read_bytes(path)
    used = encoding_of(content, encoding)
    try:
        text = content.decode(used)
    except (UnicodeError, LookupError) as problem:
        at = problem.start if isinstance(problem, UnicodeDecodeError) else 0
        message = f"expected text in the encoding {used}, which it is not (byte {at})"
        if used == "utf-8":
            message = f"expected UTF-8 text, byte {at} is 0x{content[at]:02x}; save the file as "
            message += "UTF-8, or for CSV name its encoding, as --set encoding=cp1252"
        if content.startswith(b"\x1f\x8b"):
            message = "compressed by gzip; unpack it"
        issues.stop(f"{path}:{1 + content[:at].count(10)}", "encoding", message)
    if "\0" in text:
        line = 1 + text.count("\n", 0, text.index("\0"))
        message = "a NUL character; is this text? UTF-16 without a mark: --set encoding=utf-16-le"
        issues.stop(f"{path}:{line}", "encoding", message)
    return text.removeprefix("\ufeff")


def numbered_lines(path: Path, issues: Issues) -> Iterator[tuple[int, str]]:
    """The lines that are not empty, stripped, with their numbers."""
    for line, text in enumerate(read_text(path, issues).split("\n"), start=1):
        if text.strip():
            yield line, text.strip()


def beginning(path: Path) -> str:
    """The first line of a file, or as much of it as is needed to recognise it."""
    try:
        with open(path, "rb") as file:
            content = file.read(4096)
    except OSError:
        return ""
    text = content.decode(encoding_of(content), errors="replace").strip()
    return text.replace("\r", "\n").partition("\n")[0]


def read_json(path: Path, issues: Issues, kind: Any = Any, name: str = "") -> Any:
    """The content of a JSON file, as a model of pydantic describes it; raises all mismatches."""
    try:
        return TypeAdapter(kind).validate_json(read_text(path, issues))
    except ValidationError as problem:
        for error in problem.errors(include_url=False, include_context=False):
            place = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in error["loc"])
            message = error["msg"].removeprefix("Value error, ")
            if error["type"] not in ("missing", "json_invalid", "value_error"):
                message += f", got {error['input']!r:.60}"
            if name and not issues and error["type"] != "json_invalid":
                message += f" (read as {name}; other JSON is not read: write CSV image,labels)"
            issues.add(f"{path}: {place.lstrip('.')}" if place else str(path), "JSON", message)
    issues.raise_any()
