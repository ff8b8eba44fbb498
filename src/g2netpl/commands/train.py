"""Train a classifier from a label file and a folder of images.

examples:
  g2netpl train --labels labels.csv --images photos --output runs/first
  g2netpl train --labels labels.csv --images photos --output runs/quick --mode linear
  g2netpl train --labels full.csv --images photos --setting sspl:0.2 --output runs/try
  g2netpl train --config run.toml --learning-rate 3e-5 --output runs/slow
  g2netpl train --resume --output runs/first

Labels are 1 (positive), 0 (negative) or empty (unknown). Unknown is not negative.
"""

import argparse
from typing import Any


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command: one for every key of RunConfig."""
    from g2netpl.config import RunConfig

    parser.add_argument("--config", metavar="FILE", help="TOML file with any of the keys below")
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="go on with the run in --output")
    again.add_argument("--overwrite", action="store_true", help="replace the run in --output")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a method's option"
    )
    for name, field in RunConfig.model_fields.items():
        if name == "options":
            continue
        flag = "--" + name.replace("_", "-")
        text = field.description or ""
        if not field.is_required() and field.default is not None:
            text += f" (default: {field.default})"
        if field.annotation in (bool, bool | None):
            parser.add_argument(
                flag,
                action=argparse.BooleanOptionalAction,
                default=argparse.SUPPRESS,
                help=text.replace("%", "%%"),
            )
        else:
            metavar = name.rpartition("_")[2].upper()
            parser.add_argument(
                flag, default=argparse.SUPPRESS, metavar=metavar, help=text.replace("%", "%%")
            )


def run(flags: argparse.Namespace) -> None:
    """Train and show the figures."""
    from rich.console import Console

    from g2netpl.commands.parsing import split_changes
    from g2netpl.config import RunConfig, read_config
    from g2netpl.errors import InputError
    from g2netpl.runs import read_training
    from g2netpl.training import train

    given: dict[str, Any] = {
        name: getattr(flags, name) for name in RunConfig.model_fields if hasattr(flags, name)
    }
    changes = split_changes(flags.set)
    if changes:
        given["options"] = {key: value for _, key, value in changes}
    if flags.resume and flags.config is None:
        if "output" not in given:
            raise InputError("--resume: --output must name the run folder")
        given = {**read_training(given["output"])["config"], **given}
    console = Console(markup=False, soft_wrap=True)
    config = read_config(flags.config, given)
    for method, key, _ in changes:
        if method is not None and method != config.method:
            raise InputError(f"--set {method}.{key}: the method of this run is {config.method}")
    result = train(config, resume=flags.resume, overwrite=flags.overwrite, console=console)
    for key in ("best_epoch", "validation_map", "test_map", "last_test_map", "pseudo_label_map"):
        value = result.result[key]
        if value is not None:
            shown = f"{value:.1%}" if key.endswith("map") else str(value)
            console.print(
                f"{key.replace('_', ' ').replace('map', 'mAP')}: {shown}", highlight=False
            )
    console.print(f"{result.decisions}\nwritten to {result.folder}", highlight=False)
