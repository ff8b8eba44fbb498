"""What was found in a label file, and files that are to be written."""

import os
from typing import TYPE_CHECKING

from g2netpl.base.errors import InputError, Refused

if TYPE_CHECKING:
    from g2netpl.labels.table import LabelTable


READING = ("format", "absent", "separator", "classes")
"""How label files are to be understood: keys of RunConfig."""


def share_of_labels(table: "LabelTable") -> str:
    """How much of a table is known, in one line."""
    from g2netpl.labels.entries import NEGATIVE, POSITIVE, per_class

    positives, negatives = (per_class(table.held, sign).sum() for sign in (POSITIVE, NEGATIVE))
    labelled = int(table.labelled.sum())
    return (
        f"{len(table):,} images × {len(table.classes)} classes, {table.observed_fraction:.2%} of "
        f"the labels known: {positives:,} positive and {negatives:,} negative, on {labelled:,} "
        f"images ({len(table) - labelled:,} carry none)"
    )


def check_target(path: str, endings: tuple[str, ...] | None, overwrite: bool) -> None:
    """A file that may be written: its ending is known, and it is not there yet."""
    if endings is not None and not path.lower().endswith(endings):
        raise InputError(f"{path}: expected a name ending in {' or '.join(endings)}")
    there = os.path.lexists(path) and not os.path.isdir(path)
    inside = (os.path.join(path, name) for name in ("metadata.jsonl", "samples.json"))
    if (there or any(map(os.path.isfile, inside))) and not overwrite:
        raise Refused(f"{path}: is there already; choose another name, or give --overwrite")
    if there and not os.path.isfile(path):
        raise InputError(f"{path}: not a regular file")
    above = os.path.dirname(os.path.abspath(path))
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise InputError(f"{path}: cannot be written ({above} is not a folder)")


def write_new(table: "LabelTable", target: str, format: str | None, overwrite: bool) -> list[str]:
    """Write a label file that is not there yet; returns what the format could not keep."""
    from g2netpl.base.disk import writing
    from g2netpl.labels.formats import find_writer, write_labels

    check_target(target, None, overwrite)
    find_writer(target, format)
    with writing(target):
        return write_labels(table, target, format)
