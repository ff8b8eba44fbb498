"""What `compare` and `reproduce` share: the flags of a grid of runs, and their folder."""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from g2netpl.commands.flags import add_config_flags, add_jobs_flag, given_keys, split_list
from g2netpl.runs.config import RunConfig
from g2netpl.runs.output_dir import FREE_TO_CHANGE, begin_or_resume
from g2netpl.runs.records import is_begun
from g2netpl.utils.errors import InputError

SHARED = ("hidden", "optimizer", "ema", "expected_positives")  # keys that all data have
_OF_THE_GRID = ("method", "options", "annotation", "setting", "seed", "learning_rate", "batch_size")
_OF_ONE_RUN = (
    *("continue_from", "unlabelled", "only_listed", "test_images", "thresholds", "log_with"),
    *("validation", "validation_labels", "patience", "regret_tolerance", "movement_tolerance"),
)
_OTHERS = {"labels", "output", "epochs", "prior", "names", *SHARED, *_OF_THE_GRID, *_OF_ONE_RUN}
OF_IMAGES = [name for name in RunConfig.model_fields if name not in _OTHERS]
_FREE = {"execute", "jobs", "overwrite", "dry_run", "config", "set"} | FREE_TO_CHANGE


def add_grid_flags(
    parser: argparse._ActionsContainer, defaults: Mapping[str, Any], rates: str, batches: str
) -> None:
    """The grid; `rates` and `batches` are the defaults, in words."""
    add = parser.add_argument
    add("--seeds", default="0,1,2", help="seeds of mask, split, start, order (default: 0,1,2)")
    add("--learning-rates", metavar="RATES", help=f"chosen on validation (default: {rates})")
    add("--batch-sizes", metavar="SIZES", help=f"chosen on validation (default: {batches})")
    add("--search-weights", action="store_true", help="try 3 values of each method's main weight")
    add("--choose-once", action="store_true", help="choose on the first seed only")
    add_config_flags(parser, ("epochs", "mode", "backbone"), defaults)
    add_jobs_flag(parser, "; on images 1")


def grid_settings(
    flags: argparse.Namespace, defaults: Mapping[str, Any]
) -> tuple[dict[str, Any], RunConfig]:
    """The given keys, and the configuration; keys that the grid decides are rejected."""
    given = given_keys(flags)
    for name in given:
        if name in _OF_THE_GRID or name in _OF_ONE_RUN:
            names = ", ".join(given.get("options", [name]))
            raise InputError(f"{names}: g2netpl {flags.command} has no such setting")
    usual = {"labels": "", "output": "", "expected_positives": "truth", **defaults}
    return given, RunConfig.read({**usual, **given}, flags.config or flags.command)


def image_keys(given: Mapping[str, Any], config: RunConfig) -> dict[str, Any]:
    """The given keys that only runs on image files have."""
    keys = {name: getattr(config, name) for name in OF_IMAGES if name in given}
    return {name: value for name, value in keys.items() if (name, value) != ("mode", "auto")}


def grid_of(
    flags: argparse.Namespace,
    config: RunConfig,
    rates: Sequence[float],
    batches: Sequence[int],
) -> dict[str, Any]:
    """The fields of a sweep that the flags say; `rates` and `batches` are the defaults."""
    grid: dict[str, Any] = {"learning_rates": tuple(rates), "batch_sizes": tuple(batches)}
    kinds = {"seeds": int, "learning_rates": float, "batch_sizes": int}
    for name, kind in kinds.items():
        if getattr(flags, name) is not None:
            grid[name] = split_list("--" + name.replace("_", "-"), getattr(flags, name), kind)
    shared = {name: getattr(config, name) for name in SHARED}
    return (
        grid | shared | {name: getattr(flags, name) for name in ("search_weights", "choose_once")}
    )


def begun(
    flags: argparse.Namespace,
    given: Mapping[str, Any],
    config: RunConfig,
    fingerprints: dict[str, str],
) -> AbstractContextManager[None]:
    """Prepare the folder, or resume what is there with the same flags, settings and data."""
    kept = {**vars(flags), **{name: getattr(config, name) for name in given}}
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
