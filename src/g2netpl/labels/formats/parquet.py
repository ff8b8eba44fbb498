"""Parquet, in the shapes of the CSV files: wide (1 / 0 / null), or `image` and `labels`.

`labels` holds lists of text, or text with separators. Columns that are called otherwise are found
as in CSV files (`columns`). Needs pyarrow, the extra `parquet`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from g2netpl.base.arrays import in_short
from g2netpl.base.disk import opening
from g2netpl.base.errors import InputError
from g2netpl.base.files import atomic_write
from g2netpl.labels.formats import tags
from g2netpl.labels.formats.columns import MINUS_ONE, Columns, find_columns
from g2netpl.labels.formats.csv_table import refuse_odd_header
from g2netpl.labels.formats.groups import Groups, group_header
from g2netpl.labels.formats.problems import LabelFileError, Problems
from g2netpl.labels.formats.reading import Reading, class_problem
from g2netpl.labels.formats.sheet import HEAD, Sheet
from g2netpl.labels.formats.twins import At, wide_table
from g2netpl.labels.table import UNOBSERVED, LabelMatrix, LabelTable

ENDINGS = (".parquet", ".pq")
_FEW, _CELLS = 20, 1 << 17  # rows, and about how many cells, that tell what the columns hold
Names = Mapping[str, Sequence[str] | None]  # of columns: what the numbers in them stand for
_NO_NAMES: Names = {}


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


def recognises(path: Path) -> bool:
    """By its ending."""
    return path.suffix.lower() in ENDINGS and path.is_file()


def read(path: Path, reading: Reading) -> LabelTable:
    """Read either shape; mistakes are named by row, from 0."""
    problems = Problems()
    return read_columns(path, _opened(path, problems), reading, problems)


def read_columns(
    path: Path,
    table: Any,
    reading: Reading,
    problems: Problems,
    images: Sequence[str] | None = None,
    names: Names = _NO_NAMES,
) -> LabelTable:
    """The labels in a table of Arrow.

    `images` are the names of the images, if no column of text has them.
    """
    at = partial("{}: row {}".format, path)
    columns, header = _columns(path, table, reading, problems), table.column_names
    image = header[columns.image]
    group = [None] * len(table)
    if columns.group is not None:
        group = _cells(table, header[columns.group])
    if images is None:
        if not _is_text(table.schema.field(image).type):
            what = f"column {image!r}: expected text, got {table.schema.field(image).type}"
            problems.stop(str(path), "column type", what)
        images = [columns.name(name or "") for name in _cells(table, image)]
    if columns.tags:
        there = [header[place] for place in columns.tags]
        absent = [] if columns.absent is None else [header[columns.absent]]
        said = [_classes(path, table, some, names, reading, problems) for some in (there, absent)]
        rows = zip(range(len(table)), images, *said, group, strict=True)
        found = tags.collect(path, rows, reading, problems, ": row ", ",".join(there))
        return found.with_notes((*found.notes, *columns.notes))
    groups = Groups(problems)
    for row, name in enumerate(images):
        problems.add_name(at(row), name)
        groups.add(at(row), name, group[row])
    for place in columns.classes:
        problem = class_problem(header[place])
        if problem is not None:
            problems.add(str(path), "header", f"column {place + 1}: {problem}")
    classes = [header[place] for place in columns.classes]
    values = np.full((len(table), len(classes)), UNOBSERVED, dtype=np.int8)
    for position, name in enumerate(classes):
        kind = table.schema.field(name).type
        if is_number(kind):
            values[:, position] = _labels(name, table.column(name), at, problems)
        elif not pyarrow()[0].types.is_null(kind):
            what = f"class {name!r}: expected numbers 1, 0 or null, got {kind}"
            problems.add(str(path), "column type", what)
    return wide_table(images, classes, values, at, groups, reading, str(path), columns.notes)


def names_classes(path: Path, reading: Reading) -> bool:
    """A wide table does, tags do not."""
    problems = Problems()
    try:
        return _columns(path, _opened(path, problems), reading, problems).tags == ()
    except LabelFileError:
        return True  # which the reading will tell


def is_number(kind: Any) -> bool:
    """Whether cells of a type are numbers, or yes and no."""
    types = pyarrow()[0].types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def write(table: LabelTable, path: Path) -> list[str]:
    """Write the wide shape; unobserved is null."""
    arrow, parquet = pyarrow()
    columns = {"image": arrow.array(table.images, type=arrow.string())}
    for name in group_header(table):
        columns[name] = arrow.array(table.groups, type=arrow.string())
    refuse_odd_header(table, path)
    if "image" in table.classes:
        raise InputError(f"{path}: a class cannot be called 'image' in Parquet")
    for position, name in enumerate(table.classes):
        values = table.values[:, position]
        columns[name] = arrow.array(values, mask=values == UNOBSERVED)
    with atomic_write(path) as file:
        parquet.write_table(arrow.table(columns), file, compression="zstd")
    return []


def write_columns(path: Path, kinds: Mapping[str, str], parts: Iterable[Mapping[str, Any]]) -> None:
    """Write columns of text, whole numbers, fractions or vectors of them, some rows at a time.

    A fraction that is NaN is null, and so is a vector that begins with one.
    """
    arrow, parquet = pyarrow()
    types = {
        **{"text": arrow.string(), "int": arrow.int8(), "float": arrow.float32()},
        "vector": arrow.list_(arrow.float32()),
    }
    fields = [(name, types[kind]) for name, kind in kinds.items()]
    schema = arrow.schema(fields)
    with (
        atomic_write(path) as file,
        parquet.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        for columns in parts:
            arrays = [_array(arrow, columns[name], kind) for name, kind in fields]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))


def _array(arrow: Any, values: Any, kind: Any) -> Any:
    """A column for Arrow, of a list or an array."""
    if getattr(values, "ndim", 1) == 1:
        return arrow.array(values, kind, from_pandas=True)
    rows = arrow.array(values.ravel(), kind.value_type)
    starts = np.arange(len(values) + 1) * values.shape[1]
    mask = arrow.array(np.isnan(values[:, 0]))
    return arrow.ListArray.from_arrays(arrow.array(starts, arrow.int32()), rows, mask=mask)


def _opened(path: Path, problems: Problems) -> Any:
    """The table of Arrow in a file."""
    with opening(path):
        if not path.is_file():
            raise InputError(f"{path}: not a regular file")
    arrow, parquet = pyarrow()
    try:
        table = parquet.ParquetFile(arrow.OSFile(str(path))).read()
        table.validate(full=True)
    except Exception as problem:  # a damaged file can say anything
        what = f"not a readable Parquet file ({in_short(problem)})"
        problems.stop(str(path), "Parquet", what)
    header = table.column_names
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        problems.stop(str(path), "header", f"column {twice!r} is there twice")
    return table


def _columns(path: Path, table: Any, reading: Reading, problems: Problems) -> Columns:
    """What the columns are, as in a sheet; what is no text, number or list is empty there."""
    header = table.column_names
    some = table.slice(0, min(HEAD, max(_FEW, _CELLS // max(len(header), 1))))
    cells = [
        map(_text, _cells(some, field.name)) if _is_plain(field.type) else [""] * len(some)
        for field in table.schema
    ]
    head = [list(row) for row in zip(*cells, strict=True)]
    return find_columns(Sheet(path, 0, header, head, iter(()), problems), reading)


def _cells(table: Any, name: str) -> list[Any]:
    """The cells of a column as Python's objects."""
    column = table.column(name)
    found: list[Any] = column.cast(_plain_kind(column.type)).to_pylist()  # without dictionaries
    return found


def _labels(name: str, column: Any, at: At, problems: Problems) -> LabelMatrix:
    """A class column as 1, 0, UNOBSERVED and MINUS_ONE."""
    values = column.cast(pyarrow()[0].float64(), safe=False).to_numpy()
    empty = np.isnan(values)
    wrong = np.flatnonzero(~(empty | np.isin(values, (1, 0, -1))))
    for row in wrong[:1000]:
        what = f"class {name!r}: expected 1, 0 or null (unobserved), got {values[row]:g}"
        problems.add(at(row), "cell", what)
    labels = np.where(values == -1, MINUS_ONE, values)
    labels[empty] = labels[wrong] = UNOBSERVED
    return labels.astype(np.int8)


def _classes(
    path: Path,
    table: Any,
    columns: Sequence[str],
    names: Names,
    reading: Reading,
    problems: Problems,
) -> Iterator[Iterable[str]]:
    """The classes that some columns name, row after row."""
    for name in columns:
        _check_kind(path, table, name, names.get(name), problems)
    rows = zip(*(_cells(table, name) for name in columns), strict=True) if columns else ()
    for row, cells in enumerate(rows or [()] * len(table)):
        where = f"{path}: row {row}"
        yield chain.from_iterable(
            _classes_in(cell, names.get(name), reading, where, f"column {name!r}", problems)
            for name, cell in zip(columns, cells, strict=True)
        )


def _check_kind(
    path: Path, table: Any, name: str, known: Sequence[str] | None, problems: Problems
) -> None:
    types, kind = pyarrow()[0].types, table.schema.field(name).type
    inner = kind.value_type if types.is_list(kind) or types.is_large_list(kind) else kind
    fits = _is_text(inner) if known is None else types.is_integer(inner)
    if not fits and not types.is_null(inner):
        wanted = "text" if known is None else "numbers of classes"
        what = f"column {name!r}: expected {wanted} or lists of it, got {kind}"
        problems.stop(str(path), "column type", what)


def _classes_in(
    cell: Any,
    known: Sequence[str] | None,
    reading: Reading,
    where: str,
    column: str,
    problems: Problems,
) -> list[str]:
    """The classes in one cell: texts, or numbers, of which −1 is none."""
    if known is None:
        return tags.in_cell(cell, reading, where, column, problems)
    numbers = [each for each in (cell if isinstance(cell, list) else [cell]) if each is not None]
    for number in numbers:
        if not -1 <= number < len(known):
            what = f"{column}: expected a class below {len(known)}, got {number}"
            problems.add(where, "cell", what)
    return [known[number] for number in numbers if 0 <= number < len(known)]


def _is_plain(kind: Any) -> bool:
    kind = _plain_kind(kind)
    inner = getattr(kind, "value_type", kind)
    return _is_text(inner) or is_number(inner)


def _text(cell: Any) -> str:
    if isinstance(cell, list):
        return ";".join(map(_text, cell))
    return "" if cell is None else str(cell)


def _plain_kind(kind: Any) -> Any:
    """The type of cells that are written out, with no dictionary of texts."""
    arrow, _ = pyarrow()
    if arrow.types.is_list(kind) or arrow.types.is_large_list(kind):
        return arrow.large_list(_plain_kind(kind.value_type))
    return kind.value_type if arrow.types.is_dictionary(kind) else kind


def _is_text(kind: Any) -> bool:
    types = pyarrow()[0].types
    kind = _plain_kind(kind)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
