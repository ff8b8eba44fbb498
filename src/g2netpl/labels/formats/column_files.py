"""Columns of Parquet and Arrow files, some rows at a time. Needs pyarrow, the extra `parquet`.

A few bytes can stand for the same text a million times, or for a text of a gigabyte: what a file
may become is bounded by its size. An Arrow file is taken as Hugging Face's `datasets` saves it,
neither compressed nor with dictionaries, so that it becomes no more than it is.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from g2netpl.base.arrays import in_short
from g2netpl.base.disk import opening
from g2netpl.base.errors import InputError
from g2netpl.labels.formats.problems import LabelFileError, Problems

Column = str | tuple[str, str]  # by its name, or a field of one

_ROWS = 10_000  # that are looked at as Python's objects at a time, at most
_CELLS = 1 << 22  # of class columns that are decoded at a time
_PER_ROW = 100  # bytes that an image takes at least, as a name of Python
_DECODED = 1 << 26  # bytes that a file may become, however small it is
_GROWTH = 200  # times its own size that any file may become as names and tags
_CELL_GROWTH = 1_000  # the same as labels, of which a byte each is kept


def pyarrow() -> tuple[Any, Any]:
    """pyarrow and pyarrow.parquet."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            "Parquet files need pyarrow: pip install 'g2netpl[parquet]', or convert to CSV"
        ) from None
    return pyarrow, pyarrow.parquet


class ColumnFile:
    """A file of columns; `batches` reads some of them, some rows at a time."""

    kind = ""
    rows: int
    groups: int  # of rows that are read together
    largest = 1  # bytes: no cell of the file is longer

    def __init__(self, path: Path, problems: Problems) -> None:
        self.path, self.problems = path, problems
        with opening(path):
            if not path.is_file():
                raise InputError(f"{path}: not a regular file")
            self.size = path.stat().st_size
        self.most = max(_DECODED, _GROWTH * self.size)
        with self._told():
            self.schema = self._open()
            self.header: list[str] = self.schema.names
            self.kinds: dict[str, Any] = dict(zip(self.header, self.schema.types, strict=True))
            if len(self.kinds) != len(self.header):
                twice = next(name for name in self.header if self.header.count(name) > 1)
                problems.stop(str(path), "header", f"column {twice!r} is there twice")
            self.pictures = [name for name, kind in self.kinds.items() if is_picture(kind)]
            self._check()

    def texts(self, columns: list[Column]) -> Iterator[tuple[Any, ...]]:
        """The cells of some columns as Python's objects, row after row."""
        yield from self._rows(columns, max(1, min(_ROWS, self.most // self.largest)))

    def head(self, count: int) -> list[list[str]]:
        """The first rows in text, as a sheet has them; what is no text, number or list is empty."""
        names = [name for name, kind in self.kinds.items() if _is_plain(kind)]
        some = max(1, min(count, self.most // self.largest))
        cells = islice(self._rows([*names], some), count) if names else ()
        rows = (dict(zip(names, row, strict=True)) for row in cells)
        return [[_text(row.get(name)) for name in self.header] for row in rows]

    def contents(self, column: Column) -> Iterator[bytes | None]:
        """The cells of a column of large ones, such as pictures."""
        some = max(1, min(100, _DECODED // self.largest))
        yield from (cell for (cell,) in self._rows([column], some))

    def group(self, column: tuple[str, str], number: int) -> list[bytes | None]:
        """The cells of one group of rows."""
        with self._told():
            cells = self._group(column[0], number)
            cells.validate(full=True)
            if cells.nbytes > self.most:
                self._stop(f"its cells take more than {self.most:,} bytes")
            found: list[bytes | None] = cells.field(column[1]).to_pylist()
            return found

    def _group(self, name: str, number: int) -> Any:
        raise NotImplementedError

    def labels(self, columns: list[str]) -> Iterator[Any]:
        """Some rows at a time of columns of numbers."""
        return self._batches(list(columns), max(1, _CELLS // len(columns)))

    def _rows(self, columns: list[Column], some: int) -> Iterator[tuple[Any, ...]]:
        room, left = self.most, self.rows
        for batch in self._batches(columns, some):
            found = (_cells(batch, column) for column in columns)
            cells = [each.cast(plain_kind(each.type)) for each in found]  # without dictionaries
            room -= sum(each.nbytes for each in cells)
            if room < 0:
                self._stop(f"its cells take more than {self.most:,} bytes")
            left -= len(batch)
            yield from zip(*(each.to_pylist() for each in cells), strict=True)
        if left:
            self._stop(f"it claims {self.rows:,} rows and has {self.rows - left:,}")

    def _open(self) -> Any:
        """Open the file, and give its schema."""
        raise NotImplementedError

    def _check(self) -> None:
        """Look at what the file claims before anything is decoded."""
        raise NotImplementedError

    def _batches(self, columns: list[Column], rows: int) -> Iterator[Any]:
        raise NotImplementedError

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except LabelFileError:
            raise
        except Exception as problem:  # a damaged file can say anything
            what = f"not a readable {self.kind} file ({in_short(problem)})"
            self.problems.stop(str(self.path), self.kind, what)

    def _stop(self, claim: str) -> NoReturn:
        what = f"{claim}, in a file of {self.size:,} bytes; it is damaged, or made to fill memory"
        self.problems.stop(str(self.path), self.kind, what)


class ParquetFile(ColumnFile):
    """A Parquet file."""

    kind = "Parquet"

    def _open(self) -> Any:
        arrow, parquet = pyarrow()
        source = arrow.OSFile(str(self.path))
        if source.read(4) != b"PAR1":
            what = "not a Parquet file (it does not begin with PAR1)"
            self.problems.stop(str(self.path), self.kind, what)
        self.file: Any = parquet.ParquetFile(source)
        return self.file.schema_arrow

    def _check(self) -> None:
        about = self.file.metadata
        self.rows, self.groups = rows, groups = about.num_rows, about.num_row_groups
        cells = rows * len(self.header)
        if not 0 <= rows * _PER_ROW <= self.most or cells > max(_DECODED, _CELL_GROWTH * self.size):
            self._stop(f"the footer claims {rows:,} rows")
        parts = [about.row_group(place).total_byte_size for place in range(groups)]
        if min(parts, default=0) < 0 or sum(parts) > self.most:
            self._stop(f"the footer claims {sum(parts):,} bytes")
        self.largest = max(parts, default=0) + 1

    def _batches(self, columns: list[Column], rows: int) -> Iterator[Any]:
        names = [each if isinstance(each, str) else ".".join(each) for each in columns]
        with self._told():
            for batch in self.file.iter_batches(rows, columns=names):
                batch.validate(full=True)
                yield batch

    def _group(self, name: str, number: int) -> Any:
        read = self.file.read_row_group(number, columns=[name], use_threads=False)
        return read.column(name).combine_chunks()


class ArrowFile(ColumnFile):
    """A stream of Arrow, mapped into memory."""

    kind = "Arrow"

    def _open(self) -> Any:
        arrow, _ = pyarrow()
        for message in arrow.ipc.MessageReader.open_stream(arrow.memory_map(str(self.path))):
            plain = message.type == "schema" or (
                message.type == "record batch" and not _is_compressed(bytes(message.metadata))
            )
            if not plain:
                what = "compressed, or with dictionaries; save it with datasets' save_to_disk"
                self.problems.stop(str(self.path), self.kind, what)
        return self._stream().schema

    def _check(self) -> None:
        sizes = [len(batch) for batch in self._batches([], self.size + 1)]
        self.rows, self.groups = sum(sizes), len(sizes)

    def _group(self, name: str, number: int) -> Any:
        return next(islice(self._stream(), number, None)).column(name)

    def _stream(self) -> Any:
        arrow, _ = pyarrow()
        return arrow.ipc.open_stream(arrow.memory_map(str(self.path)))

    def _batches(self, columns: list[Column], rows: int) -> Iterator[Any]:
        with self._told():
            for batch in self._stream():
                batch.validate(full=True)
                for start in range(0, len(batch), rows):
                    yield batch.slice(start, rows)


def _is_plain(kind: Any) -> bool:
    kind = plain_kind(kind)
    inner = getattr(kind, "value_type", kind)
    return is_text(inner) or is_number(inner)


def _text(cell: Any) -> str:
    if isinstance(cell, list):
        return ";".join(map(_text, cell))
    return "" if cell is None else str(cell)


def _cells(batch: Any, column: Column) -> Any:
    if isinstance(column, str):
        return batch.column(column)
    return batch.column(column[0]).field(column[1])


def plain_kind(kind: Any) -> Any:
    """The type of cells that are written out, with no dictionary of texts."""
    arrow, _ = pyarrow()
    if arrow.types.is_list(kind) or arrow.types.is_large_list(kind):
        return arrow.large_list(plain_kind(kind.value_type))
    return kind.value_type if arrow.types.is_dictionary(kind) else kind


def is_text(kind: Any) -> bool:
    """Whether cells of a type are text."""
    types = pyarrow()[0].types
    kind = plain_kind(kind)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_number(kind: Any) -> bool:
    """Whether cells of a type are numbers, or yes and no."""
    types = pyarrow()[0].types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def is_picture(kind: Any) -> bool:
    """Whether a column of a type holds pictures: a struct of bytes and path."""
    types = pyarrow()[0].types
    if not types.is_struct(kind):
        return False
    inner = {field.name: field.type for field in kind}
    if inner.keys() != {"bytes", "path"}:
        return False
    binary = types.is_binary(inner["bytes"]) or types.is_large_binary(inner["bytes"])
    return binary and is_text(inner["path"])


def _is_compressed(message: bytes) -> bool:
    """Whether a record batch has a compression: field 3 of field 2, the header, of the message."""
    header = _field(message, _target(message, 0), 2)
    return bool(header and _field(message, _target(message, header), 3))


def _target(content: bytes, place: int) -> int:
    """What an offset of a flatbuffer points at."""
    return int(place + struct.unpack_from("<I", content, place)[0])


def _field(content: bytes, table: int, number: int) -> int:
    """Where a field of a flatbuffer's table is; 0 where it is left out."""
    places = table - struct.unpack_from("<i", content, table)[0]
    (size,) = struct.unpack_from("<H", content, places)
    at = 4 + 2 * number
    if at + 2 > size:
        return 0
    (offset,) = struct.unpack_from("<H", content, places + at)
    return table + offset if offset else 0
