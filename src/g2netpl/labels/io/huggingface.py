"""Hugging Face data sets, with the pictures inside: a folder that `datasets` saved, or Parquet.

The library `datasets` reads them (the extra `hub`). Labels are in the column `labels`,
`label` or `tags`, or in the only column of classes: a class or a list of them (ClassLabel), a text
or a list of texts; if there is no such column, every column of numbers is a class: 1, 0 or nothing.
`absent` may name what is known to be absent.

Pictures stay in the file, or `g2netpl convert` unpacks them. If there are paths and no bytes, they
are names below the image folder, as in any other label file.
"""

import glob
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from g2netpl.labels.io.columns import GROUP, TAG_HEADERS
from g2netpl.labels.io.frames import PARQUET_ENDINGS, sheet_of_frame
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import ReadOptions, in_class_order
from g2netpl.labels.io.tables import read_sheet
from g2netpl.labels.io.text import read_json
from g2netpl.labels.names import normalize_name, plain_name
from g2netpl.labels.paths import SUFFIXES, ending_of
from g2netpl.labels.table import LabelTable
from g2netpl.utils.arrays import first_line
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.files import atomic_write

_STATE, _SPLITS = "state.json", "dataset_dict.json"  # of what `datasets` saved
_SHARD = re.compile(r"(.+)-(\d+)-of-(\d+)\.parquet")
_UNFIT = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]+')  # in the name of a file, on some system
_LONGEST = 150  # bytes of a name


def can_read(path: Path) -> bool:
    """A folder that `datasets` saved, and Parquet with a column of pictures."""
    if any((path / name).is_file() for name in (_STATE, _SPLITS)):
        return True
    files = _parquet_files(path) if path.is_dir() else [path]
    if not files or files[0].suffix.lower() not in PARQUET_ENDINGS:
        return False
    try:
        from pyarrow.parquet import read_schema

        return any(map(_is_picture, read_schema(files[0]).types))
    except Exception:  # not installed, or a damaged file, which the reader of Parquet reports
        return False


def image_folder(path: Path) -> Path:
    """The folder of pictures that are not inside; else the data set itself."""
    return path if path.is_dir() or DataSet(path).is_packed else path.parent


def read(path: Path, options: ReadOptions) -> LabelTable:
    """Read any shape; issues name the row, from 0, over all its files."""
    data = DataSet(path)
    others = [name for name in data.columns if name != data.image]
    frame = data.table.select(others).to_pandas(ignore_metadata=True)
    for name in others:
        names = data.names(name)
        if names is not None:
            frame[name] = [
                data.class_names(cell, names, name, row) for row, cell in enumerate(frame[name])
            ]
    data.issues.raise_any()
    frame.insert(0, data.image, data.images())
    options = replace(options, image_column=data.image, tags_column=data.labels)
    known = None
    if data.labels is None:
        ignored = (*options.ignore_columns, *data.other_columns(options))
        options = replace(options, ignore_columns=ignored)
    else:
        known = data.names(data.labels)
    wanted = options if known is None else replace(options, classes=known)
    table = read_sheet(sheet_of_frame(frame, path, data.issues), wanted, data.images())
    return in_class_order(table, options, str(path))


def unpack(path: Path, table: LabelTable, folder: Path, overwrite: bool = False) -> LabelTable:
    """Write the pictures that are inside into a folder; gives the table with the names there.

    A picture that is in the folder already is kept, so that unpacking can be resumed; another file
    of the same name is not replaced without `overwrite`. A row without a picture is left out.
    """
    data = DataSet(path)
    if not data.is_packed:
        note = "the file has paths and no pictures, which stay in place"
        return table.with_notes((*table.notes, note))
    folder.mkdir(parents=True, exist_ok=True)
    names: dict[str, str] = {}
    for row, name in enumerate(data.images()):
        content = data.picture(row)
        if content is not None:
            names[name] = name if name.lower().endswith(SUFFIXES) else name + ending_of(content)
            _write_picture(folder / names[name], content, overwrite)
    rows = [row for row, name in enumerate(table.images) if name in names]
    kept, lost = table.take(rows), len(table) - len(rows)
    notes = [f"{counted(lost, 'row')} without a picture left out"] if lost else []
    kept = kept.with_images([names[name] for name in kept.images])
    return kept.with_notes((*table.notes, *notes))


class DataSet:
    """A data set, and which of its columns are what."""

    def __init__(self, path: Path) -> None:
        self.path, self.issues = path, Issues()
        self._data = _opened(path, self.issues)
        self.table, self.columns = self._data.data.table, self._data.column_names
        pictures = [field.name for field in self.table.schema if _is_picture(field.type)]
        usual = [name for name in pictures if name.lower() == "image"] or pictures
        if len(usual) != 1:
            got = ", ".join(usual[:5] or self.columns[:10])
            self._stop(f"expected one column of pictures (a struct of bytes and path), got {got}")
        self.image = usual[0]
        found = [name for name in self.columns if name.lower() in TAG_HEADERS]
        found = found or [name for name in self.columns if self.names(name) is not None]
        if len(found) > 1:
            which = ", ".join(found[:5])
            self._stop(
                f"expected one column of labels, got {which}; call it 'labels', or drop others"
            )
        self.labels = found[0] if found else None  # None: every class has a column

    @cached_property
    def is_packed(self) -> bool:
        """Whether any picture is inside."""
        return bool(self._pictures.null_count < len(self.table))

    @cached_property
    def _pictures(self) -> Any:
        return self._part("bytes")

    def images(self) -> list[str]:
        """A name for each row: its path, or one for a file if pictures are inside."""
        paths = self._part("path").to_pylist()
        return _file_names(paths) if self.is_packed else [plain_name(each or "") for each in paths]

    def picture(self, row: int) -> bytes | None:
        """What is inside a row."""
        content: bytes | None = self._pictures[row].as_py()
        return content

    def names(self, column: str) -> tuple[str, ...] | None:
        """The names of the numbers in a column; None if it has none."""
        feature = self._data.features[column]
        feature = feature[0] if isinstance(feature, list) else feature
        names = getattr(getattr(feature, "feature", feature), "names", None)
        return None if names is None else tuple(map(normalize_name, names))

    def class_names(self, cell: Any, names: tuple[str, ...], column: str, row: int) -> list[str]:
        """The classes of one cell: numbers, of which −1 is none."""
        cells = cell if hasattr(cell, "__len__") else [cell]
        numbers = [int(each) for each in cells if not pd.isna(each)]
        for number in numbers:
            if not -1 <= number < len(names):
                where = f"{self.path}: row {row}"
                message = f"column {column!r}: expected a class below {len(names)}, got {number}"
                self.issues.add(where, "cell", message, column)
        return [names[number] for number in numbers if 0 <= number < len(names)]

    def other_columns(self, options: ReadOptions) -> list[str]:
        """What is no class if every class has a column of numbers, all or the listed ones."""
        from pyarrow import types

        wanted = self.columns if options.classes is None else options.classes
        is_number = types.is_integer, types.is_floating, types.is_boolean
        classes = [
            field.name
            for field in self.table.schema
            if any(check(field.type) for check in is_number)
            and field.name in wanted
            and field.name.lower() != GROUP
        ]
        if not classes:
            got = self.columns[:10]
            self._stop(f"expected a column 'labels', or one of 1 and 0 per class, got {got}")
        kept = (self.image, *classes)
        return [name for name in self.columns if name not in kept and name.lower() != GROUP]

    def _part(self, name: str) -> Any:
        from pyarrow.compute import struct_field

        return struct_field(self.table.column(self.image), name)

    def _stop(self, message: str) -> NoReturn:
        self.issues.stop(str(self.path), "columns", message)


def _opened(path: Path, issues: Issues) -> Any:
    """What `datasets` makes of a path."""
    try:
        import datasets
    except ImportError:
        raise InputError(
            "data sets of Hugging Face need datasets: pip install 'g2netpl[hub]'"
        ) from None
    datasets.disable_progress_bars()
    try:
        if (path / _SPLITS).is_file():
            splits = read_json(path / _SPLITS, issues)["splits"]
            named = ", ".join(str(path / each) for each in splits)
            issues.stop(str(path), "splits", f"expected one of its splits: {named[:500]}")
        if (path / _STATE).is_file():
            for file in read_json(path / _STATE, issues)["_data_files"]:
                if os.path.basename(file["filename"]) != file["filename"]:
                    message = f"leads out of the folder: {file['filename']!r:.60}"
                    issues.stop(str(path / _STATE), "files", message)
            data = datasets.load_from_disk(str(path))
        else:
            data = datasets.Dataset.from_parquet([str(each) for each in _files(path)])
        data.data.table.validate(full=True)
        return data
    except InputError:
        raise
    except Exception as problem:  # a damaged file can say anything
        message = f"not a data set that datasets can read ({first_line(problem)})"
        issues.stop(str(path), "data set", message)


def _files(path: Path) -> list[Path]:
    """The Parquet files of a data set, in order."""
    if path.is_file():
        return _shards(path)
    families = {_shards(file)[0]: _shards(file) for file in _parquet_files(path)}
    if len(families) != 1:
        named = ", ".join(file.name for file in families)
        raise InputError(f"{path}: expected one data set, got {named[:500]}; name one")
    return next(iter(families.values()))


def _shards(path: Path) -> list[Path]:
    """The file, or all files of which it is one."""
    match = _SHARD.fullmatch(path.name)
    if match is None:
        return [path]
    stem, _, number = match.groups()
    found = sorted(path.parent.glob(f"{glob.escape(stem)}-*-of-{number}.parquet"))
    if len(found) != int(number):
        raise InputError(f"{path}: expected {int(number)} shards of {stem}, got {len(found)}")
    return found


def _parquet_files(folder: Path) -> list[Path]:
    """Those in a folder; metadata.parquet describes the pictures next to it."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    kept = (each for each in files if each.is_file() and each.name != "metadata.parquet")
    return [each for each in kept if each.suffix.lower() in PARQUET_ENDINGS]


def _is_picture(kind: Any) -> bool:
    """Whether a column of a type holds pictures: a struct of bytes and path."""
    from pyarrow import types

    return types.is_struct(kind) and {field.name for field in kind} == {"bytes", "path"}


def _file_names(paths: Iterable[str | None]) -> list[str]:
    """A name for each picture, from its path or else its row; no two have a stem in common.

    An ending that shows its format may be added, and no system that takes cat.jpg and CAT.JPG as
    one confuses them.
    """
    names, taken = [], set()
    for row, path in enumerate(paths):
        last = _UNFIT.sub("_", re.split(r"[/\\]", path or "")[-1]).strip(". ")
        stem, ending = os.path.splitext(normalize_name(last))
        if ending.lower() not in SUFFIXES:
            stem, ending = normalize_name(last), ""
        stem = stem.encode()[:_LONGEST].decode(errors="ignore").strip(". ") or f"{row:06}"
        free = chain([stem], (f"{stem}-{number}" for number in count(row)))
        stem = next(each for each in free if each.casefold() not in taken)
        taken.add(stem.casefold())
        names.append(stem + ending)
    return names


def _write_picture(path: Path, content: bytes, overwrite: bool) -> None:
    if os.path.lexists(path) and not overwrite:
        if not path.is_symlink() and path.is_file() and path.read_bytes() == content:
            return
        raise InputError(
            f"{path}: another file is there; choose another folder, or give --overwrite"
        )
    with atomic_write(path) as file:
        file.write(content)
