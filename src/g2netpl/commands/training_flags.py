"""Flags that are keys of RunConfig: every command takes those it needs, under the same names."""

import argparse
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from g2netpl.commands.parsing import split_changes
from g2netpl.runs.config import SEVERAL, RunConfig
from g2netpl.runs.config_file import over, read_keys
from g2netpl.runs.ownership import is_empty
from g2netpl.runs.records import read_training
from g2netpl.runs.tracker_names import check_inside
from g2netpl.utils.errors import InputError


class OneMore(argparse.Action):
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
    usual: Mapping[str, Any] | None = None,
    required: Collection[str] = (),
) -> None:
    """A flag for each of these keys; `usual` are values that this command has by itself."""
    own = usual or {}
    for name in names:
        field = RunConfig.model_fields[name]
        text, default = field.description or "", own.get(name, field.get_default())
        how: dict[str, Any] = {"metavar": name.rpartition("_")[2].upper()}
        if field.annotation in (bool, bool | None):
            how = {"action": argparse.BooleanOptionalAction}
        elif isinstance(default, tuple):
            how["action"], text = "append", f"{text}; may be given again"
        elif name in SEVERAL:
            how["action"] = OneMore
        if not field.is_required() and default not in (None, ()):
            text += f" (default: {default})"
        if name in required:
            how["required"] = True
        flag, text = "--" + name.replace("_", "-"), text.replace("%", "%%")
        parser.add_argument(flag, default=own.get(name), help=text, **how)


def add_training_flags(parser: argparse.ArgumentParser, without: Collection[str] = ()) -> None:
    """--config, --set, and a flag for every key but those `without`."""
    parser.add_argument("--config", metavar="FILE", help="TOML file with any of the keys below")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a method's option"
    )
    left_out = {"options", *without}
    add_config_flags(parser, [name for name in RunConfig.model_fields if name not in left_out])


def given_keys(flags: argparse.Namespace) -> dict[str, Any]:
    """The keys of RunConfig that the flags have a value for."""
    found = {name: getattr(flags, name, None) for name in RunConfig.model_fields}
    return {name: value for name, value in found.items() if value is not None}


def checked(flags: argparse.Namespace) -> RunConfig:
    """The flags of a command that is no training, each checked as that of one."""
    return RunConfig.read({"labels": "", "output": "", **given_keys(flags)}, flags.command)


def config_of(flags: argparse.Namespace, resume: bool = False) -> RunConfig:
    """The file's keys, overridden by flags, over those of the run that is gone on with."""
    given, changes = given_keys(flags), split_changes(flags.set)
    if changes:
        given["options"] = {key: value for _, key, value in changes}
    given = read_keys(flags.config, given)
    if "classes" in given and "images" in given and "labels" not in given and not resume:
        given |= {"labels": given["classes"], "format": "classes"}  # no tags at all
    before = _keys_before(given, resume and flags.config is None)
    if "method" in given and given["method"] != before.get("method"):
        before.pop("options", None)  # those of another method
    keys = over(before, given)
    if "track" not in given:
        check_inside(before.get("track", ()))
    lacking = [f"--{key}" for key in ("labels", "output") if key not in keys]
    if lacking and flags.config is None:
        raise InputError(
            f"expected {' and '.join(lacking)}; g2netpl {flags.command} --help has examples"
        )
    config = RunConfig.read(keys, flags.config or "train")
    for method, key, _ in changes:
        if method is not None and method != config.method:
            raise InputError(f"--set {method}.{key}: the method of this run is {config.method}")
    return config


def _keys_before(given: dict[str, Any], resume: bool) -> dict[str, Any]:
    """The configuration of the run that is resumed, or of the one that was reviewed."""
    if resume:
        if "output" not in given:
            raise InputError("--resume: --output must name the run folder")
        begun = not is_empty(Path(given["output"]))
        if begun or not ("labels" in given or "resume_labels" in given):
            before: dict[str, Any] = read_training(given["output"])["config"]
            return before
    if "resume_labels" in given:
        from g2netpl.training.warm_start import config_after_review

        return config_after_review(given["resume_labels"], given)
    return {}
