"""Flags that are keys of RunConfig, --config and --set for the other keys, and lists of values."""

import argparse
import re
from collections.abc import Callable, Collection
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic.fields import FieldInfo

from g2netpl.core.plugins import load_plugins
from g2netpl.runs.config import SEVERAL, RunConfig, read_keys
from g2netpl.utils.errors import InputError, did_you_mean

Item = TypeVar("Item")
KEYS = RunConfig.model_fields
_NAMES_OF_VALUES = {  # the others are called by the last word of the key
    "FILE": "labels test_labels validation_labels groups names weights classes aliases",
    "FOLDER": "images output cache",
    "RUN": "continue_from",
    "N": "epochs batch_size seed workers max_unreadable",
    "K": "expected_positives",
    "PIXELS": "image_size",
    "FRACTION": "validation",
    "RULE": "thresholds",
    "NAME": "backbone encoding image_column",
    "NAMES": "ignore_columns log_with tags_column",
    "MEANING": "absent minus_one",
    "CHARACTERS": "separator",
    "CHOICE": "contradictions",
}
_METAVARS = {key: name for name, keys in _NAMES_OF_VALUES.items() for key in keys.split()}


def add_config_flags(
    parser: argparse._ActionsContainer, names: Collection[str], **texts: str
) -> None:
    """A flag for each of these keys; `texts` describe those that mean something else here."""
    for name in names:
        field = KEYS[name]
        how: dict[str, Any] = {"metavar": _METAVARS.get(name, name.rpartition("_")[2].upper())}
        if field.annotation is bool:
            how = {"action": "store_true"}
        elif name in SEVERAL or isinstance(field.get_default(), tuple):
            how["action"] = "append"
        text = texts.get(name) or _help(field)
        flag = "--" + name.replace("_", "-")
        parser.add_argument(flag, default=None, help=text.replace("%", "%%"), **how)


def _help(field: FieldInfo) -> str:
    """The description, the choices that it does not explain, and the default."""
    text, _, usual = (field.description or "").partition(" (default: ")
    default, choices = field.get_default(), _choices(field.annotation)
    if not usual and default not in (None, (), "own") and not isinstance(default, bool):
        usual = "" if field.is_required() else str(default)
    about = [] if all(choice in text for choice in choices) else [", ".join(choices)]
    about += [f"default: {usual.removesuffix(')')}"] if usual else []
    return f"{text} ({'; '.join(about)})" if about else text


def _choices(annotation: Any) -> tuple[str, ...]:
    """The values of a key that is one of some words."""
    parts = [part for part in get_args(annotation) if part is not type(None)]
    if get_origin(annotation) is not Literal:
        annotation = parts[0] if len(parts) == 1 else None
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def add_settings_flags(parser: argparse._ActionsContainer) -> None:
    """--config and --set, for keys without a flag."""
    add, text = parser.add_argument, "key of the configuration; may be repeated"
    add("--config", metavar="FILE", help="TOML file with keys of the configuration")
    add("--set", metavar="KEY=VALUE", action="append", type=_pair, default=[], help=text)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InputError(f"--set: expected KEY=VALUE, got {text!r}")
    return key.strip(), value.strip() or value  # a blank may separate tags


def add_plugin_flag(parser: argparse._ActionsContainer) -> None:
    """--plugin, which runs the file at once."""
    add, text = parser.add_argument, "Python file that adds your own methods; it is executed"
    add("--plugin", metavar="FILE", type=_load_plugin, default=argparse.SUPPRESS, help=text)


def _load_plugin(path: str) -> None:
    load_plugins([path])


def add_output_flag(parser: argparse._ActionsContainer) -> None:
    """--output, a folder."""
    parser.add_argument("--output", metavar="FOLDER", required=True, help="folder to write")


def add_overwrite_flag(parser: argparse._ActionsContainer, is_folder: bool = False) -> None:
    """--overwrite."""
    again = "start again; rename the old folder to NAME.old-1"
    text = again if is_folder else "replace existing files"
    parser.add_argument("--overwrite", action="store_true", help=text)


def given_keys(flags: argparse.Namespace) -> dict[str, Any]:
    """The keys of --config, overridden by those of --set and by flags."""
    given = {name: getattr(flags, name, None) for name in KEYS}
    given = {name: value for name, value in given.items() if value not in (None, False)}
    pairs: dict[str, Any] = {}
    for name, value in getattr(flags, "set", ()):  # names of columns add up
        is_list = name in KEYS and isinstance(KEYS[name].get_default(), tuple)
        pairs[name] = [*pairs.get(name, ()), value] if is_list else value
    keys = {name: pairs.pop(name) for name in KEYS if name in pairs and name != "options"}
    options = {"options": pairs} if pairs else {}
    return read_keys(getattr(flags, "config", None), {**keys, **given, **options})


def checked(flags: argparse.Namespace) -> RunConfig:
    """The settings of a command that trains nothing, each checked as in a training run."""
    given = given_keys(flags)
    for name in given.get("options", {}) if getattr(flags, "config", None) is None else ():
        raise InputError(f"--set: unknown key {name!r} ({did_you_mean(name, KEYS)})")
    return RunConfig.read({"labels": "", "output": "", **given}, flags.command)


def reject_flags(flags: argparse.Namespace, names: str, reason: str) -> None:
    """Reject flags that do not fit what else was given."""
    for name in names.split():
        if getattr(flags, name):
            raise InputError(f"--{name.replace('_', '-')}: {reason}")


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
