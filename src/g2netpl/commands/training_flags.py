"""The flags of a training, one for every key of RunConfig, and the configuration they make."""

import argparse
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from g2netpl.runs.config import RunConfig


def add_training_flags(parser: argparse.ArgumentParser, without: Collection[str] = ()) -> None:
    """--config, --set, and a flag for every key but those `without`."""
    from g2netpl.runs.config import RunConfig

    parser.add_argument("--config", metavar="FILE", help="TOML file with any of the keys below")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a method's option"
    )
    for name, field in RunConfig.model_fields.items():
        if name == "options" or name in without:
            continue
        flag = "--" + name.replace("_", "-")
        text = field.description or ""
        if not field.is_required() and field.default not in (None, ()):
            text += f" (default: {field.default})"
        if field.annotation in (bool, bool | None):
            parser.add_argument(
                flag,
                action=argparse.BooleanOptionalAction,
                default=argparse.SUPPRESS,
                help=text.replace("%", "%%"),
            )
        elif isinstance(field.default, tuple):
            parser.add_argument(
                flag,
                action="append",
                default=argparse.SUPPRESS,
                metavar=name.upper(),
                help=f"{field.description}; may be given again",
            )
        else:
            metavar = name.rpartition("_")[2].upper()
            parser.add_argument(
                flag, default=argparse.SUPPRESS, metavar=metavar, help=text.replace("%", "%%")
            )


def config_of(flags: argparse.Namespace, resume: bool = False) -> "RunConfig":
    """The file's keys, overridden by flags, over those of the run that is gone on with."""
    from g2netpl.base.errors import InputError
    from g2netpl.commands.parsing import split_changes
    from g2netpl.runs.config import RunConfig, over, read_keys

    given: dict[str, Any] = {
        name: getattr(flags, name) for name in RunConfig.model_fields if hasattr(flags, name)
    }
    changes = split_changes(flags.set)
    if changes:
        given["options"] = {key: value for _, key, value in changes}
    given = read_keys(flags.config, given)
    before = _keys_before(given, resume and flags.config is None)
    if "method" in given and given["method"] != before.get("method"):
        before.pop("options", None)  # those of another method
    config = RunConfig.read(over(before, given), flags.config or "train")
    for method, key, _ in changes:
        if method is not None and method != config.method:
            raise InputError(f"--set {method}.{key}: the method of this run is {config.method}")
    return config


def _keys_before(given: dict[str, Any], resume: bool) -> dict[str, Any]:
    """The configuration of the run that is resumed, or of the one that was reviewed."""
    from pathlib import Path

    from g2netpl.base.errors import InputError
    from g2netpl.runs.ownership import is_empty
    from g2netpl.runs.records import read_training
    from g2netpl.training.continuation import config_after_review

    if resume:
        if "output" not in given:
            raise InputError("--resume: --output must name the run folder")
        begun = not is_empty(Path(given["output"]))
        if begun or not ("labels" in given or "resume_labels" in given):
            before: dict[str, Any] = read_training(given["output"])["config"]
            return before
    if "resume_labels" in given:
        return config_after_review(given["resume_labels"], {})
    return {}
