"""Reading lists, numbers and key=value pairs from flags."""

import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from typing import TypeVar

from g2netpl.utils.errors import InputError

Item = TypeVar("Item")


def split_list(flag: str, text: str, convert: Callable[[str], Item]) -> tuple[Item, ...]:
    """Read `a,b,c`, where brackets protect a comma; a part that cannot be read is named."""
    items = []
    for part in re.split(r",(?![^([]*[)\]])", text):
        try:
            items.append(convert(part.strip()))
        except ValueError:
            raise InputError(
                f"{flag}: expected a comma-separated list of {convert.__name__}s, got {part!r}"
            ) from None
    if len(set(items)) != len(items):
        raise InputError(f"{flag}: {text!r} names something twice")
    return tuple(items)


def at_least_one(text: str) -> int:
    """Read a number of things, for argparse."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value <= 512:
        raise ArgumentTypeError(f"expected a whole number of 1 or more, 512 at most, got {text!r}")
    return value


def check_port(port: int) -> None:
    """Refuse a port that is not for programs of users."""
    if port != 0 and not 1024 <= port <= 65535:
        raise InputError(f"--port: must be 0 (any free one) or 1024 to 65535, got {port}")


def split_changes(changes: Sequence[str]) -> list[tuple[str | None, str, str]]:
    """Read `--set method.key=value` (or `key=value`) as (method or None, key, value)."""
    triples = []
    for text in changes:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"--set: expected method.key=value, got {text!r}")
        method, _, key = name.strip().rpartition(".")
        triples.append((method or None, key, value.strip()))
    return triples
