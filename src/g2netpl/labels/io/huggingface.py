"""Hugging Face data sets, with the pictures inside: a folder that `datasets` saved, or Parquet.

The library `datasets` reads them (the extra `hub`). Labels are in the column `labels`,
`label` or `tags`, or in the only column of classes: a class or a list of them (ClassLabel), a text
or a list of texts; if there is no such column, every column of numbers is a class: 1, 0 or nothing.
`absent` may name what is known to be absent.

Pictures stay in the file, which is the default image folder. If there are paths and no bytes, they
are names below the image folder, as in any other label file.
"""

import os
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyarrow import types
from pyarrow.parquet import read_schema

from g2netpl.labels.io.columns import GROUP, TAG_HEADERS
from g2netpl.labels.io.frames import PARQUET_ENDINGS, sheet_of_frame
from g2netpl.labels.io.issues import Issues, read_json
from g2netpl.labels.io.options import ReadOptions
from g2netpl.labels.io.tables import read_sheet
from g2netpl.labels.names import normalize_name, plain_names
from g2netpl.labels.paths import SUFFIXES
from g2netpl.labels.table import LabelTable
from g2netpl.utils.arrays import first_line
from g2netpl.utils.errors import InputError

_STATE, _SPLITS = "state.json", "dataset_dict.json"  # of what `datasets` saved
_SHARD = re.compile(r"(.+)-\d+-of-(\d+)\.parquet")
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
        return any(map(_is_picture, read_schema(files[0]).types))
    except Exception:  # a damaged file, which the reader of Parquet reports
        return False


def image_folder(path: Path) -> Path:
    """The folder of pictures that are not inside; else the data set itself."""
    return path if path.is_dir() or DataSet(path).is_packed else path.parent


def read(path: Path, options: ReadOptions) -> LabelTable:
    """Read any shape; issues name the row, from 0, over all its files."""
    data = DataSet(path)
    known = data.class_names(data.labels) or options.classes
    sheet = sheet_of_frame(data.frame(options), path, data.issues)
    tags = () if data.labels is None else (data.labels,)
    changes = {"image_column": data.image, "tags_column": tags, "classes": known}
    return read_sheet(sheet, options.model_copy(update=changes))


class DataSet:
    """A data set, and which of its columns are what."""

    def __init__(self, path: Path) -> None:
        self.path, self.issues = path, Issues()
        try:
            self._data = _load(path)
            self._data.data.table.validate(full=True)
        except InputError:
            raise
        except Exception as problem:  # a damaged file can say anything
            message = f"{path}: not a data set that datasets can read ({first_line(problem)})"
            raise InputError(message) from None
        self._table = self._data.data.table
        columns = self._data.column_names
        pictures = [field.name for field in self._table.schema if _is_picture(field.type)]
        pictures = [name for name in pictures if name.lower() == "image"] or pictures
        labels = [name for name in columns if name.lower() in TAG_HEADERS]
        labels = labels or [name for name in columns if self.class_names(name)]
        if len(pictures) != 1 or len(labels) > 1:
            what = "one column of pictures (a struct of bytes and path), and one called 'labels'"
            raise InputError(f"{path}: expected {what}; got {', '.join(columns)[:200]}")
        self.image = pictures[0]
        self.labels = labels[0] if labels else None  # None: every class has a column

    @cached_property
    def _pictures(self) -> Any:
        """The column of pictures, as a table of `bytes` and `path`."""
        fields = [field.name for field in self._table.schema.field(self.image).type]
        return self._table.select([self.image]).flatten().rename_columns(fields)

    @cached_property
    def is_packed(self) -> bool:
        """Whether any picture is inside."""
        return bool(self._pictures["bytes"].null_count < len(self._table))

    def images(self) -> list[str]:
        """A name for each row: its path, or one for a file if pictures are inside."""
        paths = self._pictures["path"].to_pylist()
        return file_names(paths) if self.is_packed else plain_names(path or "" for path in paths)

    def picture(self, row: int) -> bytes | None:
        """What is inside a row."""
        content: bytes | None = self._pictures["bytes"][row].as_py()
        return content

    def class_names(self, column: str | None) -> tuple[str, ...] | None:
        """The names of the numbers in a column; None if it has none."""
        feature = self._data.features.get(column)
        feature = feature[0] if isinstance(feature, list) else feature
        names = getattr(getattr(feature, "feature", feature), "names", None)
        return None if names is None else tuple(map(normalize_name, names))

    def frame(self, options: ReadOptions) -> pd.DataFrame:
        """The names of the images and all labels, with texts in place of numbers of classes."""
        frame = self._table.drop_columns([self.image]).to_pandas(ignore_metadata=True)
        if self.labels is None:  # columns of numbers are classes, all or the listed ones
            wanted = options.classes or tuple(frame)
            is_number = (types.is_integer, types.is_floating, types.is_boolean)
            numbers = {f.name for f in self._table.schema if any(of(f.type) for of in is_number)}
            is_kept = [n.lower() == GROUP or (n in wanted and n in numbers) for n in frame]
            frame = frame.loc[:, is_kept]
        for name in frame:
            classes = self.class_names(name)
            if classes is not None:
                frame[name] = [self._texts(cell, classes) for cell in frame[name]]
        frame.insert(0, self.image, self.images())
        return frame

    def _texts(self, cell: Any, classes: tuple[str, ...]) -> list[str]:
        """The classes of one cell: numbers, of which −1 is none."""
        numbers = [int(number) for number in np.atleast_1d(cell) if not pd.isna(number)]
        if any(not -1 <= number < len(classes) for number in numbers):
            message = f"expected classes below {len(classes)}, got {max(numbers)}"
            self.issues.stop(str(self.path), "cell", message)
        return [classes[number] for number in numbers if number >= 0]


def _load(path: Path) -> Any:
    """What `datasets` makes of a path: a saved folder, or Parquet with all its shards."""
    try:
        import datasets
    except ImportError:
        needed = "data sets of Hugging Face need datasets: pip install 'g2netpl[hub]'"
        raise InputError(needed) from None
    datasets.disable_progress_bars()
    if (path / _SPLITS).is_file():
        splits = read_json(path / _SPLITS, Issues())["splits"]
        shown = ", ".join(str(path / split) for split in splits)
        raise InputError(f"{path}: expected one of its splits: {shown[:500]}")
    if (path / _STATE).is_file():
        for file in read_json(path / _STATE, Issues())["_data_files"]:
            if os.path.basename(file["filename"]) != file["filename"]:
                message = f"leads out of the folder: {file['filename']!r:.60}"
                raise InputError(f"{path / _STATE}: {message}")
        return datasets.load_from_disk(str(path))
    sets: dict[tuple[str, str], list[str]] = {}  # shards by the name and their number
    for file in _parquet_files(path if path.is_dir() else path.parent):
        sets.setdefault(_set_of(file), []).append(str(file))
    if not path.is_dir():
        sets = {_set_of(path): sets[_set_of(path)]}
    if len(sets) != 1:
        shown = ", ".join(sorted(stem for stem, _ in sets))
        raise InputError(f"{path}: expected one data set, got {shown[:500]}; name one")
    ((stem, count), shards) = sets.popitem()
    if len(shards) != int(count):
        raise InputError(f"{path}: expected {int(count)} shards of {stem}, got {len(shards)}")
    return datasets.Dataset.from_parquet(shards)


def _set_of(file: Path) -> tuple[str, str]:
    """The name of a data set and how many shards it has, by the name of one of its files."""
    match = _SHARD.fullmatch(file.name)
    return (match[1], match[2]) if match else (file.name, "1")


def _parquet_files(folder: Path) -> list[Path]:
    """Those in a folder; metadata.parquet describes the pictures next to it."""
    files = (file for file in sorted(folder.iterdir()) if file.name != "metadata.parquet")
    return [file for file in files if file.is_file() and file.suffix.lower() in PARQUET_ENDINGS]


def _is_picture(kind: Any) -> bool:
    """Whether a column of a type holds pictures: a struct of bytes and path."""
    return types.is_struct(kind) and {field.name for field in kind} == {"bytes", "path"}


def file_names(paths: Iterable[str | None]) -> list[str]:
    """A name for each picture, from its path or else its row; no two have a stem in common."""
    names, taken = [], set()
    for row, path in enumerate(paths):
        last = normalize_name(_UNFIT.sub("_", re.split(r"[/\\]", path or "")[-1]).strip(". "))
        stem, ending = os.path.splitext(last)
        if ending.lower() not in SUFFIXES:
            stem, ending = last, ""
        stem = stem.encode()[:_LONGEST].decode(errors="ignore").strip(". ") or f"{row:06}"
        while stem.casefold() in taken:  # of any ending and case, for every file system
            stem = f"{stem}-{row}"
        taken.add(stem.casefold())
        names.append(stem + ending)
    return names
