"""Images inside Parquet, and inside what Hugging Face's `datasets` saved: a row group at a time.

A row group, or a batch of Arrow, can only be read as a whole. The last ones stay in the memory of
each process, up to a bound, so that images are best read in the order of their groups.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

from g2netpl.base.errors import InputError
from g2netpl.base.inside import PathBelow, Unfit
from g2netpl.base.places import LARGEST, Place
from g2netpl.images.sources.catalogue import InShards
from g2netpl.images.sources.index import CHANGED, Entry, Held, Rows, Shard
from g2netpl.labels.formats import huggingface
from g2netpl.labels.formats.column_files import ColumnFile
from g2netpl.labels.formats.huggingface_data import DataSet, open_columns
from g2netpl.labels.formats.problems import LabelFileError, Problems

_KEPT_BYTES = 1 << 28  # of groups, for each process


class Cell(Held):
    """An image in a file of columns: the number of its group, and its row in there."""

    __slots__ = ()

    @property
    def shard(self) -> str:
        """A group is read together."""
        return f"{self.holder}#{self.entry.first}"

    @classmethod
    def together(cls, rows: Rows) -> list[int]:
        """The images of each group."""
        return [sum(1 for _ in group) for _, group in groupby(rows["first"].tolist())]

    def content(self) -> bytes:
        """What the group has there."""
        try:
            cell: bytes | None = _groups.get(self.holder, self.entry.first)[self.entry.second]
        except (LabelFileError, IndexError, OSError):
            cell = None
        if cell is None:
            raise Unfit(CHANGED)
        return cell


class _Groups:
    """Groups that were read last, in this process."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Any, ...], list[bytes | None]] = OrderedDict()
        self._file: tuple[Any, ...] = ()
        self._process = 0

    def get(self, file: Place, group: int) -> list[bytes | None]:
        """The cells of a group."""
        if self._process != os.getpid():
            self._kept.clear()
            self._file, self._process = (), os.getpid()
        key = (file, file.stamp(), group)
        if key not in self._kept:
            if self._file[:2] != key[:2]:
                self._file = (*key[:2], open_columns(Path(file), Problems()))
            columns: ColumnFile = self._file[2]
            self._kept[key] = columns.group((columns.pictures[0], "bytes"), group)
            while len(self._kept) > 1 and sum(map(_size, self._kept.values())) > _KEPT_BYTES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


_groups = _Groups()


def is_address(path: Path) -> bool:
    """Whether a path is a data set with pictures inside."""
    return huggingface.recognises(path) and DataSet(path, Problems()).is_packed


def in_columns(path: Path) -> InShards:
    """The images of a data set, in its order; each has the name that the labels know it by."""
    data, first, shards = DataSet(path, Problems()), 0, list[Shard]()
    names = cache(data.images)
    for file in data.files:
        holder = PathBelow(str(file.path.parent), file.path.name)
        shards.append(Shard(holder, Cell, partial(_scan, file, data.image, names, first)))
        first += file.rows
    found = InShards(str(path), shards)
    names.cache_clear()
    return found


def _scan(
    file: ColumnFile, image: str, all_names: Callable[[], list[str]], first: int, notes: list[str]
) -> Iterator[Entry]:
    """The pictures of a file, whose first row is the `first` of the data set."""
    names, row = all_names()[first : first + file.rows], 0
    for group in range(file.groups):
        for place, content in enumerate(file.group((image, "bytes"), group)):
            if content is None or len(content) > LARGEST:
                notes.append(f"{file.path}: row {row} has no picture")
            else:
                yield Entry.of(names[row], group, place, content)
            row += 1
    if row != len(names):
        raise InputError(f"{file.path}: it claims {len(names):,} rows and has {row:,}")


def _size(cells: list[bytes | None]) -> int:
    return sum(len(cell or b"") for cell in cells)
