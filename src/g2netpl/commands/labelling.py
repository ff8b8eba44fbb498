"""The flags that say how label files are to be understood, and what was found in one."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from g2netpl.formats import Reading
    from g2netpl.labels import LabelTable


def add_reading_flags(parser: argparse.ArgumentParser) -> None:
    """--format, --absent, --separator and --classes."""
    parser.add_argument("--format", help="format of the label file (default: by its looks)")
    parser.add_argument(
        "--absent",
        choices=("unobserved", "negative"),
        help="what a label is that the file does not name (default: as usual in its format)",
    )
    parser.add_argument("--separator", help="between tags (default: ';' or '|')")
    parser.add_argument("--classes", metavar="FILE", help="the classes there may be, one per line")


def reading_of(flags: argparse.Namespace) -> "Reading":
    """What the flags say about reading label files."""
    from g2netpl.formats import Reading, read_classes

    classes = None if flags.classes is None else read_classes(flags.classes)
    return Reading(flags.absent, flags.separator, classes)


def share_of_labels(table: "LabelTable") -> str:
    """How much of a table is known, in one line."""
    positives, negatives = int((table.values == 1).sum()), int((table.values == 0).sum())
    labelled = int((table.values >= 0).any(axis=1).sum())
    return (
        f"{len(table):,} images × {len(table.classes)} classes, {table.observed_fraction:.2%} of "
        f"the labels known: {positives:,} positive and {negatives:,} negative, on {labelled:,} "
        f"images ({len(table) - labelled:,} carry none)"
    )


def write_new(table: "LabelTable", target: str, format: str | None, overwrite: bool) -> list[str]:
    """Write a label file that is not there yet; returns what the format could not keep."""
    from pathlib import Path

    from g2netpl.errors import Refused
    from g2netpl.formats import write_labels

    path = Path(target)
    if not overwrite and (path.is_file() or (path / "metadata.jsonl").is_file()):
        raise Refused(f"{target}: is there already; choose another name, or give --overwrite")
    if path.suffix.lower() != ".txt" and not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
    return write_labels(table, path, format)
