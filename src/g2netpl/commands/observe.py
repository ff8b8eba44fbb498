"""Hide labels of a fully labelled set, as a setting says, and write what stays visible.

examples:
  g2netpl observe --labels full.csv --setting sspl:0.2 --output partial.csv
  g2netpl observe --labels instances_train2014.json --setting fspl --output fspl.csv
  g2netpl observe --labels full.csv --setting positives:1+1 --seed 3 --output both-signs.parquet

Settings: full, fspl (one positive per image), sspl:0.2 (on 20 % of the images), positives:2+1
(positives + negatives per image), known:0.1 (every label with this chance), biased:frequency,
biased:size, own; fspl@spml and positives:1+1@spml are the masks of the SPML benchmark.
"""

import argparse

from g2netpl.commands.labelling import READING_SEVERAL, share_of_labels, write_new
from g2netpl.commands.training_flags import add_config_flags, checked


def add_flags(parser: argparse.ArgumentParser) -> None:
    needed = ("labels", "setting", "output")
    add_config_flags(parser, (*needed, "images", "seed", *READING_SEVERAL), required=needed)
    parser.add_argument("--to", metavar="FORMAT", help="format to write (default: by its name)")
    parser.add_argument("--overwrite", action="store_true", help="replace the output")


def run(flags: argparse.Namespace) -> None:
    """Observe, write, and say what share of the labels is left."""
    from g2netpl.base.console import Console
    from g2netpl.labels.formats import read_labels
    from g2netpl.labels.settings import SPML_SEED, Setting, observe

    console, config = Console(), checked(flags)
    setting = Setting.parse(config.setting)
    table = read_labels(config.labels, config.format, config.reading())
    seed = SPML_SEED if setting.spml_compatible else config.seed
    visible = observe(table, setting, seed)
    notes = write_new(visible, flags.output, flags.to, flags.overwrite, read=config.labels)
    for note in (*table.notes, *notes):
        console.print(f"note: {note}")
    console.print(
        f"{setting}, seed {seed}: {visible.known:,} of {table.known:,} known labels stay visible "
        f"({visible.known / max(table.known, 1):.2%})\n{share_of_labels(visible)}\n"
        f"written to {flags.output}"
    )
