"""Flags that are keys of RunConfig, --config and --set for the other keys, and lists of values."""

import argparse
import os
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic.fields import FieldInfo

from g2netpl.core.plugins import load_plugins
from g2netpl.runs.config import SEVERAL, RunConfig, read_keys
from g2netpl.utils.errors import InputError, did_you_mean

Item = TypeVar("Item")
KEYS = RunConfig.model_fields


class SetKey(argparse.Action):
    """KEY=VALUE, once for each key."""

    keys = KEYS

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Keep one more."""
        key, equals, value = values.partition("=")
        if not equals or not key:
            parser.error(f"--set: expected KEY=VALUE, got {values!r}")
        namespace.set = {**namespace.set, key.strip(): value.strip()}


class LoadPlugin(argparse.Action):
    """A file with methods, which is run at once."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Run it."""
        load_plugins([values])


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
        elif name in SEVERAL or isinstance(field.get_default(), tuple):
            how["action"] = "append"
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
    text = "any key of the configuration; repeat the flag for several"
    parser.add_argument("--set", action=SetKey, default={}, metavar="KEY=VALUE", help=text)


def add_plugin_flag(parser: argparse._ActionsContainer) -> None:
    """--plugin."""
    text = "Python file that adds your own methods; it is executed"
    default = argparse.SUPPRESS
    parser.add_argument("--plugin", action=LoadPlugin, default=default, metavar="FILE", help=text)


def add_jobs_flag(parser: argparse._ActionsContainer, note: str = "") -> None:
    """--jobs."""
    text = f"training processes{note} (default: the number of cores)"
    default = os.cpu_count() or 1
    parser.add_argument("--jobs", type=at_least_one, default=default, help=text)


def at_least_one(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 512:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to 512, got {text!r}")
    return int(text)


def add_overwrite_flag(parser: argparse._ActionsContainer, is_folder: bool = False) -> None:
    """--overwrite."""
    again = "start again; rename the old folder to NAME.old-1"
    text = again if is_folder else "replace existing files"
    parser.add_argument("--overwrite", action="store_true", help=text)


def given_keys(flags: argparse.Namespace) -> dict[str, Any]:
    """The keys of --config, overridden by those of --set and by flags."""
    given = {name: getattr(flags, name, None) for name in KEYS}
    given = {name: value for name, value in given.items() if value not in (None, False)}
    changed = getattr(flags, "set", {})
    options = {name: changed[name] for name in changed if name not in KEYS or name == "options"}
    keys = {name: changed[name] for name in changed if name not in options}
    return read_keys(
        getattr(flags, "config", None),
        {**keys, **given, **({"options": options} if options else {})},
    )


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
