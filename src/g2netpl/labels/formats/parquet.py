"""Parquet, in the shapes of the CSV files: wide (1 / 0 / null or −1), or `image` and `labels`.

`labels` holds lists of text, or text with separators. Needs pyarrow, the extra `parquet`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from g2netpl.base.disk import written_whole
from g2netpl.base.errors import InputError
from g2netpl.labels.formats import tags
from g2netpl.labels.formats.columns import GROUP, is_tag_header
from g2netpl.labels.formats.groups import Groups, group_header
from g2netpl.labels.formats.problems import LabelFileError, Problems
from g2netpl.labels.formats.reading import Reading, as_told, class_problem, without_twins
from g2netpl.labels.formats.table import refuse_odd_header
from g2netpl.labels.formats.text import IMAGE_HEADERS, read_bytes
from g2netpl.labels.table import UNOBSERVED, LabelMatrix, LabelTable, plain_name

_ROWS = 10_000  # that are looked at as Python's objects at a time, at most
_CELLS = 1 << 22  # of class columns that are decoded at a time
_PER_ROW = 100  # bytes that an image takes at least, as a name of Python
_DECODED = 1 << 26  # bytes that a file may become, however small it is
_GROWTH = 200  # times its own size that any file may become as names and tags
_CELL_GROWTH = 1_000  # the same as labels, of which a byte each is kept


def recognises(path: Path) -> bool:
    """By its ending."""
    return path.suffix.lower() in (".parquet", ".pq") and path.is_file()


def read(path: Path, reading: Reading) -> LabelTable:
    """Read either shape; mistakes are named by row, from 0."""
    problems = Problems()
    file = _File(path, problems)
    header = file.header
    if len(header) < 2 or header[0].lower() not in IMAGE_HEADERS:
        problems.stop(
            str(path),
            "header",
            f"expected the columns image, <class>, … or image, labels (or tags); got {header[:10]}",
        )
    if not _is_text(file.kinds[header[0]]):
        what = f"column {header[0]!r}: expected text, got {file.kinds[header[0]]}"
        problems.stop(str(path), "column type", what)
    if is_tag_header(header):
        return tags.collect(path, _tags(file, reading), reading, problems, unit=": row ")
    images, groups = [], Groups(problems)
    for row, (name, *group) in enumerate(file.texts([header[0], *file.group])):
        images.append(plain_name(name or ""))
        problems.add_name(f"{path}: row {row}", images[-1])
        for each in group:
            groups.add(f"{path}: row {row}", images[-1], each)
    for position, name in enumerate(header[1:]):
        problem = class_problem(name)
        if problem is not None:
            problems.add(str(path), "header", f"column {position + 2}: {problem}")
    values = _matrix(file, problems)
    names, values, notes = without_twins(
        images, values, lambda row: f"{path}: row {row}", problems, reading, file.classes
    )
    problems.raise_any()
    table = LabelTable(tuple(names), tuple(file.classes), values, notes=tuple(notes))
    return as_told(groups.on(table), reading, str(path))


def names_classes(path: Path, reading: Reading) -> bool:
    """A wide table does, tags do not."""
    return not is_tag_header(_File(path, Problems()).header)


def write(table: LabelTable, path: Path) -> list[str]:
    """Write the wide shape; unobserved is null."""
    arrow, parquet = _pyarrow()
    columns = {"image": arrow.array(table.images, type=arrow.string())}
    for name in group_header(table):
        columns[name] = arrow.array(table.groups, type=arrow.string())
    refuse_odd_header(table, path)
    if "image" in table.classes:
        raise InputError(f"{path}: a class cannot be called 'image' in Parquet")
    for position, name in enumerate(table.classes):
        values = table.values[:, position]
        columns[name] = arrow.array(values, mask=values == UNOBSERVED)
    with written_whole(path) as file:
        parquet.write_table(arrow.table(columns), file, compression="zstd")
    return []


def write_columns(
    path: Path, kinds: Mapping[str, str], parts: Iterable[Mapping[str, Sequence[Any]]]
) -> None:
    """Write columns of text, whole numbers or fractions, some rows at a time."""
    arrow, parquet = _pyarrow()
    types = {"text": arrow.string(), "int": arrow.int8(), "float": arrow.float32()}
    schema = arrow.schema([(name, types[kind]) for name, kind in kinds.items()])
    with (
        written_whole(path) as file,
        parquet.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        for columns in parts:
            writer.write_table(arrow.table(dict(columns), schema=schema))


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            "Parquet files need pyarrow: pip install 'g2netpl[parquet]', or convert to CSV"
        ) from None
    return pyarrow, pyarrow.parquet


class _File:
    """A Parquet file, read some rows at a time: what it may become is bounded by its size.

    A few bytes can stand for the same text a million times, or for a text of a gigabyte.
    """

    def __init__(self, path: Path, problems: Problems) -> None:
        self.path, self.problems = path, problems
        arrow, parquet = _pyarrow()
        content = read_bytes(path)
        if content[:4] != b"PAR1":
            problems.stop(str(path), "Parquet", "not a Parquet file (it does not begin with PAR1)")
        self.size = len(content)
        self.most = max(_DECODED, _GROWTH * self.size)
        with self._told():
            self.file: Any = parquet.ParquetFile(arrow.BufferReader(content))
            schema = self.file.schema_arrow
            self.header: list[str] = schema.names
            self.kinds: dict[str, Any] = dict(zip(schema.names, schema.types, strict=True))
            self.rows: int = self.file.metadata.num_rows
            self.group = [name for name in self.header[1:] if name.lower() == GROUP][:1]
            self.classes = [name for name in self.header[1:] if name not in self.group]
            self._check_claims()

    def texts(self, columns: list[str]) -> Iterator[tuple[Any, ...]]:
        """The cells of some columns as Python's objects, row after row."""
        room = self.most
        plain = _pyarrow()[0].schema([(name, _written_out(self.kinds[name])) for name in columns])
        for part in self._batches(columns, max(1, min(_ROWS, self.most // self.largest))):
            batch = part.select(columns).cast(plain)
            room -= batch.nbytes
            if room < 0:
                self._stop(f"its texts take more than {self.most:,} bytes")
            yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)

    def labels(self, columns: list[str]) -> Iterator[Any]:
        """Some rows at a time of columns of numbers."""
        return self._batches(columns, max(1, _CELLS // len(columns)))

    def _check_claims(self) -> None:
        """Look at the footer before anything is decoded."""
        if len(self.kinds) != len(self.header):
            twice = next(name for name in self.header if self.header.count(name) > 1)
            self.problems.stop(str(self.path), "header", f"column {twice!r} is there twice")
        rows, cells = self.rows, self.rows * len(self.header)
        if not 0 <= rows * _PER_ROW <= self.most or cells > max(_DECODED, _CELL_GROWTH * self.size):
            self._stop(f"the footer claims {rows:,} rows")
        about = self.file.metadata
        groups = range(about.num_row_groups)
        parts = [about.row_group(place).total_byte_size for place in groups]
        if min(parts, default=0) < 0 or sum(parts) > self.most:
            self._stop(f"the footer claims {sum(parts):,} bytes")
        self.largest = max(parts, default=0) + 1  # no text of the file is longer

    def _batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        with self._told():
            for batch in self.file.iter_batches(rows, columns=columns):
                batch.validate(full=True)
                yield batch

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except LabelFileError:
            raise
        except Exception as problem:  # a damaged file can say anything
            what = str(problem).strip().partition("\n")[0] or type(problem).__name__
            what = f"not a readable Parquet file ({what[:200]})"
            self.problems.stop(str(self.path), "Parquet", what)

    def _stop(self, claim: str) -> NoReturn:
        what = f"{claim}, in a file of {self.size:,} bytes; it is damaged, or made to fill memory"
        self.problems.stop(str(self.path), "Parquet", what)


def _written_out(kind: Any) -> Any:
    """The type without its dictionary, whose numbers stand for texts."""
    arrow, _ = _pyarrow()
    if arrow.types.is_list(kind) or arrow.types.is_large_list(kind):
        return arrow.large_list(_written_out(kind.value_type))
    return kind.value_type if arrow.types.is_dictionary(kind) else kind


def _is_text(kind: Any) -> bool:
    types = _pyarrow()[0].types
    kind = _written_out(kind)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _matrix(file: _File, problems: Problems) -> LabelMatrix:
    """The class columns as 1, 0, −1."""
    types = _pyarrow()[0].types
    values = np.full((file.rows, len(file.classes)), UNOBSERVED, dtype=np.int8)
    columns = {}
    for position, name in enumerate(file.classes):
        kind = file.kinds[name]
        if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
            columns[name] = position
        elif not types.is_null(kind):
            what = f"class {name!r}: expected numbers 1, 0 or null, got {kind}"
            problems.add(str(file.path), "column type", what)
    start = 0
    for batch in file.labels(list(columns)) if columns else ():
        for name, position in columns.items():
            part = values[start : start + len(batch), position]
            part[:] = _labels(file.path, name, batch.column(name), start, problems)
        start += len(batch)
    return values


def _labels(path: Path, name: str, column: Any, start: int, problems: Problems) -> LabelMatrix:
    """A part of a class column as 1, 0, −1; its first row is the `start`th of the file."""
    arrow, _ = _pyarrow()
    values = column.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
    values = np.where(np.isnan(values), UNOBSERVED, values)
    wrong = np.flatnonzero(~np.isin(values, (1, 0, -1)))
    for row in wrong[:1000]:
        problems.add(
            f"{path}: row {start + row}",
            "cell",
            f"class {name!r}: expected 1, 0 or null (unobserved), got {values[row]:g}",
        )
    values[wrong] = UNOBSERVED
    return values.astype(np.int8)


def _tags(file: _File, reading: Reading) -> Iterator[tags.Tags]:
    """Names, tags and what is absent, row after row."""
    types = _pyarrow()[0].types
    for name in file.classes:
        kind = file.kinds[name]
        if types.is_list(kind) or types.is_large_list(kind):
            kind = kind.value_type
        if not _is_text(kind) and not types.is_null(kind):
            what = f"column {name!r}: expected text or lists of it, got {file.kinds[name]}"
            file.problems.stop(str(file.path), "column type", what)
    columns = [*file.header[:1], *file.classes, *file.group]
    for row, (image, *cells) in enumerate(file.texts(columns)):
        group = cells.pop() if file.group else None
        present, *absent = (
            _names(f"{file.path}: row {row}", name, cell, reading, file.problems)
            for name, cell in zip(file.classes, cells, strict=True)
        )
        yield row, image or "", present, absent[0] if absent else (), group


def _names(
    where: str,
    column: str,
    cell: str | list[str | None] | None,
    reading: Reading,
    problems: Problems,
) -> list[str]:
    """The tags in one cell."""
    if cell is None or isinstance(cell, str):
        return tags.split(cell or "", reading)
    if None in cell:
        problems.add(where, "cell", f"column {column!r}: a null in the list")
    return [tag for tag in cell if tag is not None]
