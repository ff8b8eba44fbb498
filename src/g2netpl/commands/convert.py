"""Convert label files from one format to another, join several, or hide labels.

examples:
  g2netpl convert photos.xlsx labels.csv --tags-column Motif --absent negative
  g2netpl convert alice.csv bob.json labels.csv --aliases aliases.txt
  g2netpl convert full.csv partial.csv --setting sspl:0.2 --seed 3

Several files are joined: the new file has all images and all classes. A class that a file does not
have is unknown for its images. If a label is 1 in one file and 0 in another, nothing is written
unless --contradictions decides. Other commands join files too: train --labels a.csv --labels b.json

--setting hides labels of a fully labelled set: fspl (one positive per image), sspl:0.2 (on 20 % of
the images), positives:2+1 (positives + negatives per image), known:0.1 (every label with this
probability), biased:frequency, full, own; fspl@spml and positives:1+1@spml are the masks of the
SPML benchmark.
"""

import argparse

from g2netpl.commands.flags import (
    add_config_flags,
    add_overwrite_flag,
    add_settings_flags,
    checked,
)
from g2netpl.commands.writing import add_writing_flags, summary, write_table, written
from g2netpl.labels.class_warnings import similar_names_note
from g2netpl.labels.io import read_labels
from g2netpl.labels.io.options import ReadKeys
from g2netpl.labels.settings import SPML_SEED, Setting, observe
from g2netpl.utils.console import Console


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("sources", nargs="+", metavar="SOURCE", help="label files or folders to read")
    add("target", metavar="TARGET", help="label file to write")
    add_writing_flags(parser, "the target")
    add_overwrite_flag(parser)
    keys = ("setting", "seed", "images", "format", "classes", "aliases", "single_label")
    add_config_flags(
        parser, (*keys, *ReadKeys.model_fields), seed="seed of the hidden labels (default: 0)"
    )
    add_settings_flags(parser)


def run(flags: argparse.Namespace) -> None:
    """Read, hide labels and write."""
    console, config, sources = Console(), checked(flags), flags.sources
    read = read_labels(sources, config.format, config.reading())
    setting = Setting.parse(config.setting)
    seed = SPML_SEED if setting.spml_compatible else config.seed
    table = observe(read, setting, seed)
    notes = write_table(table, flags.target, flags, sources)
    if setting.kind != "own":
        console.print(
            f"{setting}, seed {seed}: {table.known:,} of {read.known:,} known labels stay visible "
            f"({table.known / max(read.known, 1):.2%})"
        )
    console.print(summary(table))
    for note in (*table.notes, *similar_names_note(table), *notes):
        console.print(f"note: {note}")
    console.print(written(flags.target, flags.dry_run))
