"""Join several label files, of any formats, in one.

examples:
  g2netpl merge alice.csv bob.json --output labels.csv
  g2netpl merge zoo.csv park.csv --aliases aliases.txt --output labels.parquet
  g2netpl merge labels.csv corrections.csv --contradictions last --output corrected.csv

The new file has all images and all classes. A class that a file does not have is unknown for its
images, and what two files say about an image is joined. Where one says 1 and another 0, nothing is
written unless --contradictions tells what counts. All other commands join files themselves:
g2netpl train --labels alice.csv --labels bob.json …
"""

import argparse

from g2netpl.commands.labelling import READING_SEVERAL, share_of_labels, write_new
from g2netpl.commands.training_flags import add_config_flags, checked


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="label file, or folder, to read")
    parser.add_argument("--output", required=True, help="label file to write")
    parser.add_argument("--to", metavar="FORMAT", help="its format (default: by its name)")
    parser.add_argument("--overwrite", action="store_true", help="replace the output")
    add_config_flags(parser, ("images", *READING_SEVERAL))


def run(flags: argparse.Namespace) -> None:
    """Read all, write one, and say what is in it."""
    from g2netpl.base.console import Console
    from g2netpl.labels.formats import read_labels
    from g2netpl.labels.look_alikes import look_alikes_note

    console, config = Console(), checked(flags)
    table = read_labels(flags.files, config.format, config.reading())
    notes = write_new(table, flags.output, flags.to, flags.overwrite, read=flags.files)
    console.print(share_of_labels(table))
    for note in (*table.notes, *look_alikes_note(table), *notes):
        console.print(f"note: {note}")
    console.print(f"written to {flags.output}")
