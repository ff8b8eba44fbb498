"""Checked settings: frozen models that refuse unknown keys and values out of range, in one line."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from g2netpl.errors import InputError, did_you_mean


class Options(BaseModel):
    """Base of every set of options: immutable, no unknown keys, every value checked."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str) -> Self:
        """Build from plain values; a mistake becomes one line that starts with `where`."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as problem:
            raise InputError(f"{where}: {_first_line(cls, problem)}") from None


def _first_line(model: type[BaseModel], problem: ValidationError) -> str:
    error = problem.errors()[0]
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"unknown key {key!r} ({did_you_mean(key, model.model_fields)})"
    message = error["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if not key:
        return message
    if error["type"] == "missing":
        return f"{key}: required, but not given"
    return f"{key}: {message}, got {error['input']!r}"
