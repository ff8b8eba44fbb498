"""The formats of label files, a module and a row each, and which of them a file is of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from g2netpl.base.errors import InputError, did_you_mean
from g2netpl.base.places import is_address
from g2netpl.labels.files import each_file
from g2netpl.labels.formats import (
    coco,
    csv_table,
    huggingface,
    imagefolder,
    label_studio,
    nuswide,
    openimages,
    parquet,
    photo_tags,
    spml,
    tags,
    voc,
    xlsx,
)
from g2netpl.labels.formats.reading import Reading
from g2netpl.labels.paths import common_folder
from g2netpl.labels.table import LabelTable

Paths = str | Path | Sequence[str | Path]


def folder_of(path: Path) -> Path:
    """A folder itself, or the folder of a file."""
    return path if path.is_dir() else path.parent


@dataclass(frozen=True)
class Format:
    """How to recognise, read and perhaps write one kind of label file."""

    recognises: Callable[[Path], bool]
    read: Callable[[Path, Reading], LabelTable]
    write: Callable[[LabelTable, Path], list[str]] | None  # gives notes on what was left out
    summary: str
    endings: tuple[str, ...]  # to recognise a file by that is still to be written
    image_folder: Callable[[Path], Path] = folder_of  # where the images are, if nobody says
    lists_all: bool = False  # other images in the folder belong to other parts of the data set
    names_classes: Callable[[Path, Reading], bool] = lambda path, reading: True
    """Whether it names also a class without any label."""
    unpack: Callable[[Path, LabelTable, Path, bool], LabelTable] | None = None
    """Write the pictures that are inside the file into a folder."""


def _format(
    module: Any,
    summary: str,
    *endings: str,
    lists_all: bool = False,
    names_classes: bool = True,
) -> Format:
    """What a module can do; its images lie beside the file unless it says otherwise."""
    folder = getattr(module, "image_folder", folder_of)
    names = getattr(module, "names_classes", lambda path, reading: names_classes)
    write, unpack = (getattr(module, name, None) for name in ("write", "unpack"))
    does = (module.recognises, module.read, write)
    return Format(*does, summary, endings, folder, lists_all, names, unpack)


FORMATS: dict[str, Format] = {
    "openimages": _format(
        openimages,
        "CSV `ImageID,LabelName,Confidence`, a row per known label",
        names_classes=False,
    ),
    "tags": _format(
        tags,
        "CSV `image,labels` or `image,tags` with tags like `cat;dog`, optionally `absent`",
        names_classes=False,
    ),
    "csv": _format(
        csv_table,
        "CSV with `image` and a column per class: 1, 0, or empty for unknown",
        ".csv",
    ),
    "xlsx": Format(
        xlsx.recognises,
        csv_table.read,
        csv_table.write,
        "a workbook (.xlsx) whose first sheet has either shape of the CSV files",
        (".xlsx",),
        names_classes=csv_table.names_classes,
    ),
    "huggingface": _format(
        huggingface, "a data set that Hugging Face's `datasets` saved, or Parquet with pictures"
    ),
    "parquet": _format(parquet, "Parquet in either shape of the CSV files", ".parquet", ".pq"),
    "coco": _format(
        coco, "COCO's instances JSON, and LVIS's with known negatives", ".json", lists_all=True
    ),
    "label-studio": _format(label_studio, "Label Studio's tasks, JSON", names_classes=False),
    "voc": _format(
        voc,
        "PASCAL VOC, named by a list such as VOC2012/ImageSets/Main/train.txt",
        lists_all=True,
    ),
    "nuswide": _format(
        nuswide,
        "NUS-WIDE, named by a list such as ImageList/TrainImagelist.txt",
        lists_all=True,
    ),
    "spml": _format(
        spml,
        "SPML's formatted_{train,val}_{labels,labels_obs}.npy beside …_images.npy",
        lists_all=True,
    ),
    "imagefolder": _format(
        imagefolder,
        "a folder with metadata.csv, .jsonl or .parquet, or with a folder per class",
        "metadata.jsonl",
        names_classes=False,
    ),
    "photo-tags": _format(
        photo_tags,
        "a folder of photos with tags in them (XMP, IPTC) or in .xmp sidecars beside them",
        names_classes=False,
    ),
}


def find_format(path: Path, name: str | None = None) -> Format:
    """The format called `name`, or the one that a file that exists looks like."""
    if name is not None:
        if name not in FORMATS:
            raise InputError(f"unknown label format {name!r} ({did_you_mean(name, FORMATS)})")
        return FORMATS[name]
    for row in FORMATS.values():
        if row.recognises(path):
            return row
    raise InputError(f"{path}: not a known label file; --format is one of {', '.join(FORMATS)}")


def find_writer(path: str | Path, format: str | None = None) -> Format:
    """The format called `format`, or the one that a name that is still to be written suggests."""
    path = Path(path)
    writers = {name: row for name, row in FORMATS.items() if row.write is not None}
    if format is not None:
        row = find_format(path, format)
        if row.write is None:
            raise InputError(f"--to {format}: only read; written are {', '.join(writers)}")
        return row
    for row in writers.values():
        if path.name.lower().endswith(row.endings):
            return row
    if path.is_dir() or not path.suffix:
        return FORMATS["imagefolder"]
    raise InputError(f"{path}: what format is this to be? give --to, one of {', '.join(writers)}")


def image_folder(files: Paths, format: str | None = None) -> Path:
    """Where the images of label files are, if nobody says."""
    return image_folders(files, format)[0]


def image_folders(files: Paths, format: str | None = None) -> tuple[Path, list[str]]:
    """The folder that holds all images, and what leads from it to those of each file."""
    for file in filter(is_address, each_file(files)):
        raise InputError(f"{file}: say with --images where its images are")
    paths = [Path(file) for file in each_file(files)]
    return common_folder([find_format(path, format).image_folder(path) for path in paths])
