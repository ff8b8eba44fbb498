"""Parquet, in the shapes of the CSV files: wide (1 / 0 / null or −1), or `image` and `labels`.

`labels` holds lists of text, or text with separators. Needs pyarrow, the extra `parquet`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from g2netpl.disk import written_whole
from g2netpl.errors import InputError
from g2netpl.formats import tags
from g2netpl.formats.problems import LabelFileError, Problems
from g2netpl.formats.reading import (
    Reading,
    class_problem,
    every_cell_speaks,
    in_class_order,
    without_twins,
)
from g2netpl.formats.table import IMAGE_HEADERS, is_tag_header, refuse_tag_header
from g2netpl.formats.text import read_bytes
from g2netpl.labels import UNOBSERVED, LabelMatrix, LabelTable, name_problem, plain_name

_ROWS = 10_000  # that are looked at as Python's objects at a time


def recognises(path: Path) -> bool:
    """By its ending."""
    return path.suffix.lower() in (".parquet", ".pq") and path.is_file()


def read(path: Path, reading: Reading) -> LabelTable:
    """Read either shape; mistakes are named by row, from 0."""
    problems = Problems()
    columns = _columns(path, problems)
    header = list(columns)
    if len(header) < 2 or header[0].lower() not in IMAGE_HEADERS:
        problems.stop(
            str(path),
            "header",
            f"expected the columns image, <class>, … or image, labels (or tags); got {header[:10]}",
        )
    images = [plain_name(name) for name in _texts(path, header[0], columns[header[0]], problems)]
    if is_tag_header(header):
        return _tags(path, images, columns, reading, problems)
    for row, name in enumerate(images):
        problem = name_problem(name)
        if problem is not None:
            problems.add(f"{path}: row {row}", "image name", f"image {name!r}: {problem}")
    values = np.full((len(images), len(header) - 1), UNOBSERVED, dtype=np.int8)
    for position, name in enumerate(header[1:]):
        problem = class_problem(name)
        if problem is not None:
            problems.add(str(path), "header", f"column {position + 2}: {problem}")
        values[:, position] = _labels(path, name, columns[name], problems)
    names, values, notes = without_twins(images, values, lambda row: f"{path}: row {row}", problems)
    problems.raise_any()
    table = LabelTable(tuple(names), tuple(header[1:]), values, notes=tuple(notes))
    return every_cell_speaks(in_class_order(table, reading, str(path)), reading)


def names_classes(path: Path) -> bool:
    """A wide table does, tags do not."""
    return not is_tag_header(list(_columns(path, Problems())))


def write(table: LabelTable, path: Path) -> list[str]:
    """Write the wide shape; unobserved is null."""
    arrow, parquet = _pyarrow()
    columns = {"image": arrow.array(table.images, type=arrow.string())}
    refuse_tag_header(table, path)
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


def _columns(path: Path, problems: Problems) -> dict[str, Any]:
    """All columns, after a look at the footer."""
    arrow, parquet = _pyarrow()
    content = read_bytes(path)
    if content[:4] != b"PAR1":
        problems.stop(str(path), "Parquet", "not a Parquet file (it does not begin with PAR1)")
    try:
        with parquet.ParquetFile(arrow.BufferReader(content)) as file:
            names = file.schema_arrow.names
            if len(set(names)) != len(names):
                twice = next(name for name in names if names.count(name) > 1)
                problems.stop(str(path), "header", f"column {twice!r} is there twice")
            rows = file.metadata.num_rows
            if not 0 <= rows <= 50 * len(content) or rows * len(names) > 10_000 * len(content):
                claim = f"the footer claims {rows:,} rows, in {len(content):,} bytes"
                problems.stop(str(path), "Parquet", f"{claim}; the file is damaged")
            table = file.read()
            table.validate(full=True)
            return {name: table.column(name) for name in names}
    except LabelFileError:
        raise
    except Exception as problem:  # a damaged file can say anything
        what = str(problem).strip().partition("\n")[0] or type(problem).__name__
        problems.stop(str(path), "Parquet", f"not a readable Parquet file ({what[:200]})")


def _is_text(kind: Any) -> bool:
    types = _pyarrow()[0].types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _texts(path: Path, name: str, column: Any, problems: Problems) -> list[str]:
    if not _is_text(column.type):
        what = f"column {name!r}: expected text, got {column.type}"
        problems.stop(str(path), "column type", what)
    return ["" if value is None else value for value in column.to_pylist()]


def _labels(path: Path, name: str, column: Any, problems: Problems) -> LabelMatrix:
    """A class column as 1, 0, −1."""
    arrow, _ = _pyarrow()
    kind = column.type
    labels = np.full(len(column), UNOBSERVED, dtype=np.int8)
    if arrow.types.is_null(kind):
        return labels
    numeric = arrow.types.is_integer(kind) or arrow.types.is_floating(kind)
    if not numeric and not arrow.types.is_boolean(kind):
        problems.add(
            str(path), "column type", f"class {name!r}: expected numbers 1, 0 or null, got {kind}"
        )
        return labels
    values = column.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
    values = np.where(np.isnan(values), UNOBSERVED, values)
    wrong = np.flatnonzero(~np.isin(values, (1, 0, -1)))
    for row in wrong[:1000]:
        problems.add(
            f"{path}: row {row}",
            "cell",
            f"class {name!r}: expected 1, 0 or null (unobserved), got {values[row]:g}",
        )
    values[wrong] = UNOBSERVED
    return values.astype(np.int8)


def _tags(
    path: Path, images: list[str], columns: dict[str, Any], reading: Reading, problems: Problems
) -> LabelTable:
    present, *absent = (
        _tag_lists(path, name, columns[name], reading, problems) for name in list(columns)[1:]
    )
    cells = (present, absent[0] if absent else repeat([], len(images)))

    def rows() -> Iterator[tags.Tags]:
        for row, (image, yes, no) in enumerate(zip(images, *cells, strict=True)):
            yield row, image, yes, no

    return tags.collect(path, rows(), reading, problems, unit=": row ")


def _tag_lists(
    path: Path, name: str, column: Any, reading: Reading, problems: Problems
) -> Iterator[list[str]]:
    """The tags of one row after the other."""
    types, kind = _pyarrow()[0].types, column.type
    if _is_text(kind) or types.is_null(kind):
        return (tags.split(cell or "", reading) for cell in _cells(column))
    listed = types.is_list(kind) or types.is_large_list(kind)
    if not listed or not (_is_text(kind.value_type) or types.is_null(kind.value_type)):
        what = f"column {name!r}: expected text or lists of it, got {kind}"
        problems.stop(str(path), "column type", what)

    def lists() -> Iterator[list[str]]:
        for row, cell in enumerate(_cells(column)):
            if cell and None in cell:
                problems.add(f"{path}: row {row}", "cell", f"column {name!r}: a null in the list")
            yield [tag for tag in cell or () if tag is not None]

    return lists()


def _cells(column: Any) -> Iterator[Any]:
    """The cells of a column as Python's objects, not many at a time."""
    for start in range(0, len(column), _ROWS):
        yield from column.slice(start, _ROWS).to_pylist()
