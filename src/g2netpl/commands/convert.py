"""Convert a label file from one format to another.

examples:
  g2netpl convert labels.csv labels.parquet
  g2netpl convert VOC2012/ImageSets/Main/train.txt voc-train.csv
  g2netpl convert tags.csv full.csv --absent negative      tags known to be complete
  g2netpl convert labels.csv tasks.json --to label-studio
  g2netpl convert photos-by-class labels.csv               a folder per class
  g2netpl convert birds-dataset/train birds                a Hugging Face data set: pictures, too

A data set with its pictures inside is unpacked into a folder, labels in metadata.jsonl beside the
pictures; broken off, the same command goes on. A label never changes its meaning: where the new
format cannot say "unknown", nothing is written.
"""

import argparse


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    from g2netpl.commands.labelling import READING
    from g2netpl.commands.training_flags import add_config_flags

    parser.add_argument("source", help="label file, or folder, to read")
    parser.add_argument("target", help="label file to write, or folder to unpack to")
    parser.add_argument("--to", metavar="FORMAT", help="its format (default: by its name)")
    parser.add_argument("--overwrite", action="store_true", help="replace the target")
    add_config_flags(parser, READING)


def run(flags: argparse.Namespace) -> None:
    """Read, unpack where pictures are inside, write, and say what was read."""
    from g2netpl.base.console import Console
    from g2netpl.commands.labelling import check_target, share_of_labels, write_new
    from g2netpl.commands.training_flags import checked
    from g2netpl.labels.formats import read_labels, unpack

    console, config = Console(), checked(flags)
    table = read_labels(flags.source, config.format, config.reading())
    check_target(flags.target, None, flags.overwrite)
    table = unpack(table, flags.source, config.format, flags.target, flags.to, flags.overwrite)
    notes = write_new(table, flags.target, flags.to, flags.overwrite)
    console.print(share_of_labels(table), highlight=False)
    for note in (*table.notes, *notes):
        console.print(f"note: {note}", highlight=False)
    console.print(f"written to {flags.target}", highlight=False)
