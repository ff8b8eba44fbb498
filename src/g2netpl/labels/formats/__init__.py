"""Label files in and out: one format per file, one row each in FORMATS."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from g2netpl.base.disk import writing
from g2netpl.base.errors import InputError, did_you_mean
from g2netpl.labels.files import each_file, named
from g2netpl.labels.formats import (
    coco,
    fiftyone,
    huggingface,
    imagefolder,
    label_studio,
    nuswide,
    openimages,
    parquet,
    photo_tags,
    spml,
    table,
    tags,
    voc,
    webdataset,
    xlsx,
)
from g2netpl.labels.formats.aliases import read_aliases, renamed, unused_note, with_aliases
from g2netpl.labels.formats.layouts import refuse_layout, refuse_odd_classes, tags_hint
from g2netpl.labels.formats.merging import below, merge
from g2netpl.labels.formats.one_of import by_one
from g2netpl.labels.formats.problems import LabelFileError, Problem
from g2netpl.labels.formats.proposals import Proposals
from g2netpl.labels.formats.reading import (
    Reading,
    check_looks,
    class_problem,
    in_class_order,
    places,
    read_classes,
)
from g2netpl.labels.paths import common_folder
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
    "image_folders",
    "read_aliases",
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
    write: Callable[..., list[str]]  # of a table, to a path; gives notes on what was left out
    summary: str
    endings: tuple[str, ...]  # to recognise a file by that is still to be written
    image_folder: Callable[[Path], Path] = lambda path: path.parent  # if nobody says where they are
    lists_all: bool = False  # other images in the folder belong to other parts of the data set
    names_classes: Callable[[Path, Reading], bool] = lambda path, reading: True
    """Whether it names also a class without any label."""
    is_text: bool = False  # CSV, which may begin with a byte order mark
    unpack: Callable[[Path, LabelTable, Path, bool], LabelTable] | None = None
    """Write the pictures that are inside the file into a folder."""
    propose: Callable[[LabelTable, Path, Proposals], list[str]] | None = None
    """Write what a run proposes beside what is known."""


def _format(
    module: Any,
    summary: str,
    *endings: str,
    lists_all: bool = False,
    names_classes: bool = True,
    is_text: bool = False,
) -> Format:
    """What a module can do; its images lie beside the file unless it says otherwise."""
    folder = getattr(module, "image_folder", Format.image_folder)
    names = getattr(module, "names_classes", lambda path, reading: names_classes)
    more = (getattr(module, name, None) for name in ("unpack", "propose"))
    does = (module.recognises, module.read, module.write)
    return Format(*does, summary, endings, folder, lists_all, names, is_text, *more)


FORMATS: dict[str, Format] = {
    "openimages": _format(
        openimages,
        "CSV `ImageID,LabelName,Confidence`, a row per known label",
        names_classes=False,
        is_text=True,
    ),
    "tags": _format(
        tags,
        "CSV `image,labels` or `image,tags` with tags like `cat;dog`, optionally `absent`",
        names_classes=False,
        is_text=True,
    ),
    "csv": _format(
        table,
        "CSV with `image` and a column per class: 1, 0, or empty for unknown",
        ".csv",
        is_text=True,
    ),
    "xlsx": Format(
        xlsx.recognises,
        table.read,
        table.write,
        "a workbook (.xlsx) whose first sheet has either shape of the CSV files",
        (".xlsx",),
        names_classes=table.names_classes,
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
    "webdataset": _format(
        webdataset, "WebDataset's tar shards, labels in a `.json` per image: g2netpl pack", ".tar"
    ),
    "fiftyone": _format(fiftyone, "FiftyOne's folder with samples.json: labels, tags, confidence"),
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


USUAL = Reading()
# folders that are one data set, whatever else lies in them
_WHOLE_FOLDERS = ("huggingface", "webdataset", "fiftyone")
Paths = str | Path | Sequence[str | Path]


def read_labels(files: Paths, format: str | None = None, reading: Reading = USUAL) -> LabelTable:
    """Read a label file of any known format; `format` overrides what the file looks like.

    Several files become one table, of all images and classes that any of them has.
    """
    paths = each_file(files)
    if not paths:
        raise InputError("expected a label file, or several, got none")
    if len(paths) == 1 and not reading.aliases:
        table = _read_one(Path(paths[0]), format, reading)
    else:
        table = _read_joined(paths, format, reading)
    return by_one(table, named(paths)) if reading.one_of else table


def _check_there(path: Path) -> None:
    try:
        if not path.exists():
            raise InputError(f"{path}: no such label file")
        if not path.is_dir() and not path.is_file():  # a pipe would keep us waiting
            raise InputError(f"{path}: not a regular file")
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror})") from None


def _read_one(path: Path, format: str | None, reading: Reading) -> LabelTable:
    _check_there(path)
    row = find_format(path, format)
    folder = format is None and path.is_dir() and row not in map(FORMATS.get, _WHOLE_FOLDERS)
    if folder:
        refuse_layout(path)
    try:
        table = row.read(path, reading)
        check_looks(table, str(path))
        if folder:
            refuse_odd_classes(path, table.classes)
            table = table.with_notes((*table.notes, *tags_hint(path)))
        return table
    except LabelFileError:
        raise
    except InputError as problem:  # of a table that is no table; name the file once
        text = "; ".join((str(problem), *(tags_hint(path) if folder else ())))
        says_where = text.startswith((f"{path}:", f"{path.parent}/"))
        raise InputError(text if says_where else f"{path}: {text}") from None


def _read_joined(paths: Sequence[str], format: str | None, reading: Reading) -> LabelTable:
    """The files as one table, with one name for every class; all that is wrong in any is told."""
    for path in paths:
        _check_there(Path(path))
    root, ways = (None, [""] * len(paths)) if reading.one_folder else image_folders(paths, format)
    aliases = reading.aliases or {}
    # of several files each has its own classes, and none but these can be absent
    known = None if len(paths) > 1 else with_aliases(reading.classes, aliases)
    tables: dict[str, LabelTable] = {}
    names: list[str] = []
    problems: list[Problem] = []
    for path, way in zip(paths, ways, strict=True):
        try:
            table = _read_one(Path(path), format, replace(reading, classes=known))
            names += table.classes
            tables[path] = below(in_class_order(renamed(table, aliases), reading, path), way)
        except LabelFileError as mistake:
            problems += mistake.problems
            rest = None if mistake.readable is None else mistake.readable()
            if rest is not None:
                tables[path] = below(renamed(rest, aliases), way)
    if problems:
        error = LabelFileError(problems)
        error.readable = lambda: merge(tables, "unknown") if tables else None
        raise error
    notes = unused_note(aliases, names)
    if any(ways):
        where = f"their images are named below {root} (--images: all names are below that folder)"
        notes.append(f"the files lie in different folders: {where}")
    table = merge(tables, reading.contradictions)
    return table.with_notes((*table.notes, *notes))


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


def write_labels(
    table: LabelTable, path: str | Path, format: str | None = None, bom: bool = False
) -> list[str]:
    """Write a label file; returns notes on what the format could not keep.

    With `bom` a CSV file begins with a byte order mark, by which Excel knows that it is UTF-8.
    """
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
        return row.write(table, path, **({"bom": True} if bom and row.is_text else {}))
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


def image_folder(files: Paths, format: str | None = None) -> Path:
    """Where the images of label files are, if nobody says."""
    return image_folders(files, format)[0]


def image_folders(files: Paths, format: str | None = None) -> tuple[Path, list[str]]:
    """The folder that holds all images, and what leads from it to those of each file."""
    paths = [Path(file) for file in each_file(files)]
    return common_folder([find_format(path, format).image_folder(path) for path in paths])


def read_matching(
    files: Paths, table: LabelTable, format: str | None = None, reading: Reading = USUAL
) -> LabelTable:
    """More label files, which must know the same classes; their columns are put in order."""
    paths = [Path(file) for file in each_file(files)]
    nameless = [
        path.exists() and not find_format(path, format).names_classes(path, reading)
        for path in paths
    ]
    if any(nameless):
        return read_labels(files, format, replace(reading, classes=table.classes))
    other = read_labels(files, format, replace(reading, classes=None))
    found = places(other.classes, table.classes)
    unlike = [name for name, place in zip(other.classes, found, strict=True) if place is None]
    there = set(found)
    lacking = [name for place, name in enumerate(table.classes) if place not in there]
    odd = sorted(unlike + lacking)
    if odd:
        side = "only here" if odd[0] in other.classes else "missing here"
        raise InputError(
            f"{named(files)}: its classes differ from the training file's in {len(odd)}: "
            f"{odd[0]!r} is {side}"
        )
    return other.with_classes(table.classes, [place for place in found if place is not None])
