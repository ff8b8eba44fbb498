"""Label files in and out: one format per file, one row each in FORMATS."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from g2netpl.errors import InputError, did_you_mean
from g2netpl.formats import spml, table
from g2netpl.labels import LabelTable


@dataclass(frozen=True)
class Format:
    """How to recognise, read and write one kind of label file."""

    recognises: Callable[[Path], bool]
    read: Callable[[Path], LabelTable]
    write: Callable[[LabelTable, Path], None]
    summary: str


FORMATS: dict[str, Format] = {
    "csv": Format(
        table.recognises,
        table.read,
        table.write,
        "CSV: `image` and a column per class (1, 0, empty), or `image,labels` with tags",
    ),
    "spml": Format(
        spml.recognises,
        spml.read,
        spml.write,
        "SPML's formatted_{train,val}_{labels,labels_obs}.npy beside …_images.npy",
    ),
}


def read_labels(path: str | Path, format: str | None = None) -> LabelTable:
    """Read a label file of any known format; `format` overrides what the name suggests."""
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise InputError(f"unknown label format {format!r} ({did_you_mean(format, FORMATS)})")
    if not path.exists():
        raise InputError(f"{path}: no such label file")
    if format is not None:
        return FORMATS[format].read(path)
    for row in FORMATS.values():
        if row.recognises(path):
            return row.read(path)
    known = "; ".join(row.summary for row in FORMATS.values())
    raise InputError(f"{path}: not a known label file ({known})")
