"""Label files that a command writes: which may be written, how, and what is in them."""

import argparse
import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import numpy.typing as npt

from g2netpl.labels.files import each_file
from g2netpl.labels.io import Paths, find_writer, photo_tags, write_labels
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable, per_class
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.files import old_name, writing

ENDINGS = (".csv", ".xlsx", ".parquet", ".pq")  # of tables to write
PHOTO_TAGS = "photo-tags"


def add_writing_flags(parser: argparse.ArgumentParser, what: str) -> None:
    """How a label file is to be written."""
    parser.add_argument("--to", metavar="FORMAT", help=f"format of {what} (default: by name)")
    names = ("IMG.JPG.xmp", "IMG.xmp")
    text = "new sidecars as for darktable and digiKam, or Lightroom (default: IMG.JPG.xmp)"
    parser.add_argument("--sidecar", choices=names, default=names[0], help=text)
    parser.add_argument("--dry-run", action="store_true", help="write nothing, only report")


def summary(table: LabelTable) -> str:
    """How much of a table is known, in one line."""
    positives, negatives = (per_class(table.values, sign).sum() for sign in (POSITIVE, NEGATIVE))
    labelled = int(table.labelled.sum())
    return (
        f"{counted(len(table), 'image')} × {counted(len(table.classes), 'class')}, "
        f"{table.observed_fraction:.2%} of the labels known: {positives:,} positive and "
        f"{negatives:,} negative, on {labelled:,} images ({len(table) - labelled:,} have none)"
    )


def written(target: str | Path, dry_run: bool = False) -> str:
    """The last line of a command that writes."""
    return f"nothing is written to {target} (--dry-run)" if dry_run else f"written to {target}"


def check_target(
    path: str, endings: tuple[str, ...] | None, overwrite: bool, read: Paths = ()
) -> None:
    """Reject a file that may not be written.

    One that exists needs `overwrite`, and must not be one of those that are `read`.
    """
    if endings is not None and not path.lower().endswith(endings):
        raise InputError(f"{path}: expected a name ending in {' or '.join(endings)}")
    replaced = _label_file(path)
    if os.path.lexists(replaced):
        if not os.path.isfile(replaced):
            raise InputError(f"{path}: not a regular file")
        if not overwrite:
            raise InputError(f"{path}: already exists; choose another name, or use --overwrite")
        for file in map(_label_file, each_file(read)):
            if os.path.exists(file) and os.path.samefile(replaced, file):
                raise InputError(
                    f"{path}: would replace {file}, which is read; choose another name"
                )
    above = Path(path).absolute().parent
    above = next(folder for folder in (above, *above.parents) if os.path.lexists(folder))
    if not above.is_dir():
        raise InputError(f"{path}: cannot be written ({above} is not a folder)")


def _label_file(path: str) -> str:
    """The file that holds the labels at a path: itself, or that in a folder."""
    return os.path.join(path, "metadata.jsonl") if os.path.isdir(path) else path


def write_table(
    table: LabelTable,
    target: str,
    flags: argparse.Namespace,
    read: Paths = (),
    guessed: npt.NDArray[np.bool_] | None = None,
) -> list[str]:
    """Write a label file, or sidecars next to photos; returns what the format could not keep.

    A label file that is replaced is kept as NAME.old-1.
    """
    if flags.to == PHOTO_TAGS:
        has_stem = flags.sidecar == "IMG.xmp"
        with writing(target):
            return photo_tags.write(table, Path(target), guessed, has_stem, flags.dry_run)
    check_target(target, None, flags.overwrite, read)
    find_writer(target, flags.to)
    if flags.dry_run:
        return []
    with writing(target), ExitStack() as on_failure:
        if os.path.isfile(target):
            kept = shutil.copy2(target, old_name(target))
            on_failure.callback(os.remove, kept)
        notes = write_labels(table, target, flags.to)
        on_failure.pop_all()
        return notes
