"""The keys of a RunConfig, from a TOML file and flags over it."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from g2netpl.runs.config import PATHS, is_path
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import friendly_os_errors
from g2netpl.utils.image_refs import is_address


def read_keys(path: str | Path | None, flags: Mapping[str, Any]) -> dict[str, Any]:
    """The file's keys, overridden by flags. Relative paths in the file are relative to it."""
    return over({} if path is None else _keys_of_file(Path(path)), flags)


def over(before: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """Keys that are given anew over those before them, of the options each by itself."""
    options = {**before.get("options", {}), **keys.get("options", {})}
    return {**before, **keys, **({"options": options} if options else {})}


def _keys_of_file(path: Path) -> dict[str, Any]:
    try:
        with friendly_os_errors(path):
            values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{path}: not valid TOML ({problem})") from None
    for key in PATHS & set(values):
        if is_path(key, values[key]):
            values[key] = _beside(path, values[key])
    if not isinstance(values.get("options", {}), dict):
        raise InputError(f"{path}: options: expected a table [options] of key = value lines")
    return values


def _beside(path: Path, value: Any) -> Any:
    """A path, or each of several, as it is from here; an address stays, a mistake is told later."""
    if isinstance(value, list):
        return [_beside(path, each) for each in value]
    is_path = isinstance(value, str) and value and not is_address(value)
    return str(path.parent / value) if is_path else value
