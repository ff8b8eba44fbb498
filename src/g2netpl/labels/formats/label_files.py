"""Label files of any format: read, several as one, held against others, and written."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from g2netpl.base.disk import cannot_write, opening, writing
from g2netpl.base.errors import InputError
from g2netpl.labels.fetching import at_hand
from g2netpl.labels.files import each_file, named
from g2netpl.labels.formats import imagefolder
from g2netpl.labels.formats.aliases import renamed, unused_note, with_aliases
from g2netpl.labels.formats.catalogue import (
    FORMATS,
    Paths,
    find_format,
    find_writer,
    image_folders,
)
from g2netpl.labels.formats.layouts import refuse_layout, refuse_odd_classes, tags_hint
from g2netpl.labels.formats.merging import below, merge
from g2netpl.labels.formats.one_of import by_one
from g2netpl.labels.formats.problems import LabelFileError, Problem, called
from g2netpl.labels.formats.reading import (
    Reading,
    check_looks,
    class_problem,
    in_class_order,
    places,
)
from g2netpl.labels.table import LabelTable, name_problem, plain_name

USUAL = Reading()
_LEARN_SOME = (
    "--classes must list all that there are; to learn some alone, leave out the columns of the "
    "others with --ignore-columns (g2netpl convert writes a CSV file with a column per class)"
)


def read_labels(files: Paths, format: str | None = None, reading: Reading = USUAL) -> LabelTable:
    """Read a label file of any known format; `format` overrides what the file looks like.

    Several files become one table, of all images and classes that any of them has.
    """
    try:
        return _read_all(files, format, reading)
    except LabelFileError as mistake:
        told = reading.classes is not None and not mistake.hint
        if not told or all(each.kind != "unknown class" for each in mistake.problems):
            raise
        raise LabelFileError(mistake.problems, _LEARN_SOME) from None


def _read_all(files: Paths, format: str | None, reading: Reading) -> LabelTable:
    paths = each_file(files)
    if not paths:
        raise InputError("expected a label file, or several, got none")
    if len(paths) == 1 and not reading.aliases:
        table = _read_one(paths[0], format, reading)
    else:
        table = _read_joined(paths, format, reading)
    return by_one(table, named(paths)) if reading.one_of else table


def _check_there(path: Path) -> None:
    with opening(path):
        if not path.exists():
            raise InputError(f"{path}: no such label file")
        if not path.is_dir() and not path.is_file():  # a pipe would keep us waiting
            raise InputError(f"{path}: not a regular file")


def _read_one(file: str, format: str | None, reading: Reading) -> LabelTable:
    path = at_hand(file)
    with called(path, file):
        return _read_path(path, format, reading)


def _read_path(path: Path, format: str | None, reading: Reading) -> LabelTable:
    _check_there(path)
    row = find_format(path, format)
    folder = format is None and path.is_dir() and row is not FORMATS["huggingface"]
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
        _check_there(at_hand(path))
    root, ways = (None, [""] * len(paths)) if reading.one_folder else image_folders(paths, format)
    aliases = reading.aliases or {}
    # of several files each has its own classes, and none but these can be absent
    known = None if len(paths) > 1 else with_aliases(reading.classes, aliases)
    tables: dict[str, LabelTable] = {}
    names: list[str] = []
    problems: list[Problem] = []
    for path, way in zip(paths, ways, strict=True):
        try:
            table = _read_one(path, format, replace(reading, classes=known))
            names += table.classes
            tables[path] = below(in_class_order(renamed(table, aliases), reading, path), way)
        except LabelFileError as mistake:
            problems += mistake.problems
    if problems:
        raise LabelFileError(problems)
    notes = unused_note(aliases, names)
    if any(ways):
        where = f"their images are named below {root} (--images: all names are below that folder)"
        notes.append(f"the files lie in different folders: {where}")
    table = merge(tables, reading.contradictions)
    return table.with_notes((*table.notes, *notes))


def read_matching(
    files: Paths, table: LabelTable, format: str | None = None, reading: Reading = USUAL
) -> LabelTable:
    """More label files, which must know the same classes; their columns are put in order."""
    paths = [at_hand(file) for file in each_file(files)]
    nameless = [
        path.exists() and not find_format(path, format).names_classes(path, reading)
        for path in paths
    ]
    if any(nameless):
        return _read_all(files, format, replace(reading, classes=table.classes))
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


def write_labels(table: LabelTable, path: str | Path, format: str | None = None) -> list[str]:
    """Write a label file; returns notes on what the format could not keep."""
    path = Path(path)
    write = find_writer(path, format).write
    assert write is not None
    for name in table.classes:
        problem = class_problem(name)
        if problem is not None:
            raise InputError(f"{path}: nothing is written: {problem}")
    for name in table.images:
        problem = name_problem(name)
        if problem is None and plain_name(name) != name:
            problem = f"another name of {plain_name(name)!r}"
        if problem is not None:
            raise InputError(f"{path}: nothing is written: image {name!r}: {problem}")
    try:
        return write(table, path)
    except OSError as problem:
        raise cannot_write(path, problem) from None


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
    source, target = at_hand(source), Path(target)
    unpacked = find_format(source, format).unpack
    if unpacked is None:
        return table
    if find_writer(target, to) is not FORMATS["imagefolder"]:
        note = "the pictures stay where they are; name a folder to unpack them to"
        return table.with_notes((*table.notes, note))
    with writing(target):
        return unpacked(source, table, imagefolder.metadata_file(target).parent, overwrite)
