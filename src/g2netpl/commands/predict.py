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
from typing import NamedTuple

from g2netpl.commands.chunks import (
    add_engine_flag,
    check_output,
    interrupts,
    is_folder,
    make_all,
    own_chunks,
    share,
)
from g2netpl.commands.flags import add_config_flags, add_overwrite_flag
from g2netpl.commands.writing import written
from g2netpl.images.sources import find_all, is_one_image, unread_note
from g2netpl.runs.chunks import Chunk, ImageFinder, cut
from g2netpl.runs.predicting import Predictor, read_names, tag_separator
from g2netpl.utils import launch as launched
from g2netpl.utils.console import Console, quoted
from g2netpl.utils.errors import InputError, counted, listed


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    trained = "run folder, or ONNX bundle of g2netpl export, also hf://owner/name"
    add("run", metavar="RUN", help=trained)
    add("--images", required=True, help="folder of the images, or one image")
    names = "file of image names, one per line, or a label file (default: all)"
    add("--list", metavar="FILE", help=names)
    tables = "table to write, .csv, .xlsx or .parquet, or a folder of Parquet files"
    add("--output", required=True, help=tables)
    add_overwrite_flag(parser)
    add("--threshold", type=float, help="one threshold for all classes (default: those of the run)")
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
    images = _images(flags)
    for note in images.notes:
        console.print(f"note: {note}")
    maker = Predictor(
        name=flags.run,
        find=images.find,
        count=len(images.names),
        prior=flags.prior,
        with_scores=not flags.no_scores,
        threshold=flags.threshold,
        **share(flags),
    )
    mark = tag_separator(maker.classifier.classes, maker.with_scores)
    chunks = cut(images.names, images.shards)
    if flags.list is not None and is_folder(flags.output):
        _check_there(flags, chunks)
    totals = make_all(flags, console, "predicting", chunks, maker)
    if mark != ";":
        reading = f"--set separator={quoted(mark)}"
        console.print(f"note: labels are separated by {mark!r}, read them with {reading}")
    console.print(
        f"{counted(totals.readable, 'image')}, "
        f"{totals.counts['labels'] / max(totals.readable, 1):.2f} labels per image\n"
        f"{maker.thresholds}\n{written(flags.output)}"
    )


class _Images(NamedTuple):
    """Names of images, how to find them, and what a person should be told of that."""

    names: Sequence[str]
    find: ImageFinder
    notes: Sequence[str] = ()
    shards: Sequence[int] | None = None


def _images(flags: argparse.Namespace) -> _Images:
    """The images to be scored; those of a list that goes into one table are all looked for now."""
    if is_one_image(flags.images):
        if flags.list is not None:
            raise InputError("--list: needs a folder in --images, not a single image")
        name = os.path.basename(flags.images)
        return _Images([name], ImageFinder(flags.images, {name: flags.images}))
    find = ImageFinder(flags.images)
    names = find.images.names() if flags.list is None else read_names(flags.list)
    if flags.list is None:
        unread = unread_note(flags.images)
        if not names:
            raise InputError("; ".join((f"{flags.images}: no images there", *unread)))
        return _Images(names, find, [*find.images.notes, *unread], find.images.together())
    if not names:
        raise InputError(f"{flags.list}: expected names of images, got none")
    if is_folder(flags.output):
        return _Images(names, find, find.images.notes)
    located = find_all(names, flags.images)
    paths = dict(zip(located.names, located.paths, strict=True))
    return _Images(located.names, ImageFinder(flags.images, paths), located.notes)


def _check_there(flags: argparse.Namespace, chunks: Sequence[Chunk]) -> None:
    """Names of a list that are not there are a mistake; each process reports its own."""
    names = [name for chunk in own_chunks(chunks) for name in chunk.images]
    missing = ImageFinder(flags.images).missing(names)
    if missing:
        raise InputError(
            f"{flags.list}: {len(missing):,} of {len(names):,} images are not in "
            f"{flags.images}: {listed(map(repr, missing))}; is --images the right folder?"
        )
