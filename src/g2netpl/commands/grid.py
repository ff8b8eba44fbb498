"""What `compare` and `reproduce` share: the flags of a grid of runs, and their folder."""

import argparse
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from g2netpl.commands.flags import (
    add_config_flags,
    add_output_flag,
    add_overwrite_flag,
    add_settings_flags,
    given_keys,
    split_list,
)
from g2netpl.experiments.sweep import SHARED, Sweep
from g2netpl.runs.config import RunConfig
from g2netpl.runs.output_dir import FREE_TO_CHANGE, begin_or_resume
from g2netpl.runs.records import is_begun
from g2netpl.utils.errors import InputError

_NOT_OF_IMAGES = {*SHARED, "labels", "test_labels", "images", "output", "prior", "names"}
_REJECTED = {  # keys that the grid decides, and those that only a single run has
    *("method", "options", "annotation", "setting", "seed", "learning_rate", "batch_size"),
    *("continue_from", "unlabelled", "only_listed", "test_images", "thresholds", "log_with"),
    *("validation", "validation_labels", "patience", "regret_tolerance", "movement_tolerance"),
}
_FREE = {"execute", "jobs", "overwrite", "dry_run", "config", "set"} | FREE_TO_CHANGE


def add_grid_flags(
    parser: argparse.ArgumentParser, rates: str, batches: str, **texts: str
) -> argparse._ArgumentGroup:
    """The grid and the run; `rates` and `batches` are the defaults, in words."""
    group = parser.add_argument_group("grid")
    add = group.add_argument
    add("--seeds", default="0,1,2", help="seeds of mask, split, weights, order (default: 0,1,2)")
    text = "learning rates to choose from on validation"
    add("--learning-rates", metavar="RATES", help=f"{text} (default: {rates})")
    text = "batch sizes to choose from on validation"
    add("--batch-sizes", metavar="SIZES", help=f"{text} (default: {batches})")
    text = "also choose among three values of each method's main weight"
    add("--search-weights", action="store_true", help=text)
    add("--choose-once", action="store_true", help="choices of the first seed for all seeds")
    add_config_flags(group, ("epochs", "mode", "backbone"), **texts)
    run = parser.add_argument_group("run")
    add_output_flag(run)
    cores, text = os.cpu_count(), "training processes; on images 1 (default: the number of cores)"
    run.add_argument("--jobs", metavar="N", type=_number_of_jobs, default=cores or 1, help=text)
    add_settings_flags(run)
    add_overwrite_flag(run, is_folder=True)
    return group


def _number_of_jobs(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 512:
        raise InputError(f"--jobs: expected a number from 1 to 512, got {text!r}")
    return int(text)


def grid_settings(
    flags: argparse.Namespace, defaults: Mapping[str, Any]
) -> tuple[dict[str, Any], RunConfig]:
    """The given keys, and the configuration; keys that the grid decides are rejected."""
    given = given_keys(flags)
    for name in _REJECTED & given.keys():
        names = ", ".join(given.get("options", [name]))
        raise InputError(f"{names}: g2netpl {flags.command} has no such key")
    usual = {"labels": "", "output": "", "expected_positives": "truth", **defaults}
    return given, RunConfig.read({**usual, **given}, flags.config or flags.command)


def image_keys(given: Mapping[str, Any], config: RunConfig) -> dict[str, Any]:
    """The given keys that only runs on image files have."""
    keys = {name: getattr(config, name) for name in given if name not in _NOT_OF_IMAGES}
    return {name: value for name, value in keys.items() if (name, value) != ("mode", "auto")}


def sweep_of(
    flags: argparse.Namespace,
    config: RunConfig,
    rates: Sequence[float],
    batches: Sequence[int],
    **more: Any,
) -> Sweep:
    """The sweep that the flags describe; `rates` and `batches` are the defaults."""
    grid: dict[str, Any] = {"learning_rates": tuple(rates), "batch_sizes": tuple(batches)}
    kinds = {"seeds": int, "learning_rates": float, "batch_sizes": int}
    for name, kind in kinds.items():
        if getattr(flags, name) is not None:
            grid[name] = split_list("--" + name.replace("_", "-"), getattr(flags, name), kind)
    grid |= {name: getattr(config, name) for name in SHARED}
    grid |= {name: getattr(flags, name) for name in ("search_weights", "choose_once")}
    return Sweep(**grid | more)


def begun(
    flags: argparse.Namespace,
    given: Mapping[str, Any],
    config: RunConfig,
    fingerprints: dict[str, str],
) -> AbstractContextManager[None]:
    """Prepare the folder, or resume what is there with the same flags, settings and data."""
    kept = {**vars(flags), **{name: getattr(config, name) for name in given}}
    if config.labels:
        kept |= {"backbone": config.backbone, "image_size": config.image_size}
    kept["label_format"] = kept.pop("format", None)  # run.json has a format of its own
    about = {name: value for name, value in kept.items() if name not in _FREE}
    return begin_or_resume(
        Path(flags.output),
        flags.command,
        {**about, "fingerprints": fingerprints},
        resume=is_begun(Path(flags.output)) and not flags.overwrite,
        overwrite=flags.overwrite,
        lists=("methods", "settings", "seeds"),
    )
