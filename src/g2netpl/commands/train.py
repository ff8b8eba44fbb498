"""Train a classifier from a label file and a folder of images.

examples:
  g2netpl train --labels labels.csv --images photos --output runs/first
  g2netpl train --config run.toml --mode full --set hidden=256 --output runs/full
  g2netpl train --continue-from runs/first --output runs/second    after g2netpl review runs/first

A label is 1 (positive), 0 (negative) or empty (unknown). Unknown is not negative. Keys without a
flag (docs/reference/command-line.md) are set in the TOML file of --config or with --set.
"""

import argparse
from pathlib import Path
from typing import Any

from g2netpl.commands.flags import (
    KEYS,
    add_config_flags,
    add_overwrite_flag,
    add_plugin_flag,
    add_settings_flags,
    given_keys,
)
from g2netpl.core.methods import find_method
from g2netpl.runs.config import RunConfig, check_inside, merge_keys
from g2netpl.runs.output_dir import is_empty
from g2netpl.runs.records import Metrics, read_training
from g2netpl.training.train import train
from g2netpl.training.warm_start import config_after_review
from g2netpl.utils import launch as launched
from g2netpl.utils.console import Console, quoted
from g2netpl.utils.errors import InputError, did_you_mean
from g2netpl.utils.signals import AGAIN, Interrupts

GROUPS = {
    "data": "labels images format setting test_labels validation_labels validation groups "
    "max_unreadable",
    "method": "method annotation single_label expected_positives thresholds prior names",
    "model": "backbone weights mode image_size",
    "optimisation": "epochs batch_size learning_rate augment",
    "run": "output continue_from seed workers device precision cache log_with",
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    for title, names in GROUPS.items():
        group = parser.add_argument_group(title)
        add_config_flags(group, names.split())
        if title == "method":
            add_plugin_flag(group)
    add_settings_flags(group)
    again = group.add_mutually_exclusive_group()
    text = "resume the run in --output, or start it"
    again.add_argument("--resume", action="store_true", help=text)
    add_overwrite_flag(again, is_folder=True)


def run(flags: argparse.Namespace) -> None:
    """Train and print the metrics."""
    with Interrupts(AGAIN if flags.resume else None):
        console = Console(quiet=launched.rank() > 0)
        config = read_config(flags)
        result = train(config, resume=flags.resume, overwrite=flags.overwrite, console=console)
        if result.result["validation_map"] is not None:  # else it is the last
            console.print(f"best epoch: {result.result['best_epoch']}")
        for key in ("validation_map", "test_map", "last_test_map", "pseudo_label_map"):
            value = result.result[key]
            if value is not None:
                metrics = result.evaluation.get(key.removesuffix("_map"))
                about = "" if metrics is None else _about(metrics)
                console.print(f"{key[:-4].replace('_', ' ')} mAP: {value:.1%}{about}")
        console.print(f"{result.thresholds}\nwritten to {result.folder}")
        console.print(f"look at it: g2netpl report {quoted(result.folder)}")


def _about(metrics: Metrics) -> str:
    """mAP without the classes that cannot be ranked, if there are some, and the accuracy."""
    precisions, accuracy = metrics["average_precision"], metrics.get("accuracy")
    ranked, text = sum(value is not None for value in precisions), ""
    if 0 < ranked < len(precisions):
        mean, classes = metrics["mean_over_present"], len(precisions)
        text = f" ({mean:.1%} over the {ranked} of {classes} classes that can be ranked there)"
    return text if accuracy is None else f"{text}, accuracy {accuracy:.1%}"


def read_config(flags: argparse.Namespace) -> RunConfig:
    """The given keys over those of the run that is resumed or continued."""
    given = given_keys(flags)
    before = _keys_before(given, flags.resume and flags.config is None)
    if "method" in given and given["method"] != before.get("method"):
        before.pop("options", None)  # those of another method
    if "log_with" not in given:
        check_inside(before.get("log_with", ()))
    keys = merge_keys(before, given)
    lacking = [f"--{key}" for key in ("labels", "output") if key not in keys]
    if lacking and flags.config is None:
        raise InputError(f"expected {' and '.join(lacking)}; g2netpl train --help has examples")
    config = RunConfig.read(keys, flags.config or "train")
    options = type(find_method(config.method).options({})).model_fields
    for name in config.options:
        if name not in options:
            hint = did_you_mean(name, [*KEYS, *options])
            raise InputError(f"{name}: no key, and no option of {config.method} ({hint})")
    return config


def _keys_before(given: dict[str, Any], resume: bool) -> dict[str, Any]:
    """The configuration of the run that is resumed, or of the one that was reviewed."""
    if resume and "output" not in given:
        raise InputError("--resume: --output must name the run folder")
    if resume and not (is_empty(Path(given["output"])) and {"labels", "continue_from"} & {*given}):
        keys: dict[str, Any] = read_training(given["output"])["config"]
        return keys
    if "continue_from" in given:
        return config_after_review(given["continue_from"], given)
    return {}
