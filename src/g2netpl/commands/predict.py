"""Score images with a trained classifier, and decide their labels with its thresholds.

examples:
  g2netpl predict runs/first --images new-photos --output scores.csv
  g2netpl predict birds.onnx --images photo.jpg --threshold 0.8 --output labels.csv
  g2netpl predict hf://me/birds --images archive --output scores/ --engine ray

The table has a row per image: its name, its labels as tags, and a calibrated score per class. A
folder as --output is for any number of images: it is written in chunks, and an interrupted command
resumes when it is given again. Under torchrun the processes share the chunks.
"""

import argparse
import os

from g2netpl.commands.chunks import add_engine_flag, check_output, interrupts, make_all, share
from g2netpl.commands.flags import add_config_flags, add_overwrite_flag
from g2netpl.commands.writing import written
from g2netpl.images.sources import is_one_image, unread_note
from g2netpl.runs.chunks import catalogue, cut
from g2netpl.runs.predicting import Predictor, tag_separator
from g2netpl.utils import launch as launched
from g2netpl.utils.console import Console, quoted
from g2netpl.utils.errors import InputError, counted


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    trained = "run folder, or ONNX bundle of g2netpl export, also hf://owner/name"
    add("run", metavar="RUN", help=trained)
    add("--images", metavar="FOLDER", required=True, help="folder of the images, or one image")
    tables = "table to write, .csv, .xlsx or .parquet, or a folder of Parquet files"
    add("--output", metavar="FILE", required=True, help=tables)
    add_overwrite_flag(parser)
    one = "one threshold for all classes (default: those of the run)"
    add("--threshold", type=float, metavar="P", help=one)
    add("--prior", metavar="FILE", help="scores of the images, if the run was trained with scores")
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
    folder, shards = flags.images, None
    if is_one_image(folder):
        folder, name = os.path.split(os.path.realpath(folder))
        names = [name]
    else:
        images, unread = catalogue(folder), unread_note(folder)
        names, shards = images.names(), images.together()
        if not names:
            raise InputError("; ".join((f"{folder}: no images there", *unread)))
        for note in (*images.notes, *unread):
            console.print(f"note: {note}")
    maker = Predictor(
        name=flags.run,
        images=folder,
        count=len(names),
        prior=flags.prior,
        threshold=flags.threshold,
        **share(flags),
    )
    if {"image", "labels"} & set(maker.classifier.classes):
        raise InputError("a class is called 'image' or 'labels', as another column; rename it")
    mark = tag_separator(maker.classifier.classes)
    counts = make_all(flags, console, "predicting", cut(names, shards), maker)
    if mark != ";":
        reading = f"--set separator={quoted(mark)}"
        console.print(f"note: labels are separated by {mark!r}, read them with {reading}")
    console.print(
        f"{counted(counts['readable'], 'image')}, "
        f"{counts['labels'] / max(counts['readable'], 1):.2f} labels per image\n"
        f"{maker.thresholds}\n{written(flags.output)}"
    )
