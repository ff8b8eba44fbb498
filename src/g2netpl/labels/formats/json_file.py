"""Reading JSON strictly: duplicate keys, NaN and endless nesting are mistakes, told by place."""

import json
import re
from pathlib import Path
from typing import Any, NoReturn

from g2netpl.labels.formats.problems import LabelFileError, Problem, Problems
from g2netpl.labels.formats.text import read_text

_UNUSED = {"segmentation", "keypoints", "rle"}  # large, and of no use here
_MOST_LEVELS = 64
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(path: Path, problems: Problems) -> Any:
    """The content of a JSON file."""
    return parse_json(read_text(path, problems), str(path), problems)


def parse_json(text: str, where: str, problems: Problems) -> Any:
    """The content of a JSON text."""
    try:
        content = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
        if _HALF_CHARACTER.search(text):
            json.dumps(content, ensure_ascii=False).encode()
        if isinstance(content, dict | list) and _is_deep(content):
            raise RecursionError
        return content
    except json.JSONDecodeError as problem:
        line = f"{where}:{problem.lineno}" if "\n" in text.strip() else where
        problems.stop(line, "JSON", f"not valid JSON ({problem.msg}, column {problem.colno})")
    except RecursionError:
        problems.stop(where, "JSON", f"JSON nested deeper than {_MOST_LEVELS} levels")
    except UnicodeEncodeError as problem:
        half = problem.object[problem.start : problem.end]
        problems.stop(where, "JSON", f"{half!r} is half a character; expected two \\u in a row")
    except ValueError as problem:  # ours, or of a number with thousands of digits
        problems.stop(where, "JSON", str(problem).partition(";")[0])


def member(value: Any, key: str, kind: type, where: str) -> Any:
    """`value[key]`, which must be there and of a kind."""
    if not isinstance(value, dict):
        raise mistake(where, f"expected an object with {key!r}, got {value!r:.60}")
    found = value.get(key)
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        came = f"{found!r:.60}" if key in value else "nothing"
        raise mistake(where, f"expected {key!r}, {_KINDS[kind]}, got {came}")
    return found


_KINDS = {list: "a list", dict: "an object", str: "a text", int: "a whole number"}


def mistake(where: str, what: str) -> LabelFileError:
    """What is wrong at a place."""
    return LabelFileError([Problem(where, "JSON", what)])


def _is_deep(content: Any) -> bool:
    level = [content]
    for _ in range(_MOST_LEVELS):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
    return bool(level)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} stands twice in one object")
    for key in _UNUSED & content.keys():
        del content[key]
    return content


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"expected a number, got {text}")
