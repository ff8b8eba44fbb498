"""Reading JSON; mistakes are told by place."""

import json
from pathlib import Path
from typing import Any

from g2netpl.labels.formats.problems import LabelFileError, Problem, Problems
from g2netpl.labels.formats.text import read_text

_UNUSED = {"segmentation", "keypoints", "rle"}  # large, and of no use here


def read_json(path: Path, problems: Problems) -> Any:
    """The content of a JSON file."""
    return parse_json(read_text(path, problems), str(path), problems)


def parse_json(text: str, where: str, problems: Problems) -> Any:
    """The content of a JSON text."""
    try:
        return json.loads(text, object_hook=_without_unused)
    except json.JSONDecodeError as problem:
        line = f"{where}:{problem.lineno}" if "\n" in text.strip() else where
        problems.stop(line, "JSON", f"not valid JSON ({problem.msg}, column {problem.colno})")
    except (ValueError, RecursionError) as problem:  # a number or a nesting beyond Python's limits
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


def _without_unused(content: dict[str, Any]) -> dict[str, Any]:
    for key in _UNUSED & content.keys():
        del content[key]
    return content
