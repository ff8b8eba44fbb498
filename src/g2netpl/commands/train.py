"""Train a classifier from a label file and a folder of images.

examples:
  g2netpl train --labels labels.csv --images photos --output runs/first
  g2netpl train --labels labels.csv --images photos --output runs/upper --mode partial
  g2netpl train --labels labels.csv --images photos --output runs/full --mode full
  g2netpl train --labels full.csv --images photos --setting sspl:0.2 --output runs/try
  g2netpl train --labels labels.csv --images photos --groups folder --output runs/by-album
  g2netpl train --labels alice.csv --labels bob.json --images photos --output runs/team
  g2netpl train --classes classes.txt --images photos --expected-positives 1.5 --output runs/none
  g2netpl train --config run.toml --learning-rate 3e-5 --output runs/slow
  g2netpl train --resume --output runs/first
  g2netpl train --resume-labels runs/first --output runs/second     after g2netpl review runs/first
  torchrun --nproc_per_node 4 -m g2netpl train --config run.toml --output runs/on-four-gpus

Labels are 1 (positive), 0 (negative) or empty (unknown). Unknown is not negative.
"""

import argparse

from g2netpl.commands.training_flags import add_training_flags, config_of
from g2netpl.runs.records import Metrics
from g2netpl.utils import launch as launched
from g2netpl.utils.console import Console, quoted
from g2netpl.utils.signals import AGAIN, Interrupts


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command: one for every key of RunConfig."""
    again = parser.add_mutually_exclusive_group()
    again.add_argument(
        "--resume", action="store_true", help="go on with the run in --output, or begin it"
    )
    again.add_argument(
        "--overwrite",
        action="store_true",
        help="start again; rename the run in --output to NAME.old-1",
    )
    add_training_flags(parser)


def run(flags: argparse.Namespace) -> None:
    """Train and show the figures."""
    with Interrupts(AGAIN if flags.resume else None):  # before imports that take seconds
        _train(flags)


def _train(flags: argparse.Namespace) -> None:
    console = Console(quiet=launched.rank() > 0)
    config = config_of(flags, resume=flags.resume)
    from g2netpl.training.train import train  # takes seconds; a wrong flag is told before

    result = train(config, resume=flags.resume, overwrite=flags.overwrite, console=console)
    if result.result["validation_map"] is not None:  # else it is the last, as was said before
        console.print(f"best epoch: {result.result['best_epoch']}")
    for key in ("validation_map", "test_map", "last_test_map", "pseudo_label_map"):
        value = result.result[key]
        if value is not None:
            found = result.evaluation.get(key.removesuffix("_map"))
            shown = f"{value:.1%}{_over_present(found)}{_accuracy(found)}"
            console.print(f"{key.replace('_', ' ').replace('map', 'mAP')}: {shown}")
    console.print(f"{result.thresholds}\nwritten to {result.folder}")
    folder = quoted(result.folder)
    console.print(f"look at it: g2netpl report {folder}")


def _accuracy(found: Metrics | None) -> str:
    """How often the likeliest class is the right one, where each image has one."""
    share = None if found is None else found.get("accuracy")
    return "" if share is None else f", accuracy {share:.1%}"


def _over_present(found: Metrics | None) -> str:
    """What mAP would be without the classes that cannot be ranked, if there are some."""
    precisions = [] if found is None else found["average_precision"]
    ranked = sum(value is not None for value in precisions)
    if found is None or ranked in (0, len(precisions)):
        return ""
    mean, classes = found["mean_over_present"], len(precisions)
    return f" ({mean:.1%} over the {ranked} of {classes} classes that can be ranked there)"
