"""`complete --labels`: a label file of any size, completed by a run that was trained on others."""

import argparse
from dataclasses import replace
from functools import partial

import numpy as np

from g2netpl.commands.flags import checked
from g2netpl.commands.in_parts import check_output, is_folder, make_all, share
from g2netpl.labels.io import read_matching
from g2netpl.labels.table import LabelTable
from g2netpl.runs.completion import sure_of_unknown, thresholds_of_unknown
from g2netpl.runs.parts import Blocks
from g2netpl.runs.run import Run, load_run
from g2netpl.runs.scoring import Completing, Find, FindAt, Scoring, load_classifier
from g2netpl.runs.sure import Sure
from g2netpl.runs.thresholds import Thresholds
from g2netpl.utils import launch as launched
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError
from g2netpl.utils.signals import AGAIN, NOTHING_KEPT, Interrupts


def check_sure(sure: float | None) -> None:
    """A share that can be promised."""
    if sure is not None and not 0.5 <= sure < 1:
        raise InputError(f"--confidence: must be at least 0.5 and less than 1, got {sure:g}")


def complete_others(flags: argparse.Namespace) -> None:
    """What the file knows stays, the rest is decided by prediction."""
    if flags.images is None or flags.output is None:
        raise InputError("--labels: needs --images and --output")
    if flags.details is not None or flags.truth is not None or flags.dry_run:
        raise InputError("--labels: --details, --truth and --dry-run do not go with it")
    check_sure(flags.confidence)
    check_output(flags)
    with Interrupts(AGAIN if is_folder(flags.output) else NOTHING_KEPT):
        _complete(flags)


def _complete(flags: argparse.Namespace) -> None:
    console, trained = Console(quiet=not launched.is_first_of_machine()), load_run(flags.run)
    if "image" in trained.classes:
        raise InputError("a class is called 'image', which is the first column; rename it")
    table = _observed(flags, trained)
    decide = thresholds_of_unknown(trained, table.values), _sure(flags.confidence, trained, table)
    build = partial(
        _completing, flags.run, *decide, FindAt(flags.images), len(table), *share(flags)
    )
    blocks = Blocks.of(table.images, known=table.values)
    tally = make_all(flags, console, "completing", blocks, build, build())
    images, counts, classes = tally.counts["images"], tally.counts, len(trained.classes)
    unknown = images * classes - counts["known"]
    console.print(
        f"{images:,} images × {classes} classes: {counts['observed']:,} observed, "
        f"{counts['known'] - counts['observed']:,} predicted\n"
        f"{counts['positives'] / max(images, 1):.2f} positives per image"
        + (f"; {unknown:,} labels left unknown" if unknown else "")
        + f"\nwritten to {flags.output}"
    )


def _observed(flags: argparse.Namespace, trained: Run) -> LabelTable:
    """What the file knows of the classes of the run."""
    config = checked(flags)
    reading = replace(
        config.reading(), single_label=config.single_label or trained.config.single_label
    )
    same = LabelTable((), trained.classes, np.zeros((0, len(trained.classes))))
    return read_matching(flags.labels, same, config.format, reading)


def _sure(sure: float | None, trained: Run, table: LabelTable) -> Sure | float | None:
    """From which chances on labels are filled in."""
    return None if sure is None else sure_of_unknown(trained, sure, table.values) or sure


def _completing(
    name: str,
    thresholds: Thresholds,
    sure: Sure | float | None,
    find: Find,
    count: int,
    workers: int,
    device: str,
) -> Completing:
    """What completes blocks of images; called by every worker of Ray, too."""
    run = load_classifier(name, device)
    assert isinstance(run, Run)
    scoring = Scoring(run, find, count, workers)
    return Completing(scoring, thresholds, run.expected_positives, sure)
