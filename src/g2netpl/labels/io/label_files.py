"""Label files of any format: read, several as one, matched with others, and written."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from g2netpl.labels.files import each_file, ensure_local, named
from g2netpl.labels.io import folders, tables
from g2netpl.labels.io.issues import Issue, LabelFileError
from g2netpl.labels.io.merging import merge
from g2netpl.labels.io.options import (
    ReadOptions,
    class_problem,
    in_class_order,
    renamed,
    unused_note,
    with_aliases,
)
from g2netpl.labels.io.registry import (
    FORMATS,
    Paths,
    find_format,
    find_writer,
    folder_of,
    image_folders,
)
from g2netpl.labels.io.single_label import complete_single_labels
from g2netpl.labels.names import name_problem, plain_name
from g2netpl.labels.table import LabelTable, per_class
from g2netpl.utils.errors import InputError, listed
from g2netpl.utils.files import friendly_os_errors, writing

USUAL = ReadOptions()
_LEARN_SOME = (
    "--classes must list all that there are; to learn some of them, leave out the columns of the "
    "others with --ignore-columns (g2netpl convert writes a CSV file with a column per class)"
)


def read_labels(
    files: Paths | Any, format: str | None = None, options: ReadOptions = USUAL
) -> LabelTable:
    """Read a label file of any known format, or a data frame of pandas.

    `format` overrides what the file looks like. Several files become one table, of all images and
    classes that any of them has.
    """
    if hasattr(files, "iloc"):
        aliases = options.aliases or {}
        known = with_aliases(options.classes, aliases)
        table = tables.read_frame(files, replace(options, classes=known))
        table = in_class_order(renamed(table, aliases), options, "data frame")
        return complete_single_labels(table) if options.single_label else table
    try:
        return _read_all(files, format, options)
    except LabelFileError as error:
        is_unknown = any(each.kind == "unknown class" for each in error.issues)
        if options.classes is None or error.hint or not is_unknown:
            raise
        raise LabelFileError(error.issues, _LEARN_SOME) from None


def read_matching(
    files: Paths, table: LabelTable, format: str | None = None, options: ReadOptions = USUAL
) -> LabelTable:
    """More label files, with the classes of a table; those that they lack are unobserved."""
    other = _read_all(files, format, replace(options, classes=table.classes))
    counts = zip(table.classes, per_class(other.values).tolist(), strict=True)
    silent = [repr(name) for name, count in counts if not count]
    note = [f"no label of {listed(silent)}"] if silent and len(other) else []
    return other.with_notes((*other.notes, *note))


def _read_all(files: Paths, format: str | None, options: ReadOptions) -> LabelTable:
    paths = each_file(files)
    if not paths:
        raise InputError("expected a label file, or several, got none")
    if len(paths) == 1 and not options.aliases:
        table = _read_one(paths[0], format, options)
    else:
        table = _read_joined(paths, format, options)
    return complete_single_labels(table, named(paths)) if options.single_label else table


def _check_there(path: Path) -> None:
    with friendly_os_errors(path):
        if not path.exists():
            raise InputError(f"{path}: no such label file")
        if not path.is_dir() and not path.is_file():  # a pipe would keep us waiting
            raise InputError(f"{path}: not a regular file")


def _read_one(file: str, format: str | None, options: ReadOptions) -> LabelTable:
    path = ensure_local(file)
    _check_there(path)
    row = find_format(path, format)
    try:
        return row.read(path, options)
    except LabelFileError:
        raise
    except InputError as problem:  # name the file once
        text = str(problem)
        says_where = text.startswith((f"{path}:", f"{folder_of(path)}/", f"{path.parent}/"))
        raise InputError(text if says_where else f"{path}: {text}") from None


def _read_joined(paths: Sequence[str], format: str | None, options: ReadOptions) -> LabelTable:
    """The files as one table, with one name for every class; the issues of all are reported."""
    for path in paths:
        _check_there(ensure_local(path))
    root, ways = (None, [""] * len(paths)) if options.one_folder else image_folders(paths, format)
    aliases = options.aliases or {}
    # of several files each has its own classes, and no others can be absent
    known = None if len(paths) > 1 else with_aliases(options.classes, aliases)
    read: dict[str, LabelTable] = {}
    names: list[str] = []
    issues: list[Issue] = []
    for path, way in zip(paths, ways, strict=True):
        try:
            table = _read_one(path, format, replace(options, classes=known))
            names += table.classes
            table = in_class_order(renamed(table, aliases), options, path)
            read[path] = table.with_images([f"{way}{name}" for name in table.images])
        except LabelFileError as error:
            issues += error.issues
    if issues:
        raise LabelFileError(issues)
    notes = unused_note(aliases, names)
    if any(ways):
        how = f"their images are named below {root} (--images: all names are below that folder)"
        notes.append(f"the files are in different folders: {how}")
    table = merge(read, options.contradictions)
    return table.with_notes((*table.notes, *notes))


def write_labels(table: LabelTable, path: str | Path, format: str | None = None) -> list[str]:
    """Write a label file; returns notes on what the format could not keep."""
    path = Path(path)
    write = find_writer(path, format).write
    assert write is not None
    problems = [(f"class {name!r}", class_problem(name)) for name in table.classes]
    for name in table.images:
        problem = name_problem(name)
        if problem is None and plain_name(name) != name:
            problem = f"another name of {plain_name(name)!r}"
        problems.append((f"image {name!r}", problem))
    for what, problem in problems:
        if problem is not None:
            raise InputError(f"{path}: nothing is written: {what}: {problem}")
    with friendly_os_errors(path):
        return write(table, path)


def unpack(
    table: LabelTable,
    source: str | Path,
    format: str | None,
    target: str | Path,
    to: str | None = None,
    overwrite: bool = False,
) -> LabelTable:
    """Write pictures that are inside a label file into a folder that is to be written.

    Returns the table with their names there; a target that is no folder gets the labels only.
    """
    source, target = ensure_local(source), Path(target)
    unpacked = find_format(source, format).unpack
    if unpacked is None:
        return table
    if find_writer(target, to) is not FORMATS["imagefolder"]:
        note = "the pictures stay in the file; name a folder to unpack them to"
        return table.with_notes((*table.notes, note))
    with writing(target):
        return unpacked(source, table, folders.metadata_file(target).parent, overwrite)
