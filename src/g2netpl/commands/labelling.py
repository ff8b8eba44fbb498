"""What was found in a label file, and files that are to be written."""

import argparse
import os
import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt

from g2netpl.labels.files import READ_BY, each_file
from g2netpl.labels.io import Paths, find_format, find_writer, photo_tags, write_labels
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable, per_class
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import old_name, writing

READING = (*READ_BY, "single_label", "contradictions")
"""How label files are read: keys of RunConfig."""
ENDINGS = (".csv", ".xlsx", ".parquet", ".pq")  # of tables to write


PHOTO_TAGS = "photo-tags"


def add_writing_flags(parser: argparse.ArgumentParser, what: str) -> None:
    """How a label file is to be written."""
    parser.add_argument("--to", metavar="FORMAT", help=f"format of {what} (default: by name)")
    parser.add_argument(
        "--sidecar",
        choices=("IMG.JPG.xmp", "IMG.xmp"),
        default="IMG.JPG.xmp",
        help="name of a new sidecar with --to photo-tags; IMG.JPG.xmp: darktable and digiKam, "
        "IMG.xmp: Lightroom (default: IMG.JPG.xmp)",
    )
    parser.add_argument("--dry-run", action="store_true", help="write nothing, only report")


def share_of_labels(table: LabelTable) -> str:
    """How much of a table is known, in one line."""
    positives, negatives = (per_class(table.values, sign).sum() for sign in (POSITIVE, NEGATIVE))
    labelled = int(table.labelled.sum())
    return (
        f"{len(table):,} images × {len(table.classes)} classes, {table.observed_fraction:.2%} of "
        f"the labels known: {positives:,} positive and {negatives:,} negative, on {labelled:,} "
        f"images ({len(table) - labelled:,} carry none)"
    )


def check_target(
    path: str, endings: tuple[str, ...] | None, overwrite: bool, read: Paths = ()
) -> None:
    """A file that may be written: its ending is known, and it is not there yet.

    With `overwrite` it may be, unless it is one of those that are `read`.
    """
    if endings is not None and not path.lower().endswith(endings):
        raise InputError(f"{path}: expected a name ending in {' or '.join(endings)}")
    there = os.path.lexists(path) and not os.path.isdir(path)
    replaced = _files_of(path)
    if replaced and not overwrite:
        raise InputError(f"{path}: is there already; choose another name, or give --overwrite")
    for file in each_file(read):
        if replaced & _files_of(file):
            raise InputError(f"{path}: would replace {file}, which is read; choose another name")
    if there and not os.path.isfile(path):
        raise InputError(f"{path}: not a regular file")
    above = os.path.dirname(os.path.abspath(path))
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise InputError(f"{path}: cannot be written ({above} is not a folder)")


def _files_of(path: str) -> set[str]:
    """The files that hold the labels at a path: itself, or those in a folder."""
    if not os.path.isdir(path):
        return {os.path.realpath(path)} if os.path.lexists(path) else set()
    inside = os.path.join(path, "metadata.jsonl")
    return {os.path.realpath(inside)} if os.path.isfile(inside) else set()


def format_flag(target: str, to: str | None) -> str:
    """` --format NAME`, where a file that was written so would be taken for another."""
    return "" if find_format(Path(target)) is find_writer(target, to) else f" --format {to}"


def written(target: str, dry_run: bool) -> str:
    """The last line of a command that writes."""
    return f"nothing is written to {target} (--dry-run)" if dry_run else f"written to {target}"


def write_new(
    table: LabelTable,
    target: str,
    format: str | None,
    overwrite: bool,
    dry_run: bool = False,
    read: Paths = (),
) -> list[str]:
    """Write a label file; returns what the format could not keep.

    With `overwrite` one that is there is kept as NAME.old-1, unless it was `read`.
    """

    check_target(target, None, overwrite, read)
    find_writer(target, format)
    if dry_run:
        return []
    with writing(target):
        if os.path.isfile(target):
            shutil.copy2(target, old_name(target))
        return write_labels(table, target, format)


def write_sidecars(
    table: LabelTable,
    flags: argparse.Namespace,
    folder: str,
    guessed: npt.NDArray[np.bool_] | None = None,
) -> list[str]:
    """Write labels into sidecars beside photos, where others may be; returns what is changed."""
    stem = flags.sidecar == "IMG.xmp"
    with writing(folder):
        return photo_tags.write(table, Path(folder), guessed, stem, flags.dry_run)
