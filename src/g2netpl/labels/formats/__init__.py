"""Label files in and out: one format per file, one row each in FORMATS."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from g2netpl.base.disk import writing
from g2netpl.base.errors import InputError, did_you_mean
from g2netpl.labels.entries import with_columns
from g2netpl.labels.formats import (
    coco,
    fiftyone,
    huggingface,
    imagefolder,
    label_studio,
    nuswide,
    openimages,
    parquet,
    spml,
    table,
    tags,
    voc,
)
from g2netpl.labels.formats.layouts import refuse_layout, refuse_odd_classes
from g2netpl.labels.formats.problems import LabelFileError, Problem
from g2netpl.labels.formats.proposals import Proposals
from g2netpl.labels.formats.reading import Reading, check_looks, class_problem, places, read_classes
from g2netpl.labels.table import LabelTable, is_text, name_problem, plain_name

__all__ = [
    "FORMATS",
    "Format",
    "LabelFileError",
    "Problem",
    "Reading",
    "find_format",
    "find_writer",
    "image_folder",
    "read_classes",
    "read_labels",
    "read_matching",
    "unpack",
    "write_labels",
]


@dataclass(frozen=True)
class Format:
    """How to recognise, read and write one kind of label file."""

    recognises: Callable[[Path], bool]
    read: Callable[[Path, Reading], LabelTable]
    write: Callable[[LabelTable, Path], list[str]]  # gives notes on what was left out
    summary: str
    endings: tuple[str, ...]  # to recognise a file by that is still to be written
    image_folder: Callable[[Path], Path] = lambda path: path.parent  # if nobody says where they are
    lists_all: bool = False  # other images in the folder belong to other parts of the data set
    names_classes: Callable[[Path], bool] = lambda path: True  # also a class without any label
    unpack: Callable[[Path, LabelTable, Path, bool], LabelTable] | None = None  # pictures inside
    propose: Callable[[LabelTable, Path, Proposals], list[str]] | None = (
        None  # beside what is known
    )


def _format(
    module: Any, summary: str, *endings: str, lists_all: bool = False, names_classes: bool = True
) -> Format:
    """What a module can do; its images lie beside the file unless it says otherwise."""
    folder = getattr(module, "image_folder", Format.image_folder)
    names = getattr(module, "names_classes", lambda path: names_classes)
    more = (getattr(module, name, None) for name in ("unpack", "propose"))
    does = (module.recognises, module.read, module.write)
    return Format(*does, summary, endings, folder, lists_all, names, *more)


FORMATS: dict[str, Format] = {
    "openimages": _format(
        openimages, "CSV `ImageID,LabelName,Confidence`, a row per known label", names_classes=False
    ),
    "tags": _format(
        tags,
        "CSV `image,labels` or `image,tags` with tags like `cat;dog`, optionally `absent`",
        names_classes=False,
    ),
    "csv": _format(
        table, "CSV with `image` and a column per class: 1, 0, or empty for unknown", ".csv"
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
        "Main/*.txt",
        lists_all=True,
    ),
    "nuswide": _format(
        nuswide,
        "NUS-WIDE, named by a list such as ImageList/TrainImagelist.txt",
        "ImageList/*.txt",
        lists_all=True,
    ),
    "spml": _format(
        spml,
        "SPML's formatted_{train,val}_{labels,labels_obs}.npy beside …_images.npy",
        *("_labels.npy", "_labels_obs.npy"),
        lists_all=True,
    ),
    "fiftyone": _format(fiftyone, "FiftyOne's folder with samples.json: labels, tags, confidence"),
    "imagefolder": _format(
        imagefolder,
        "a folder with metadata.csv, .jsonl or .parquet, or with a folder per class",
        "metadata.jsonl",
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


USUAL = Reading()
_WHOLE_FOLDERS = ("huggingface", "fiftyone")  # that are one data set, whatever else lies in them


def read_labels(
    path: str | Path, format: str | None = None, reading: Reading = USUAL
) -> LabelTable:
    """Read a label file of any known format; `format` overrides what the file looks like."""
    path = Path(path)
    try:
        if not path.exists():
            raise InputError(f"{path}: no such label file")
        if not path.is_dir() and not path.is_file():  # a pipe would keep us waiting
            raise InputError(f"{path}: not a regular file")
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror})") from None
    row = find_format(path, format)
    folder = format is None and path.is_dir() and row not in map(FORMATS.get, _WHOLE_FOLDERS)
    if folder:
        refuse_layout(path)
    try:
        table = row.read(path, reading)
        check_looks(table, str(path))
        if folder:
            refuse_odd_classes(path, table.classes)
        return table
    except LabelFileError:
        raise
    except InputError as problem:  # of a table that is no table; name the file once
        text = str(problem)
        named = text.startswith((f"{path}:", f"{path.parent}/"))
        raise InputError(text if named else f"{path}: {text}") from None


def find_writer(path: str | Path, format: str | None = None) -> Format:
    """The format called `format`, or the one that a name that is still to be written suggests."""
    path = Path(path)
    if format is not None:
        return find_format(path, format)
    for row in FORMATS.values():
        for ending in row.endings:
            if path.match(ending) if "*" in ending else path.name.lower().endswith(ending):
                return row
    if path.is_dir() or not path.suffix:
        return FORMATS["imagefolder"]
    raise InputError(f"{path}: what format is this to be? give --to, one of {', '.join(FORMATS)}")


def write_labels(table: LabelTable, path: str | Path, format: str | None = None) -> list[str]:
    """Write a label file; returns notes on what the format could not keep."""
    path = Path(path)
    row = find_writer(path, format)
    for name in table.classes:
        problem = class_problem(name)
        if problem is not None:
            raise InputError(f"{path}: nothing is written: {problem}")
    for name in table.images:
        problem = name_problem(name) or (None if is_text(name) else "the name is not text")
        if problem is None and plain_name(name) != name:
            problem = f"another name of {plain_name(name)!r}"
        if problem is not None:
            raise InputError(f"{path}: nothing is written: image {name!r}: {problem}")
    try:
        return row.write(table, path)
    except OSError as problem:
        raise InputError(f"{path}: cannot be written ({problem.strerror})") from None


def unpack(
    table: LabelTable,
    source: str | Path,
    format: str | None,
    target: str | Path,
    to: str | None = None,
    overwrite: bool = False,
) -> LabelTable:
    """Write pictures that lie inside a label file into a folder that is to be written.

    Returns the table with their names there; a target that is no folder gets the labels alone.
    """
    source, target = Path(source), Path(target)
    unpacked = find_format(source, format).unpack
    if unpacked is None:
        return table
    if find_writer(target, to) is not FORMATS["imagefolder"]:
        note = "the pictures stay where they are; name a folder to unpack them to"
        return table.with_notes((*table.notes, note))
    with writing(target):
        return unpacked(source, table, imagefolder.metadata_file(target).parent, overwrite)


def image_folder(path: str | Path, format: str | None = None) -> Path:
    """Where the images of a label file are, if nobody says."""
    return find_format(Path(path), format).image_folder(Path(path))


def read_matching(
    path: str, table: LabelTable, format: str | None = None, reading: Reading | None = None
) -> LabelTable:
    """A second label file, which must know the same classes; its columns are put in order."""
    usual = reading or USUAL
    if Path(path).exists() and not find_format(Path(path), format).names_classes(Path(path)):
        return read_labels(path, format, replace(usual, classes=table.classes))
    other = read_labels(path, format, replace(usual, classes=None))
    found = places(other.classes, table.classes)
    unlike = [name for name, place in zip(other.classes, found, strict=True) if place is None]
    there = set(found)
    lacking = [name for place, name in enumerate(table.classes) if place not in there]
    odd = sorted(unlike + lacking)
    if odd:
        side = "only here" if odd[0] in other.classes else "missing here"
        raise InputError(
            f"{path}: its classes differ from the training file's in {len(odd)}: {odd[0]!r} is "
            f"{side}"
        )
    columns = [place for place in found if place is not None]
    labels = with_columns(other.held, columns, len(table.classes))
    return LabelTable(other.images, table.classes, labels, None, other.notes, other.groups)
