"""Label files: the formats, which of them a file is of, and how files are read and written.

A new format is a module with `can_read` and `read` (and perhaps `write`), and a row in `FORMATS`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from g2netpl.labels.files import each_file, ensure_local, named
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
from g2netpl.labels.io.build import complete_single_labels, merge
from g2netpl.labels.io.issues import Issues, LabelFileError
from g2netpl.labels.io.options import (
    ReadOptions,
    class_problem,
    read_class_list,
    with_aliases,
    with_class_names,
)
from g2netpl.labels.names import name_problem, plain_name
from g2netpl.labels.paths import common_folder
from g2netpl.labels.table import LabelTable, per_class
from g2netpl.utils.errors import InputError, did_you_mean, listed
from g2netpl.utils.files import friendly_os_errors
from g2netpl.utils.image_refs import is_address

Paths = str | Path | Sequence[str | Path]
USUAL = ReadOptions()
_LEARN_SOME = (
    "the list of classes lacks some; to learn only those listed, leave out the other columns "
    "with --set ignore_columns=NAMES (g2netpl convert writes a CSV file with a column per class)"
)


def folder_of(path: Path) -> Path:
    """A folder itself, or the folder of a file."""
    return path if path.is_dir() else path.parent


@dataclass(frozen=True)
class Format:
    """How to recognise, read and perhaps write one kind of label file."""

    can_read: Callable[[Path], bool]
    read: Callable[[Path, ReadOptions], LabelTable]
    write: Callable[[LabelTable, Path], list[str]] | None = None  # gives notes on what is left out
    endings: tuple[str, ...] = ()  # of files to be written
    image_folder: Callable[[Path], Path] = folder_of  # the images' folder by default
    lists_all: bool = False  # other images in the folder belong to other splits of the data set


def _format(module: Any, *endings: str, **more: Any) -> Format:
    """What a module can do: `can_read` and `read`, perhaps `write` and other fields of Format."""
    names = ("can_read", "read", "write", "image_folder")
    functions = {name: getattr(module, name) for name in names if hasattr(module, name)}
    return Format(**{**functions, "endings": endings, **more})


def _never(path: Path) -> bool:
    """Any text may be a list of classes, and any folder may hold photos: name these formats."""
    return False


FORMATS: dict[str, Format] = {
    "openimages": _format(openimages),
    "huggingface": _format(huggingface),
    "tags": _format(tables, can_read=_never, write=tables.write_tags),
    "csv": _format(tables, ".csv"),  # recognises all tables
    "xlsx": _format(tables, ".xlsx", can_read=_never),
    "parquet": _format(tables, ".parquet", ".pq", can_read=_never),
    "coco": _format(coco, ".json", lists_all=True),
    "label-studio": _format(label_studio),
    "voc": _format(voc, lists_all=True),
    "nuswide": _format(nuswide, lists_all=True),
    "spml": _format(spml, lists_all=True),
    "imagefolder": _format(folders, "metadata.jsonl"),
    "classes": Format(_never, read_class_list),
    "photo-tags": _format(photo_tags, can_read=_never),
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
    raise InputError(f"{path}: not a known label file; set format to one of {', '.join(FORMATS)}")


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
    raise InputError(f"{path}: unknown format; use --to with one of {', '.join(writers)}")


def image_folder(files: Paths, format: str | None = None) -> Path:
    """The images' folder of label files by default."""
    return image_folders(files, format)[0]


def image_folders(files: Paths, format: str | None = None) -> tuple[Path, list[str]]:
    """The folder that holds all images, and the path from it to those of each file."""
    for file in filter(is_address, each_file(files)):
        raise InputError(f"{file}: its image folder is unknown; use --images FOLDER")
    paths = [Path(file) for file in each_file(files)]
    return common_folder([find_format(path, format).image_folder(path) for path in paths])


# reading


def read_labels(
    files: Paths | Any, format: str | None = None, options: ReadOptions = USUAL
) -> LabelTable:
    """Read a label file of any known format, or a data frame of pandas.

    `format` overrides what the file looks like. Several files become one table, of all images and
    classes that any of them has.
    """
    if hasattr(files, "iloc"):
        known = with_aliases(options.classes, options.aliases)
        table = tables.read_frame(files, options.model_copy(update={"classes": known}))
        table = with_class_names(table, options, "data frame")
        return complete_single_labels(table) if options.single_label else table
    return _read_all(files, format, options)


def read_matching(
    files: Paths, table: LabelTable, format: str | None = None, options: ReadOptions = USUAL
) -> LabelTable:
    """More label files, with the classes of a table; those that they lack are unobserved."""
    other = _read_all(files, format, options.model_copy(update={"classes": table.classes}))
    counts = zip(table.classes, per_class(other.values).tolist(), strict=True)
    silent = [repr(name) for name, count in counts if not count]
    note = [f"no label of {listed(silent)}"] if silent and len(other) else []
    return other.with_notes((*other.notes, *note))


def _read_all(files: Paths, format: str | None, options: ReadOptions) -> LabelTable:
    """The files as one table, with one name for every class; the issues of all are reported."""
    paths = each_file(files)
    if not paths:
        raise InputError("expected a label file, or several, got none")
    for path in map(ensure_local, paths):
        with friendly_os_errors(path):  # of a name that is too long, or a folder that is not ours
            if not path.is_dir() and not path.is_file():  # a pipe would keep us waiting
                problem = "not a regular file" if path.exists() else "no such label file"
                raise InputError(f"{path}: {problem}")
    is_simple = len(paths) == 1 or options.one_folder
    root, ways = (None, [""] * len(paths)) if is_simple else image_folders(paths, format)
    # of several files each has its own classes, and no others can be absent
    known = with_aliases(options.classes, options.aliases) if len(paths) == 1 else None
    read, issues = dict[str, LabelTable](), Issues()
    for file, way in zip(paths, ways, strict=True):
        path = ensure_local(file)
        try:
            reading = options.model_copy(update={"classes": known})
            table = find_format(path, format).read(path, reading)
            table = with_class_names(table, options, file)
            read[file] = table.with_images([f"{way}{name}" for name in table.images])
        except LabelFileError as error:
            issues += error.issues
        except InputError as problem:
            text = str(problem)
            is_named = text.startswith((str(path), f"{path.parent}/"))
            raise InputError(text if is_named else f"{path}: {text}") from None
    if issues:
        is_unknown = any(issue.kind == "unknown class" for issue in issues)
        raise LabelFileError(issues, _LEARN_SOME if is_unknown and options.classes else "")
    table = merge(read, options.contradictions)
    if any(ways):
        how = f"their images are named relative to {root} (with --images, to that folder)"
        note = f"the files are in different folders: {how}"
        table = table.with_notes((*table.notes, note))
    return complete_single_labels(table, named(paths)) if options.single_label else table


# writing


def write_labels(table: LabelTable, path: str | Path, format: str | None = None) -> list[str]:
    """Write a label file; returns notes on what the format could not keep."""
    path = Path(path)
    write = find_writer(path, format).write
    assert write is not None
    problems = [(f"class {name!r}", class_problem(name)) for name in table.classes]
    spaced = (name for name in table.classes if name != name.strip())
    problems += [(f"class {name!r}", "begins or ends with a space") for name in spaced]
    problems += [(f"image {name!r}", name_problem(name)) for name in table.images]
    others = (name for name in table.images if plain_name(name) != name)
    problems += [(f"image {name!r}", f"another name of {plain_name(name)!r}") for name in others]
    for what, problem in problems:
        if problem is not None:
            raise InputError(f"{path}: nothing is written: {what}: {problem}")
    with friendly_os_errors(path):
        return write(table, path)
