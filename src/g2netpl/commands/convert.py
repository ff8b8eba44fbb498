"""Convert a label file from one format to another.

examples:
  g2netpl convert labels.csv labels.parquet
  g2netpl convert VOC2012/ImageSets/Main/train.txt voc-train.csv
  g2netpl convert tags.csv full.csv --absent negative      tags known to be complete
  g2netpl convert labels.csv tasks.json --to label-studio
  g2netpl convert photos-by-class labels.csv               a folder per class
  g2netpl convert birds-dataset/train birds                a Hugging Face data set: pictures, too
  g2netpl convert photos.xlsx labels.csv --tags-column Motif --ignore-columns Date,Camera
  g2netpl convert photos labels.csv --format photo-tags    tags in photos and sidecars
  g2netpl convert labels.csv photos --to photo-tags --dry-run

A data set with its pictures inside is unpacked into a folder, labels in metadata.jsonl beside the
pictures; broken off, the same command goes on. A label never changes its meaning: where the new
format cannot say "unknown", nothing is written.
"""

import argparse

from g2netpl.commands.labelling import (
    PHOTO_TAGS,
    READING,
    add_bom_flag,
    add_writing_flags,
    check_target,
    share_of_labels,
    write_new,
    write_tags,
    written,
)
from g2netpl.commands.training_flags import add_config_flags, checked


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="label file, or folder, to read")
    parser.add_argument("target", help="label file to write, or folder to unpack to")
    add_writing_flags(parser, "the target")
    parser.add_argument("--overwrite", action="store_true", help="replace the target")
    add_bom_flag(parser)
    add_config_flags(parser, READING)


def run(flags: argparse.Namespace) -> None:
    """Read, unpack where pictures are inside, write, and say what was read."""
    from g2netpl.base.console import Console
    from g2netpl.labels.formats import read_labels, unpack

    console, config = Console(), checked(flags)
    table = read_labels(flags.source, config.format, config.reading())
    if flags.to == PHOTO_TAGS:
        notes = write_tags(table, flags, flags.target)
    else:
        check_target(flags.target, None, flags.overwrite, flags.source)
        if not flags.dry_run:
            where = (flags.source, config.format, flags.target, flags.to)
            table = unpack(table, *where, flags.overwrite)
        how = (flags.to, flags.overwrite, flags.bom, flags.dry_run)
        notes = write_new(table, flags.target, *how, flags.source)
    console.print(share_of_labels(table))
    for note in (*table.notes, *notes):
        console.print(f"note: {note}")
    console.print(written(flags.target, flags.dry_run))
