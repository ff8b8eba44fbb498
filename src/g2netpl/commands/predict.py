"""Score images with a trained classifier; with its thresholds, name their labels.

examples:
  g2netpl predict runs/first --images new-photos --output scores.csv
  g2netpl predict runs/first --images photos --list names.txt --output scores.parquet
  g2netpl predict runs/first --images new-photos --output labels.csv --threshold 0.8 --no-scores
  g2netpl predict birds.onnx --images new-photos --output scores.csv    a bundle: without PyTorch
  g2netpl predict hf://me/birds --images new-photos --output scores.csv   one from Hugging Face

The table has a row per image: its name, its labels as tags, and a calibrated score per class.
"""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from g2netpl.base.errors import InputError, counted
from g2netpl.base.signals import NOTHING_KEPT, Interrupts

if TYPE_CHECKING:
    from g2netpl.base.console import Console
    from g2netpl.labels.paths import Located
    from g2netpl.runs.thresholds import Thresholds


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    from g2netpl.commands.labelling import add_bom_flag
    from g2netpl.commands.training_flags import add_config_flags

    add = parser.add_argument
    add("run", metavar="RUN", help="run folder, or a bundle of g2netpl export, here or on the hub")
    add("--images", required=True, help="folder with the images, or one image")
    add("--list", metavar="FILE", help="names below --images, one per line, or any label file")
    add("--output", required=True, help="table to write, .csv, .xlsx, .parquet or .pq")
    add_bom_flag(parser)
    add("--overwrite", action="store_true", help="replace the output")
    add("--threshold", type=float, help="one for all classes (default: those of the run)")
    add("--no-scores", action="store_true", help="names and labels only")
    add_config_flags(parser, ("workers",))


def run(flags: argparse.Namespace) -> None:
    """Load the run, predict, write."""
    with Interrupts(NOTHING_KEPT):
        _predict(flags)


def _predict(flags: argparse.Namespace) -> None:
    import numpy as np

    from g2netpl.base.console import Console
    from g2netpl.base.progress import Work
    from g2netpl.commands.labelling import ENDINGS, check_target
    from g2netpl.commands.training_flags import checked
    from g2netpl.runs.bundle import load_bundle
    from g2netpl.runs.completion import mark_between, write_predictions
    from g2netpl.runs.hub import is_bundle
    from g2netpl.runs.run import load_run

    console, workers = Console(), checked(flags).workers
    check_target(flags.output, ENDINGS, flags.overwrite)
    if flags.threshold is not None and not 0 <= flags.threshold <= 1:
        raise InputError(f"--threshold: must be between 0 and 1, got {flags.threshold:g}")
    located = _images(flags)
    names, paths = located.names, located.paths
    for note in located.notes:
        console.print(f"note: {note}", highlight=False)
    trained = load_bundle(flags.run) if is_bundle(flags.run) else load_run(flags.run)
    mark = mark_between(trained.classes, not flags.no_scores)
    thresholds = _thresholds(trained.thresholds, flags.threshold)
    with Work(console, "predicting", len(paths)) as work:
        scores = trained.predict(paths, workers=workers, max_bad=len(paths), on_batch=work.advance)
    unread = np.flatnonzero(np.isnan(scores).any(axis=1))
    read = len(names) - len(unread)
    if not read:
        raise InputError(f"{flags.images}: none of the {len(names):,} images can be read")
    decided, target = thresholds.decide(scores), Path(flags.output)
    with_scores = not flags.no_scores
    write_predictions(target, names, trained.classes, scores, decided, with_scores, flags.bom)
    _tell_oddities(console, [paths[row] for row in unread], mark)
    console.print(
        f"{counted(read, 'image')}, {decided.sum() / read:.2f} labels per image\n"
        f"{thresholds}\nwritten to {flags.output}",
        highlight=False,
    )


def _images(flags: argparse.Namespace) -> "Located":
    """The names of the images, and where they are."""
    from g2netpl.images.sources import find_all, is_one_image, list_images
    from g2netpl.labels.paths import Located
    from g2netpl.labels.table import is_text
    from g2netpl.runs.completion import read_names

    if is_one_image(flags.images):
        if flags.list is not None:
            raise InputError("--list: needs a folder in --images, not a single image")
        if not is_text(os.path.basename(flags.images)):
            raise InputError(f"{flags.images}: the file name is not valid UTF-8; rename it")
        return Located([flags.images], [], [os.path.basename(flags.images)], [])
    names = list_images(flags.images) if flags.list is None else read_names(flags.list)
    located = find_all(names, flags.images)
    if not names and flags.list is not None:
        raise InputError(f"{flags.list}: expected names of images, got none")
    if not names:
        raise InputError(f"{flags.images}: no images there")
    return located


def _thresholds(thresholds: "Thresholds", threshold: float | None) -> "Thresholds":
    """Those of the run, or with one threshold for all classes."""
    from dataclasses import replace

    if threshold is None:
        return thresholds
    common, rule = (threshold,) * len(thresholds.per_class), f"{threshold:g} for all classes"
    return replace(thresholds, per_class=common, rule=rule, basis="given", grounds=())


def _tell_oddities(console: "Console", unread: list[str], mark: str) -> None:
    """Images that cannot be read, and a mark between labels that is not the usual one."""
    from g2netpl.base.terminal import quoted, shown

    for path in unread[:10]:
        console.print(f"not readable, left empty: {shown(path)}", highlight=False)
    if len(unread) > 10:
        console.print(f"… and {len(unread) - 10:,} more", highlight=False)
    if mark != ";":
        console.print(
            f"note: labels are separated by {mark!r}, since a class holds ';'; where they are "
            f"read, give --separator {quoted(mark)}",
            highlight=False,
        )
