"""Checked settings: frozen models that reject unknown keys and values out of range in one line.

What our own files contain is checked in the same way when it is read again.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from g2netpl.utils.errors import InputError, did_you_mean

Record = TypeVar("Record")


class Options(BaseModel):
    """Base of every set of options: immutable, no unknown keys, every value checked."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False
    )

    def __init__(self, /, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as problem:
            raise InputError(_first_line(type(self).model_fields, problem)) from None

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str) -> Self:
        """Build from plain values; an error becomes one line that starts with `where`."""
        try:
            return cls(**values)
        except InputError as problem:
            raise InputError(f"{where}: {problem}") from None


def key(default: Any, description: str, **limits: Any) -> Any:
    """A key of a configuration with its default (`...`: none), description and limits."""
    return Field(default=default, description=description, **limits)


def parse_record(kind: type[Record], text: str | bytes, where: str) -> Record:
    """The content of a JSON text; an error in it becomes one line that starts with `where`."""
    try:
        return check_record(kind, json.loads(text), where)
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{where}: not valid JSON ({str(problem)[:200]})") from None


def check_record(kind: type[Record], content: object, where: str) -> Record:
    """The content as it is, if it is of this TypedDict; other keys may be there."""
    if not isinstance(content, dict):
        raise InputError(f"{where}: expected an object, got a {type(content).__name__}")
    try:
        _adapter(kind).validate_python(content, strict=True)
    except ValidationError as problem:
        raise InputError(f"{where}: {_first_line((), problem)}") from None
    return cast(Record, content)


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def none_from_text(value: object) -> object:
    """`none` on the command line and in files without a null."""
    return None if isinstance(value, str) and value.strip().lower() == "none" else value


def list_from_text(value: object) -> object:
    """`0,2` or `[0,2]` on the command line; a single value without brackets stays one."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    is_bracketed = text[:1] + text[-1:] in ("[]", "()")
    if not is_bracketed and "," not in text:
        return value
    return [part.strip() for part in text.strip("[]()").split(",")]


def _first_line(known: Iterable[str], problem: ValidationError) -> str:
    # a misspelt key explains a missing one, so it comes first
    errors = sorted(problem.errors(), key=lambda error: error["type"] != "extra_forbidden")
    error = errors[0]
    key = str(error["loc"][0]) if error["loc"] else ""
    if error["type"] == "extra_forbidden":
        return f"unknown key {key!r:.100} ({did_you_mean(key[:100], known)})"
    if error["type"] == "missing":
        return f"{key}: required, but not given"
    # a key of several types has an error for each of them
    forms = [other["msg"] for other in errors if other["loc"][:1] == error["loc"][:1]]
    forms = [form.removeprefix("Value error, ") for form in dict.fromkeys(forms)]
    message = " or ".join(form[:1].lower() + form[1:] for form in forms)
    return f"{key}: {message}, got {error['input']!r:.200}" if key else message
