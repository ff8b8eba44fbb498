"""Pack images and their labels into tar shards, which other machines and stores read quickly.

examples:
  g2netpl pack --labels labels.csv --images photos --output shards
  g2netpl pack --labels labels.csv --images photos --output shards --shard-size 1GB
  g2netpl pack --labels labels.csv --images s3://bucket/photos --output shards
  g2netpl train --labels shards --output runs/first                 the labels are inside
  g2netpl train --labels labels.csv --images shards --output runs/first

The shards are in WebDataset's layout: 000000012.jpg and 000000012.json, which has the name, what is
there, what is absent and the group; what nobody knows is left out. The same command writes the same
bytes. Broken off, it goes on after the last complete shard.
"""

import argparse
from pathlib import Path

from g2netpl.base.errors import InputError
from g2netpl.base.signals import AGAIN, stoppable


def add_flags(parser: argparse.ArgumentParser) -> None:
    from g2netpl.commands.labelling import READING_SEVERAL
    from g2netpl.commands.training_flags import add_config_flags

    taken = ("labels", "images", "output", "only_listed", "missing", "groups", *READING_SEVERAL)
    add_config_flags(parser, taken, required=("labels", "output"))
    add = parser.add_argument
    add("--shard-size", default="256MB", metavar="SIZE", help="of a shard at most (%(default)s)")
    add("--shard-images", type=int, default=10_000, metavar="N", help="and images (%(default)s)")
    add("--overwrite", action="store_true", help="replace shards that are there")


@stoppable(AGAIN)
def run(flags: argparse.Namespace) -> None:
    """Read, find, pack."""
    from g2netpl.base.console import Console
    from g2netpl.base.disk import told_plainly
    from g2netpl.base.memory import parse_size
    from g2netpl.base.progress import Work
    from g2netpl.commands.labelling import share_of_labels
    from g2netpl.commands.training_flags import checked
    from g2netpl.images.packing import pack
    from g2netpl.training.data import read_images

    config, console, folder = checked(flags), Console(), Path(flags.output)
    try:
        most = parse_size(flags.shard_size)
    except ValueError as problem:
        raise InputError(f"--shard-size: {problem}") from None
    if flags.shard_images < 1:
        raise InputError(f"--shard-images: must be 1 or more, got {flags.shard_images}")
    listed, notes = read_images(config)
    table, paths = listed.table, listed.paths
    console.print(share_of_labels(table))
    for note in notes:
        console.print(f"note: {note}")
    with told_plainly(folder), Work(console, "packing", len(paths)) as work:
        count = pack(table, paths, folder, most, flags.shard_images, flags.overwrite, work.advance)
    console.print(f"{len(paths):,} images in {count:,} shards written to {folder}")
