"""Hugging Face data sets, with the pictures inside: a folder that `datasets` saved, or Parquet.

The library `datasets` reads them (the extra of that name). Labels are in the column `labels`,
`label` or `tags`, or in the only column of classes: a class or a list of them (ClassLabel), a text
or a list of texts; if there is no such column, every column of numbers is a class: 1, 0 or nothing.
`absent` may name what is known not to be there.

Pictures are read where they are, or unpacked by `g2netpl convert`. If there are paths and no bytes,
they are names below the image folder, as in any other label file.
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

from g2netpl.base.arrays import in_short
from g2netpl.base.errors import InputError, Refused, counted
from g2netpl.base.files import atomic_write
from g2netpl.labels.formats import parquet
from g2netpl.labels.formats.columns import GROUP, TAG_HEADERS
from g2netpl.labels.formats.json_file import read_json
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.reading import Reading, in_class_order
from g2netpl.labels.paths import SUFFIXES, ending_of
from g2netpl.labels.spelling import composed
from g2netpl.labels.table import LabelTable, plain_name

_STATE, _SPLITS = "state.json", "dataset_dict.json"  # of what `datasets` saved
_SHARD = re.compile(r"(.+)-(\d+)-of-(\d+)\.parquet")
_UNFIT = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]+')  # in the name of a file, on some system
_LONGEST = 150  # bytes of a name


def recognises(path: Path) -> bool:
    """A folder that `datasets` saved, and Parquet with a column of pictures."""
    if any((path / name).is_file() for name in (_STATE, _SPLITS)):
        return True
    files = _parquet_files(path) if path.is_dir() else [path]
    return bool(files) and parquet.recognises(files[0]) and _has_pictures(files[0])


def image_folder(path: Path) -> Path:
    """The folder of pictures that are not inside; else the data set itself."""
    return path if path.is_dir() or DataSet(path).is_packed else path.parent


def names_classes(path: Path, reading: Reading) -> bool:
    """Texts do not, the names of a ClassLabel and columns do."""
    data = DataSet(path)
    return data.labels is None or data.names(data.labels) is not None


def read(path: Path, reading: Reading) -> LabelTable:
    """Read any shape; mistakes are named by row, from 0, over all its files."""
    data = DataSet(path)
    told = replace(reading, image_column=data.image, tags_column=data.labels)
    names = {name: data.names(name) for name in data.columns}
    if data.labels is None:
        others = data.other_columns(reading)
        told = replace(told, ignore_columns=(*reading.ignore_columns, *others))
        return parquet.read_columns(path, data.table, told, data.problems, data.images())
    known = names[data.labels]
    if known is not None:
        told = replace(told, classes=known)
    table = parquet.read_columns(path, data.table, told, data.problems, data.images(), names)
    return table if known is None else in_class_order(table, reading, str(path))


def unpack(path: Path, table: LabelTable, folder: Path, overwrite: bool = False) -> LabelTable:
    """Write the pictures that are inside into a folder; gives the table with the names there.

    A picture that is in the folder already is kept, so that unpacking can be resumed; another file
    of the same name is not replaced without `overwrite`. A row without a picture is left out.
    """
    data = DataSet(path)
    if not data.is_packed:
        note = "the file has paths and no pictures, which stay where they are"
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
        self.path, self.problems = path, Problems()
        self._data = _opened(path, self.problems)
        self.table, self.columns = self._data.data.table, self._data.column_names
        pictures = [field.name for field in self.table.schema if _is_picture(field.type)]
        usual = [name for name in pictures if name.lower() == "image"] or pictures
        if len(usual) != 1:
            got = ", ".join(usual[:5] or self.columns[:10])
            self._stop(f"expected one column of pictures (a struct of bytes and path), got {got}")
        self.image = usual[0]
        self.labels = self._labels()

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

    def sizes(self) -> list[int | None]:
        """The bytes of the picture in each row; None in rows without one."""
        from pyarrow.compute import binary_length

        sizes: list[int | None] = binary_length(self._pictures).to_pylist()
        return sizes

    def picture(self, row: int) -> bytes | None:
        """What is inside a row."""
        content: bytes | None = self._pictures[row].as_py()
        return content

    def names(self, column: str) -> tuple[str, ...] | None:
        """The names that the numbers of a column stand for; None if it has none."""
        feature = self._data.features[column]
        feature = feature[0] if isinstance(feature, list) else feature
        names = getattr(getattr(feature, "feature", feature), "names", None)
        return None if names is None else tuple(names)

    def other_columns(self, reading: Reading) -> list[str]:
        """What is no class if every class has a column of numbers, all or those told."""
        wanted = self.columns if reading.classes is None else reading.classes
        numbers = [each.name for each in self.table.schema if parquet.is_number(each.type)]
        classes = [name for name in numbers if name in wanted and name.lower() != GROUP]
        if not classes:
            got = self.columns[:10]
            self._stop(f"expected a column 'labels', or one of 1 and 0 per class, got {got}")
        kept = (self.image, *classes)
        return [name for name in self.columns if name not in kept and name.lower() != GROUP]

    def _labels(self) -> str | None:
        """The column of labels; None if every class has one of its own."""
        found = [name for name in self.columns if name.lower() in TAG_HEADERS]
        found = found or [name for name in self.columns if self.names(name) is not None]
        if len(found) > 1:
            which = ", ".join(found[:5])
            self._stop(
                f"expected one column of labels, got {which}; call it 'labels', or drop others"
            )
        return found[0] if found else None

    def _part(self, name: str) -> Any:
        from pyarrow.compute import struct_field

        return struct_field(self.table.column(self.image), name)

    def _stop(self, what: str) -> NoReturn:
        self.problems.stop(str(self.path), "columns", what)


def _opened(path: Path, problems: Problems) -> Any:
    """What `datasets` makes of a path."""
    try:
        import datasets
    except ImportError:
        raise InputError(
            "data sets of Hugging Face need datasets: pip install 'g2netpl[datasets]'"
        ) from None
    datasets.disable_progress_bars()
    try:
        if (path / _SPLITS).is_file():
            splits = read_json(path / _SPLITS, problems)["splits"]
            named = ", ".join(str(path / each) for each in splits)
            problems.stop(str(path), "splits", f"expected one of its splits: {named[:500]}")
        if (path / _STATE).is_file():
            for file in read_json(path / _STATE, problems)["_data_files"]:
                if os.path.basename(file["filename"]) != file["filename"]:
                    what = f"leads out of the folder: {file['filename']!r:.60}"
                    problems.stop(str(path / _STATE), "files", what)
            data = datasets.load_from_disk(str(path))
        else:
            data = datasets.Dataset.from_parquet([str(each) for each in _files(path)])
        data.data.table.validate(full=True)
        return data
    except InputError:
        raise
    except Exception as problem:  # a damaged file can say anything
        what = f"not a data set that datasets can read ({in_short(problem)})"
        problems.stop(str(path), "data set", what)


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
    """Those in a folder; metadata.parquet speaks for the pictures beside it."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return [each for each in files if parquet.recognises(each) and each.name != "metadata.parquet"]


def _has_pictures(path: Path) -> bool:
    try:
        kinds = parquet.pyarrow()[1].read_schema(path).types
    except Exception:  # not installed, or a damaged file, which the reader of Parquet tells
        return False
    return any(map(_is_picture, kinds))


def _is_picture(kind: Any) -> bool:
    """Whether a column of a type holds pictures: a struct of bytes and path."""
    is_struct = parquet.pyarrow()[0].types.is_struct(kind)
    return is_struct and {field.name for field in kind} == {"bytes", "path"}


def _file_names(paths: Iterable[str | None]) -> list[str]:
    """A name for each picture, from its path or else its row; no two have a stem in common.

    An ending that shows what it is may follow, and no system that takes cat.jpg and CAT.JPG as one
    mixes them up.
    """
    names, taken = [], set()
    for row, path in enumerate(paths):
        last = _UNFIT.sub("_", re.split(r"[/\\]", path or "")[-1]).strip(". ")
        stem, ending = os.path.splitext(last)
        if ending.lower() not in SUFFIXES:
            stem, ending = last, ""
        stem = stem.encode()[:_LONGEST].decode(errors="ignore").strip(". ") or f"{row:06}"
        free = chain([stem], (f"{stem}-{number}" for number in count(row)))
        stem = next(each for each in free if composed(each).casefold() not in taken)
        taken.add(composed(stem).casefold())
        names.append(stem + ending)
    return names


def _write_picture(path: Path, content: bytes, overwrite: bool) -> None:
    if os.path.lexists(path) and not overwrite:
        if not path.is_symlink() and path.is_file() and path.read_bytes() == content:
            return
        raise Refused(f"{path}: another file is there; choose another folder, or give --overwrite")
    with atomic_write(path) as file:
        file.write(content)
