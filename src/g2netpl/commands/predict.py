"""Score images with a trained classifier, and decide their labels with its thresholds.

examples:
  g2netpl predict runs/first --images new-photos --output scores.csv
  g2netpl predict birds.onnx --images photos --list names.txt --threshold 0.8 --output labels.csv
  g2netpl predict hf://me/birds --images archive --output scores/ --engine ray

The table has a row per image: its name, its labels as tags, and a calibrated score per class. A
folder as --output is for any number of images: it is written in chunks, and an interrupted command
resumes when it is given again. Under torchrun the processes share the chunks.
"""

import argparse
import os
from collections.abc import Sequence

from g2netpl.commands.chunks import add_engine_flag, check_output, interrupts, make_all, share
from g2netpl.commands.flags import add_config_flags, add_overwrite_flag
from g2netpl.commands.writing import written
from g2netpl.images.sources import find_all, is_one_image, unread_note
from g2netpl.runs.chunks import ImageFinder, cut
from g2netpl.runs.predicting import Predictor, read_names, tag_separator
from g2netpl.utils import launch as launched
from g2netpl.utils.console import Console, quoted
from g2netpl.utils.errors import InputError, counted


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    trained = "run folder, or ONNX bundle of g2netpl export, also hf://owner/name"
    add("run", metavar="RUN", help=trained)
    add("--images", metavar="FOLDER", required=True, help="folder of the images, or one image")
    names = "file of image names, one per line, or a label file (default: all)"
    add("--list", metavar="FILE", help=names)
    tables = "table to write, .csv, .xlsx or .parquet, or a folder of Parquet files"
    add("--output", metavar="FILE", required=True, help=tables)
    add_overwrite_flag(parser)
    one = "one threshold for all classes (default: those of the run)"
    add("--threshold", type=float, metavar="P", help=one)
    add("--prior", metavar="FILE", help="scores of the images, if the run was trained with scores")
    add("--no-scores", action="store_true", help="write names and labels only")
    add_engine_flag(parser)
    add_config_flags(parser, ("workers", "device"))


def run(flags: argparse.Namespace) -> None:
    """Load the run, predict, write."""
    if flags.threshold is not None and not 0 <= flags.threshold <= 1:
        raise InputError(f"--threshold: must be between 0 and 1, got {flags.threshold:g}")
    with interrupts(flags):
        _predict(flags)


def _predict(flags: argparse.Namespace) -> None:
    console = Console(quiet=not launched.is_first_of_machine())
    check_output(flags)
    names, find, notes = _images(flags)
    for note in notes:
        console.print(f"note: {note}")
    maker = Predictor(
        name=flags.run,
        find=find,
        count=len(names),
        prior=flags.prior,
        with_scores=not flags.no_scores,
        threshold=flags.threshold,
        **share(flags),
    )
    mark = tag_separator(maker.classifier.classes, maker.with_scores)
    chunks = cut(names, None if find.paths else find.images.together())
    counts = make_all(flags, console, "predicting", chunks, maker)
    if mark != ";":
        reading = f"--set separator={quoted(mark)}"
        console.print(f"note: labels are separated by {mark!r}, read them with {reading}")
    console.print(
        f"{counted(counts['readable'], 'image')}, "
        f"{counts['labels'] / max(counts['readable'], 1):.2f} labels per image\n"
        f"{maker.thresholds}\n{written(flags.output)}"
    )


def _images(flags: argparse.Namespace) -> tuple[Sequence[str], ImageFinder, Sequence[str]]:
    """Names of the images, how to find them, and notes on that."""
    if is_one_image(flags.images):
        if flags.list is not None:
            raise InputError("--list: needs a folder in --images, not a single image")
        name = os.path.basename(flags.images)
        return [name], ImageFinder(flags.images, {name: flags.images}), []
    if flags.list is not None:
        names = read_names(flags.list)
        if not names:
            raise InputError(f"{flags.list}: expected names of images, got none")
        located = find_all(names, flags.images)
        paths = dict(zip(located.names, located.paths, strict=True))
        return located.names, ImageFinder(flags.images, paths), located.notes
    find, unread = ImageFinder(flags.images), unread_note(flags.images)
    names = find.images.names()
    if not names:
        raise InputError("; ".join((f"{flags.images}: no images there", *unread)))
    return names, find, [*find.images.notes, *unread]
