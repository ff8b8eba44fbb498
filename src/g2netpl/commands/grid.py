"""The flags of commands that train methods x settings x seeds: compare and reproduce."""

import argparse
import os
from collections.abc import Mapping
from typing import Any

from g2netpl.commands.flags import add_config_flags, at_least_one, given_keys, split_list
from g2netpl.runs.config import RunConfig
from g2netpl.runs.output_dir import FREE_TO_CHANGE
from g2netpl.utils.errors import InputError

_OF_ANY = ("epochs", "hidden", "optimizer", "ema", "expected_positives")
_OF_THE_GRID = ("method", "options", "annotation", "setting", "seed", "learning_rate", "batch_size")
_OF_ONE_TRAINING = (
    *("continue_from", "unlabelled", "only_listed", "test_images", "thresholds", "log_with"),
    *("validation", "validation_labels", "patience", "regret_tolerance", "movement_tolerance"),
)
_FREE = {"execute", "jobs", "resume", "overwrite", "dry_run", "config", "set"}


def add_grid_flags(
    parser: argparse._ActionsContainer, defaults: Mapping[str, Any], rates: str, batches: str
) -> None:
    """The grid; `rates` and `batches` say what is tried if nothing is given."""
    add = parser.add_argument
    add("--seeds", default="0,1,2", help="seeds of mask, split, start, order (default: 0,1,2)")
    add("--learning-rates", metavar="RATES", help=f"chosen on validation (default: {rates})")
    add("--batch-sizes", metavar="SIZES", help=f"chosen on validation (default: {batches})")
    add("--search-weights", action="store_true", help="try 3 values of each method's main weight")
    add("--choose-once", action="store_true", help="choose on the first seed only")
    add_config_flags(parser, ("epochs", "mode", "backbone", "image_size"), defaults)
    add(
        "--jobs",
        type=at_least_one,
        default=os.cpu_count() or 1,
        help="training processes; on images 1 (default: the number of cores)",
    )


def grid_settings(
    flags: argparse.Namespace, defaults: Mapping[str, Any]
) -> tuple[dict[str, Any], RunConfig]:
    """The given keys, and the whole configuration; keys that the grid decides are rejected."""
    given = given_keys(flags)
    for name in given:
        if name in _OF_THE_GRID or name in _OF_ONE_TRAINING:
            names = ", ".join(given.get("options", [name]))
            raise InputError(f"{names}: g2netpl {flags.command} has no such setting")
    usual = {"labels": "", "output": "", "expected_positives": "truth", **defaults}
    return given, RunConfig.read({**usual, **given}, flags.config or flags.command)


def image_keys(given: Mapping[str, Any], config: RunConfig) -> dict[str, Any]:
    """Those that only training runs on image files have, as far as they are given."""
    found = {name: getattr(config, name) for name in of_images() if name in given}
    return {name: value for name, value in found.items() if (name, value) != ("mode", "auto")}


def of_images() -> list[str]:
    """The keys that only training runs on image files have."""
    others = {"labels", "output", *_OF_ANY, *_OF_THE_GRID, *_OF_ONE_TRAINING}
    return [name for name in RunConfig.model_fields if name not in others]


def split_numbers(flags: argparse.Namespace) -> dict[str, Any]:
    """Seeds, and the learning rates and batch sizes that are given."""
    kinds = {"seeds": int, "learning_rates": float, "batch_sizes": int}
    return {
        name: split_list("--" + name.replace("_", "-"), getattr(flags, name), kind)
        for name, kind in kinds.items()
        if getattr(flags, name) is not None
    }


def to_be_kept(
    flags: argparse.Namespace,
    given: Mapping[str, Any],
    config: RunConfig,
    fingerprints: dict[str, str],
) -> dict[str, Any]:
    """What run.json says of the flags, the settings and the data: all that results depend on."""
    free = _FREE | FREE_TO_CHANGE
    settings = {name: getattr(config, name) for name in given}
    kept = {**vars(flags), **settings}
    kept["label_format"] = kept.pop("format", None)  # run.json has a format of its own
    return {
        **{name: value for name, value in kept.items() if name not in free},
        "fingerprints": fingerprints,
    }
