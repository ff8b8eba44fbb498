"""The flags of commands that train grids of methods, settings and seeds: compare and reproduce."""

import argparse
import os
from collections.abc import Mapping
from typing import Any

from g2netpl.commands.parsing import at_least_one, split_list
from g2netpl.commands.training_flags import add_config_flags, given_keys
from g2netpl.runs.config import RunConfig
from g2netpl.runs.ownership import FREE_TO_CHANGE

_OF_ANY = ("epochs", "hidden", "optimizer", "ema", "expected_positives")
_OF_THE_GRID = (
    *("method", "options", "annotation", "prior", "names", "setting", "seed"),
    *("learning_rate", "batch_size"),
)
_OF_ONE_TRAINING = (
    *("resume_labels", "unlabelled", "only_listed", "test_images", "thresholds", "track"),
    *("validation", "validation_labels", "patience", "regret_tolerance", "movement_tolerance"),
)
_FREE = {"execute", "jobs", "resume", "overwrite", "dry_run"}


def add_grid_flags(
    parser: argparse.ArgumentParser, usual: Mapping[str, Any], rates: str, batches: str
) -> None:
    """The grid, what all its trainings have in common, and on images everything else of a training.

    `rates` and `batches` say in words what is tried where nothing is given.
    """
    add = parser.add_argument
    add("--seeds", default="0,1,2", help="each drives mask, split, start and order (0,1,2)")
    add("--learning-rates", help=f"chosen on validation ({rates})")
    add("--batch-sizes", help=f"chosen on validation too ({batches})")
    add("--search-weights", action="store_true", help="try 3 values of each method's main weight")
    add(
        "--choose-once",
        action="store_true",
        help="choose on the first seed alone, and train the other seeds with that",
    )
    add(
        "--jobs",
        type=at_least_one,
        default=os.cpu_count() or 1,
        help="features, scenes: trainings at a time (all cores); on images it is one",
    )
    add_config_flags(parser, ("output",), required=("output",))
    add_config_flags(parser, _OF_ANY, {"expected_positives": "truth", **usual})
    add_config_flags(parser.add_argument_group("on images"), of_images(), usual)


def image_keys(flags: argparse.Namespace, config: RunConfig) -> dict[str, Any]:
    """Those that only trainings on image files have, as far as they are given; no mode is auto."""
    given = given_keys(flags)
    found = {name: getattr(config, name) for name in of_images() if name in given}
    return {name: value for name, value in found.items() if (name, value) != ("mode", "auto")}


def of_images() -> list[str]:
    """The keys that only trainings on image files have."""
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
    flags: argparse.Namespace, config: RunConfig, fingerprints: dict[str, str]
) -> dict[str, Any]:
    """What run.json says of the flags, and of the data: all that results depend on."""
    free = _FREE | FREE_TO_CHANGE
    kept = {name: value for name, value in vars(flags).items() if name not in free}
    for name in kept:
        number = getattr(config, name, None)
        if kept[name] is not None and isinstance(number, int):
            kept[name] = number
    kept["label_format"] = kept.pop("format")  # run.json has one of its own
    kept["no_pretrained"] = kept.pop("pretrained") is False
    return {**kept, "fingerprints": fingerprints}
