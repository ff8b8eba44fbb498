"""The formats of label files, a module and a row each, and which of them a file is of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from g2netpl.labels.files import each_file
from g2netpl.labels.io import (
    coco,
    folders,
    huggingface,
    label_studio,
    nuswide,
    openimages,
    photo_tags,
    spml,
    tables,
    voc,
)
from g2netpl.labels.io.options import ReadOptions, read_class_list
from g2netpl.labels.paths import common_folder
from g2netpl.labels.table import LabelTable
from g2netpl.utils.errors import InputError, did_you_mean
from g2netpl.utils.image_refs import is_address

Paths = str | Path | Sequence[str | Path]


def folder_of(path: Path) -> Path:
    """A folder itself, or the folder of a file."""
    return path if path.is_dir() else path.parent


@dataclass(frozen=True)
class Format:
    """How to recognise, read and perhaps write one kind of label file."""

    summary: str
    can_read: Callable[[Path], bool]
    read: Callable[[Path, ReadOptions], LabelTable]
    write: Callable[[LabelTable, Path], list[str]] | None = None  # gives notes on what is left out
    endings: tuple[str, ...] = ()  # of files to be written
    image_folder: Callable[[Path], Path] = folder_of  # the images' folder by default
    lists_all: bool = False  # other images in the folder belong to other splits of the data set
    unpack: Callable[[Path, LabelTable, Path, bool], LabelTable] | None = None
    """Write the pictures that are inside the file into a folder."""


def _format(module: Any, summary: str, *endings: str, **more: Any) -> Format:
    """What a module can do: `can_read` and `read`, perhaps `write` and other fields of Format."""
    names = ("can_read", "read", "write", "image_folder", "unpack")
    found = {name: getattr(module, name) for name in names if hasattr(module, name)}
    return Format(summary, **{**found, "endings": endings, **more})


FORMATS: dict[str, Format] = {
    "openimages": _format(openimages, "CSV `ImageID,LabelName,Confidence`, a row per known label"),
    "tags": Format(
        "CSV `image,labels` or `image,tags` with tags like `cat;dog`, optionally `absent`",
        *(tables.is_tags, tables.read_tags, tables.write_tags),
    ),
    "csv": _format(
        tables, "CSV with `image` and a column per class: 1, 0, or empty for unknown", ".csv"
    ),
    "xlsx": _format(
        tables,
        "a workbook (.xlsx, .xls, .ods) whose first sheet has either shape of the CSV files",
        ".xlsx",
        can_read=tables.is_book,
    ),
    "huggingface": _format(
        huggingface, "a data set that Hugging Face's `datasets` saved, or Parquet with pictures"
    ),
    "parquet": _format(
        tables,
        "Parquet in either shape of the CSV files",
        *(".parquet", ".pq"),
        can_read=tables.is_parquet,
        write=tables.write_parquet,
    ),
    "coco": _format(
        coco, "COCO's instances JSON, and LVIS's with known negatives", ".json", lists_all=True
    ),
    "label-studio": _format(label_studio, "Label Studio's tasks, JSON"),
    "voc": _format(
        voc, "PASCAL VOC, named by a list such as VOC2012/ImageSets/Main/train.txt", lists_all=True
    ),
    "nuswide": _format(
        nuswide, "NUS-WIDE, named by a list such as ImageList/TrainImagelist.txt", lists_all=True
    ),
    "spml": _format(
        spml,
        "SPML's formatted_{train,val}_{labels,labels_obs}.npy and …_images.npy",
        lists_all=True,
    ),
    "imagefolder": _format(
        folders,
        "a folder with metadata.csv, .jsonl or .parquet, or with a folder per class",
        "metadata.jsonl",
    ),
    "classes": Format(
        "class names, one per line, without any label", lambda path: False, read_class_list
    ),
    "photo-tags": _format(
        photo_tags,
        "a folder of photos with tags in them (XMP, IPTC) or in .xmp sidecars next to them",
        can_read=lambda path: False,  # any folder may hold photos: it is asked for by name
    ),
}


def find_format(path: Path, name: str | None = None) -> Format:
    """The format called `name`, or the one that a file that exists looks like."""
    if name is not None:
        if name not in FORMATS:
            raise InputError(f"unknown label format {name!r} ({did_you_mean(name, FORMATS)})")
        return FORMATS[name]
    for row in FORMATS.values():
        if row.can_read(path):
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
        if row.endings and path.name.lower().endswith(row.endings):
            return row
    if path.is_dir() or not path.suffix:
        return FORMATS["imagefolder"]
    raise InputError(f"{path}: what format is this to be? give --to, one of {', '.join(writers)}")


def image_folder(files: Paths, format: str | None = None) -> Path:
    """The images' folder of label files by default."""
    return image_folders(files, format)[0]


def image_folders(files: Paths, format: str | None = None) -> tuple[Path, list[str]]:
    """The folder that holds all images, and the path from it to those of each file."""
    for file in filter(is_address, each_file(files)):
        raise InputError(f"{file}: say with --images where its images are")
    paths = [Path(file) for file in each_file(files)]
    return common_folder([find_format(path, format).image_folder(path) for path in paths])
