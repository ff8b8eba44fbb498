"""Flags that are keys of RunConfig, --config and --set for the other keys, and lists of values."""

import argparse
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic.fields import FieldInfo

from g2netpl.runs.config import SEVERAL, RunConfig
from g2netpl.runs.config_file import read_keys
from g2netpl.utils.errors import InputError, did_you_mean

Item = TypeVar("Item")
KEYS = RunConfig.model_fields


class Collect(argparse.Action):
    """A file, and more where the flag is given again."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Keep one more."""
        before = getattr(namespace, self.dest)
        several = before if isinstance(before, tuple) else (before,)
        setattr(namespace, self.dest, values if before is None else (*several, values))


def add_config_flags(
    parser: argparse._ActionsContainer,
    names: Collection[str],
    defaults: Mapping[str, Any] | None = None,
    required: Collection[str] = (),
) -> None:
    """A flag for each of these keys; the help shows the `defaults` of this command."""
    for name in names:
        field, default = KEYS[name], (defaults or {}).get(name)
        how: dict[str, Any] = {"metavar": name.rpartition("_")[2].upper()}
        if field.annotation is bool:
            how = {"action": "store_true"}
        elif isinstance(field.get_default(), tuple):
            how["action"] = "append"
        elif name in SEVERAL:
            how["action"] = Collect
        if name in required:
            how["required"] = True
        text = _help(field, field.get_default() if default is None else default)
        parser.add_argument("--" + name.replace("_", "-"), default=None, help=text, **how)


def _help(field: FieldInfo, default: object) -> str:
    """The description, the choices and the default."""
    text, choices = field.description or "", ", ".join(_choices(field.annotation))
    if choices and "(default: " in text:
        text = text.replace("(default: ", f"({choices}; default: ")
    elif "(default: " not in text and default not in (None, (), False) and field.default != "own":
        given = "" if field.is_required() else f"default: {default}"
        about = "; ".join(part for part in (choices, given) if part)
        text += f" ({about})" if about else ""
    return text.replace("%", "%%")


def _choices(annotation: Any) -> list[str]:
    """The values of a key that is one of some words."""
    parts = [part for part in get_args(annotation) or () if part is not type(None)]
    if get_origin(annotation) is not Literal:
        annotation = parts[0] if len(parts) == 1 else None
    return list(get_args(annotation)) if get_origin(annotation) is Literal else []


def add_settings_flags(parser: argparse._ActionsContainer) -> None:
    """--config and --set, for keys without a flag."""
    parser.add_argument("--config", metavar="FILE", help="TOML file with keys of the configuration")
    add_set_flag(parser)


def add_set_flag(parser: argparse._ActionsContainer) -> None:
    """--set."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any key of the configuration; repeat the flag for several",
    )


def add_plugin_flag(parser: argparse._ActionsContainer) -> None:
    """--plugin."""
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="Python file that adds your own methods; it is executed",
    )


def given_keys(flags: argparse.Namespace) -> dict[str, Any]:
    """The keys of --config, overridden by those of --set and by flags."""
    given = {name: getattr(flags, name, None) for name in KEYS}
    given = {
        name: value for name, value in given.items() if value is not None and value is not False
    }
    options = {}
    for name, value in _split_set(getattr(flags, "set", [])).items():
        if name in KEYS and name != "options":
            given.setdefault(name, value)
        else:
            options[name] = value
    if options:
        given["options"] = options
    return read_keys(getattr(flags, "config", None), given)


def _split_set(texts: Collection[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"--set: expected KEY=VALUE, got {text!r}")
        pairs[name.strip()] = value.strip()
    return pairs


def checked(flags: argparse.Namespace, defaults: Mapping[str, Any] | None = None) -> RunConfig:
    """The settings of a command that trains nothing, each checked as in a training run."""
    given = given_keys(flags)
    for name in given.get("options", {}) if getattr(flags, "config", None) is None else ():
        raise InputError(f"--set: unknown key {name!r} ({did_you_mean(name, KEYS)})")
    return RunConfig.read({"labels": "", "output": "", **(defaults or {}), **given}, flags.command)


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
    """Read a number of processes, for argparse."""
    if not text.isdecimal() or not 1 <= int(text) <= 512:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to 512, got {text!r}")
    return int(text)
