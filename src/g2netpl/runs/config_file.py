"""The keys of a RunConfig, from a TOML file and flags over it."""

import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from g2netpl.base.disk import opening
from g2netpl.base.errors import InputError
from g2netpl.base.places import is_address
from g2netpl.runs.config import PATHS, is_path

_LARGEST_FILE = 1 << 22  # bytes; one with a weight for each of 100,000 classes is smaller


def read_keys(path: str | Path | None, flags: Mapping[str, Any]) -> dict[str, Any]:
    """The file's keys, overridden by flags. Relative paths in the file are relative to it."""
    return over({} if path is None else _keys_of_file(Path(path)), flags)


def over(before: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """Keys that are given anew over those before them, of the options each by itself."""
    options = {**before.get("options", {}), **keys.get("options", {})}
    return {**before, **keys, **({"options": options} if options else {})}


def _keys_of_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(_content(path).decode("utf-8-sig"))
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


def _content(path: Path) -> bytes:
    """The bytes of a file that is no pipe, which might never end, and not too large."""
    with opening(path):
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(f"{path}: expected a regular file of TOML")
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise InputError(f"{path}: expected a configuration, {_LARGEST_FILE:,} bytes at most")
    return content
