"""Images inside Parquet, and inside what Hugging Face's `datasets` saved: a row group at a time.

A row group, or a batch of Arrow, can only be read as a whole. The last ones stay in the memory of
each process, up to a bound, so that images are best read in the order of their groups.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from g2netpl.base.errors import InputError
from g2netpl.base.inside import PathBelow, Unfit
from g2netpl.base.places import Place
from g2netpl.images.sources.catalogue import Catalogue
from g2netpl.images.sources.index import CHANGED, LARGEST, Entry, Held, indexed
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


def in_columns(path: Path) -> Catalogue:
    """The images of a data set, in its order; each has the name that the labels know it by."""
    data = DataSet(path, Problems())
    names, places, notes = iter(data.images()), dict[str, Place](), list[str]()
    for file in data.files:
        mine = [next(names) for _ in range(file.rows)]
        holder = PathBelow(str(file.path.parent), file.path.name)

        def scan(
            notes: list[str], file: ColumnFile = file, mine: list[str] = mine
        ) -> Iterator[Entry]:
            yield from _scan(file, data.image, mine, notes)

        held, more = indexed(holder, Cell, scan)
        notes += more
        places |= {place.entry.name: place for place in held}
    return Catalogue(str(path), places, notes)


def _scan(file: ColumnFile, image: str, names: list[str], notes: list[str]) -> Iterator[Entry]:
    row = 0
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
