"""Score images with a trained classifier; with its thresholds, name their labels.

examples:
  g2netpl predict runs/first --images new-photos --output scores.csv
  g2netpl predict runs/first --images photos --list names.txt --output scores.parquet
  g2netpl predict runs/first --images new-photos --output labels.csv --threshold 0.8 --no-scores
  g2netpl predict birds.onnx --images new-photos --output scores.csv    a bundle: without PyTorch

The table has a row per image: its name, its labels as tags, and a calibrated score per class.
"""

import argparse


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    parser.add_argument("run", metavar="RUN", help="run folder, or a bundle of g2netpl export")
    parser.add_argument("--images", required=True, help="folder with the images, or one image")
    parser.add_argument(
        "--list", metavar="FILE", help="names below --images, one per line, or any label file"
    )
    parser.add_argument("--output", required=True, help="table to write, .csv, .parquet or .pq")
    parser.add_argument("--overwrite", action="store_true", help="replace the output")
    parser.add_argument(
        "--threshold", type=float, help="one for all classes (default: those of the run)"
    )
    parser.add_argument("--no-scores", action="store_true", help="names and labels only")
    parser.add_argument("--workers", type=int, default=2, help="loader processes (default: 2)")


def run(flags: argparse.Namespace) -> None:
    """Load the run, predict, write."""
    import os
    from dataclasses import replace
    from pathlib import Path

    import numpy as np

    from g2netpl.base.console import Console
    from g2netpl.base.errors import InputError, counted
    from g2netpl.base.options import MOST_PROCESSES, check_range
    from g2netpl.base.terminal import quoted, shown
    from g2netpl.commands.labelling import check_target
    from g2netpl.labels.paths import list_images, locate
    from g2netpl.labels.table import is_text
    from g2netpl.runs.bundle import load_bundle
    from g2netpl.runs.completion import mark_between, read_names, write_predictions
    from g2netpl.runs.run import load_run
    from g2netpl.training.progress import image_bar

    console = Console()
    check_target(flags.output, (".csv", ".parquet", ".pq"), flags.overwrite)
    if flags.threshold is not None and not 0 <= flags.threshold <= 1:
        raise InputError(f"--threshold: must be between 0 and 1, got {flags.threshold:g}")
    check_range("--workers", flags.workers, 0, MOST_PROCESSES)
    if not os.path.exists(flags.images):
        raise InputError(f"{flags.images}: no such file or folder")
    if os.path.isfile(flags.images):
        if flags.list is not None:
            raise InputError("--list: needs a folder in --images, not a single image")
        if not is_text(os.path.basename(flags.images)):
            raise InputError(f"{flags.images}: the file name is not valid UTF-8; rename it")
        names, paths = [os.path.basename(flags.images)], [flags.images]
    else:
        names = list_images(flags.images) if flags.list is None else read_names(flags.list)
        paths = locate(names, flags.images)
    if not names:
        if flags.list is not None:
            raise InputError(f"{flags.list}: expected names of images, got none")
        raise InputError(f"{flags.images}: no images there")
    is_bundle = flags.run.lower().endswith(".onnx") or os.path.isfile(flags.run)
    trained = load_bundle(flags.run) if is_bundle else load_run(flags.run)
    mark = mark_between(trained.classes, not flags.no_scores)
    thresholds = trained.thresholds
    if flags.threshold is not None:
        common = (flags.threshold,) * len(trained.classes)
        rule = f"{flags.threshold:g} for all classes"
        thresholds = replace(thresholds, per_class=common, rule=rule, basis="given")
    with image_bar(console, "predicting", len(paths)) as advance:
        scores = trained.predict(paths, workers=flags.workers, max_bad=len(paths), on_batch=advance)
    unread = np.flatnonzero(np.isnan(scores).any(axis=1))
    if len(unread) == len(names):
        raise InputError(f"{flags.images}: none of the {len(names):,} images can be read")
    decided = thresholds.decide(scores)
    target = Path(flags.output)
    write_predictions(target, names, trained.classes, scores, decided, not flags.no_scores)
    for row in unread[:10]:
        console.print(f"not readable, left empty: {shown(paths[row])}", highlight=False)
    if len(unread) > 10:
        console.print(f"… and {len(unread) - 10:,} more", highlight=False)
    if mark != ";":
        console.print(
            f"note: labels are separated by {mark!r}, since a class holds ';'; where they are "
            f"read, give --separator {quoted(mark)}",
            highlight=False,
        )
    read = len(names) - len(unread)
    console.print(
        f"{counted(read, 'image')}, {decided.sum() / read:.2f} labels per image\n"
        f"{thresholds}\nwritten to {flags.output}",
        highlight=False,
    )
