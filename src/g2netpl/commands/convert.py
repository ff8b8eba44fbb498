"""Convert label files from one format to another, join several, or hide labels.

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
  g2netpl convert alice.csv bob.json labels.csv --aliases aliases.txt
  g2netpl convert labels.csv corrections.csv corrected.csv --contradictions last
  g2netpl convert full.csv partial.csv --setting sspl:0.2 --seed 3

Several files are joined: the new file has all images and all classes. A class that a file does not
have is unknown for its images. If one file says 1 and another 0, nothing is written unless
--contradictions tells what counts. All other commands join files themselves: g2netpl train
--labels alice.csv --labels bob.json …

--setting hides labels of a fully labelled set: fspl (one positive per image), sspl:0.2 (on 20 % of
the images), positives:2+1 (positives + negatives per image), known:0.1 (every label with this
probability), biased:frequency, full, own; fspl@spml and positives:1+1@spml are the masks of the
SPML benchmark.

A data set with its pictures inside is unpacked into a folder, labels in metadata.jsonl beside the
pictures; if it was interrupted, the same command continues. A label never changes its meaning.
"""

import argparse

from g2netpl.commands.labelling import (
    PHOTO_TAGS,
    READING_SEVERAL,
    add_writing_flags,
    check_target,
    share_of_labels,
    write_new,
    write_sidecars,
    written,
)
from g2netpl.commands.training_flags import add_config_flags, checked
from g2netpl.labels.class_warnings import similar_names_note
from g2netpl.labels.io import read_labels, unpack
from g2netpl.labels.settings import SPML_SEED, Setting, observe
from g2netpl.utils.console import Console


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="label file or folder to read")
    parser.add_argument("target", metavar="TARGET", help="label file to write, or folder to unpack")
    add_writing_flags(parser, "the target")
    parser.add_argument("--overwrite", action="store_true", help="replace the target")
    add_config_flags(parser, ("setting", "seed", "images", *READING_SEVERAL))


def run(flags: argparse.Namespace) -> None:
    """Read, hide labels, unpack if pictures are inside, write, and say what was written."""
    console, config, sources = Console(), checked(flags), flags.sources
    read = read_labels(sources, config.format, config.reading())
    setting = Setting.parse(config.setting)
    seed = SPML_SEED if setting.spml_compatible else config.seed
    table = observe(read, setting, seed)
    if flags.to == PHOTO_TAGS:
        notes = write_sidecars(table, flags, flags.target)
    else:
        check_target(flags.target, None, flags.overwrite, sources)
        if not flags.dry_run and len(sources) == 1:
            where = (sources[0], config.format, flags.target, flags.to)
            table = unpack(table, *where, flags.overwrite)
        how = (flags.to, flags.overwrite, flags.dry_run)
        notes = write_new(table, flags.target, *how, sources)
    if setting.kind != "own":
        console.print(
            f"{setting}, seed {seed}: {table.known:,} of {read.known:,} known labels stay visible "
            f"({table.known / max(read.known, 1):.2%})"
        )
    console.print(share_of_labels(table))
    for note in (*table.notes, *similar_names_note(table), *notes):
        console.print(f"note: {note}")
    console.print(written(flags.target, flags.dry_run))
