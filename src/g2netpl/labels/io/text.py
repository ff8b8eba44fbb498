"""Text and JSON from the bytes of a file; issues name the line."""

import codecs
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from g2netpl.labels.io.issues import Issues
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import friendly_os_errors

LARGEST_FILE = 8 << 30  # bytes
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # Excel's "Unicode text" begins with one


def read_bytes(path: Path) -> bytes:
    """The content of a regular file."""
    if not path.is_file():
        problem = "not a regular file" if path.exists() else "no such file"
        raise InputError(f"{path}: {problem}")
    with friendly_os_errors(path):
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(f"{path}: larger than 8 GB; split it, or convert it to Parquet")
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
        line = f"{path}:{1 + content[:at].count(10)}"
        message = f"expected text in the encoding {used}, which it is not (byte {at})"
        if used == "utf-8":
            message = f"expected UTF-8 text, byte {at} is 0x{content[at]:02x}; save the file as "
            message += "UTF-8, or for CSV name its encoding, as --encoding cp1252"
        issues.stop(line, "encoding", message)
    if "\0" in text:
        line = f"{path}:{1 + text.count(chr(10), 0, text.index(chr(0)))}"
        issues.stop(line, "encoding", "a NUL character; is this a text file?")
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


def read_json(path: Path, issues: Issues, kind: Any = Any) -> Any:
    """The content of a JSON file, as a model of pydantic describes it."""
    return parse_json(read_text(path, issues), str(path), issues, kind)


def parse_json(text: str, where: str, issues: Issues, kind: Any = Any) -> Any:
    """The content of a JSON text, as a model of pydantic describes it; raises all mismatches."""
    try:
        return _adapter(kind).validate_json(text)
    except ValidationError as problem:
        for error in problem.errors(include_url=False, include_context=False):
            place = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in error["loc"])
            said = error["msg"].removeprefix("Value error, ")
            is_own = error["type"] in ("missing", "json_invalid", "value_error")
            message = said if is_own else f"{said}, got {error['input']!r:.60}"
            issues.add(f"{where}: {place.lstrip('.')}" if place else where, "JSON", message)
    issues.raise_any()


_adapter = cache(TypeAdapter)
