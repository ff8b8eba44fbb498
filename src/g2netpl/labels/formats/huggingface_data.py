"""The files of a Hugging Face data set, and which of their columns are what.

A folder that `datasets` saved (save_to_disk) names its Arrow files in state.json; a folder of
Parquet holds one data set, perhaps in shards, of which any one names them all. What the numbers of
a class stand for is in the features that `datasets` writes into the file, or beside it.
"""

import glob
import os
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any, NoReturn

from g2netpl.base.errors import InputError
from g2netpl.labels.formats.column_files import (
    ArrowFile,
    Column,
    ColumnFile,
    ParquetFile,
    is_number,
)
from g2netpl.labels.formats.columns import GROUP, TAG_HEADERS
from g2netpl.labels.formats.json_file import parse_json, read_json
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.reading import Reading, checked_names
from g2netpl.labels.paths import SUFFIXES
from g2netpl.labels.spelling import composed
from g2netpl.labels.table import plain_name

ENDINGS = (".parquet", ".pq")
_SHARD = re.compile(r"(.+)-(\d+)-of-(\d+)\.parquet")
_UNFIT = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]+')  # in the name of a file, on some system
_LONGEST = 150  # bytes of a name


class DataSet:
    """The files of a data set, and which of their columns are what."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self.path, self.problems = path, problems
        self.files = [open_columns(each, problems) for each in _files(path, problems)]
        first = self.files[0]
        for other in self.files[1:]:
            if other.kinds != first.kinds:
                self._stop(f"{other.path.name} has other columns than {first.path.name}")
        self.kinds, self.features = first.kinds, _features(first, problems)
        self.image = self._only(first.pictures)
        self.labels = self._labels()

    @cached_property
    def is_packed(self) -> bool:
        """Whether any picture is inside."""
        return any(content is not None for content in self.pictures())

    def images(self) -> list[str]:
        """A name for each row: its path, or one for a file where pictures are inside."""
        column: Column = (self.image, "path")
        paths = (cell for file in self.files for (cell,) in file.texts([column]))
        return _file_names(paths) if self.is_packed else [plain_name(each or "") for each in paths]

    def pictures(self) -> Iterator[bytes | None]:
        """What is inside, row after row."""
        return chain.from_iterable(file.contents((self.image, "bytes")) for file in self.files)

    def names(self, column: str) -> tuple[str, ...] | None:
        """The names that the numbers of a column stand for; None where it has none."""
        feature = self.features.get(column)
        while isinstance(feature, dict) and "feature" in feature:
            feature = feature["feature"]
        if isinstance(feature, list) and len(feature) == 1:
            feature = feature[0]
        names = feature.get("names") if isinstance(feature, dict) else None
        if names is None:
            return None
        return checked_names(names, lambda what: self._stop(f"column {column!r}: {what}"))

    def other_columns(self, reading: Reading) -> list[str]:
        """What is no class where every class has a column of numbers, all or those told."""
        wanted = {*self.kinds} if reading.classes is None else {*reading.classes}
        kinds = {name: kind for name, kind in self.kinds.items() if name.lower() != GROUP}
        classes = [name for name, kind in kinds.items() if is_number(kind) and name in wanted]
        if not classes:
            got = [*self.kinds][:10]
            self._stop(f"expected a column 'labels', or one of 1 and 0 per class, got {got}")
        return [name for name in kinds if name not in (self.image, *classes)]

    def _labels(self) -> str | None:
        """The column of labels; None where every class has one of its own."""
        found = [name for name in self.kinds if name.lower() in TAG_HEADERS]
        found = found or [name for name in self.kinds if self.names(name) is not None]
        if len(found) > 1:
            which = ", ".join(found[:5])
            self._stop(
                f"expected one column of labels, got {which}; call it 'labels', or drop others"
            )
        return found[0] if found else None

    def _only(self, found: list[str]) -> str:
        usual = [name for name in found if name.lower() == "image"] or found
        if len(usual) != 1:
            got = ", ".join(usual[:5] or [*self.kinds][:10])
            self._stop(f"expected one column of pictures (a struct of bytes and path), got {got}")
        return usual[0]

    def _stop(self, what: str) -> NoReturn:
        self.problems.stop(str(self.path), "columns", what)


def _files(path: Path, problems: Problems) -> list[Path]:
    """The files of a data set, in order."""
    if path.is_file():
        return _shards(path)
    if (path / "dataset_dict.json").is_file():
        about = read_json(path / "dataset_dict.json", problems)
        splits = about.get("splits") if isinstance(about, dict) else None
        named = ", ".join(str(path / str(each)) for each in splits or ())
        problems.stop(str(path), "splits", f"expected one of its splits: {named[:500]}")
    if (path / "state.json").is_file():
        return _saved_files(path, problems)
    families = {_shards(file)[0]: _shards(file) for file in parquet_files(path)}
    if len(families) != 1:
        named = ", ".join(file.name for file in families)
        problems.stop(str(path), "files", f"expected one data set, got {named[:500]}; name one")
    return next(iter(families.values()))


def _saved_files(path: Path, problems: Problems) -> list[Path]:
    """The files that the state of a saved data set names."""
    where = path / "state.json"
    state = read_json(where, problems)
    files = state.get("_data_files") if isinstance(state, dict) else None
    names = [each.get("filename") if isinstance(each, dict) else None for each in files or ()]
    for name in names:
        plain = isinstance(name, str) and name == os.path.basename(name) and "\0" not in name
        if not plain or not str(name).endswith(".arrow"):
            problems.stop(str(where), "files", f"expected names ending in .arrow, got {name!r:.60}")
    if not names or state.get("_indices_data_files"):
        problems.stop(str(where), "files", "expected a data set saved by datasets' save_to_disk")
    return [path / str(name) for name in names]


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


def parquet_files(folder: Path) -> list[Path]:
    """Those in a folder; metadata.parquet speaks for the pictures beside it."""
    files = sorted(each for each in folder.iterdir() if each.suffix.lower() in ENDINGS)
    return [each for each in files if each.is_file() and each.name != "metadata.parquet"]


def open_columns(path: Path, problems: Problems) -> ColumnFile:
    """A file of a data set."""
    return (ArrowFile if path.suffix == ".arrow" else ParquetFile)(path, problems)


def _features(file: ColumnFile, problems: Problems) -> dict[str, Any]:
    """What `datasets` wrote about the columns, into the file or beside it."""
    text = (file.schema.metadata or {}).get(b"huggingface")
    beside = file.path.with_name("dataset_info.json")
    about: Any = None
    if text is not None:
        where = f"{file.path}: its features"
        about = parse_json(text.decode(errors="replace"), where, problems)
        about = about.get("info") if isinstance(about, dict) else None
    elif beside.is_file():
        about = read_json(beside, problems)
    features = about.get("features") if isinstance(about, dict) else None
    return features if isinstance(features, dict) else {}


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
