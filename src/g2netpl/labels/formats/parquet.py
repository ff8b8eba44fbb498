"""Parquet, in the shapes of the CSV files: wide (1 / 0 / null or −1), or `image` and `labels`.

`labels` holds lists of text, or text with separators. Columns that are called otherwise are found
as in CSV files (`columns`). Needs pyarrow, the extra `parquet`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from g2netpl.base.disk import written_whole
from g2netpl.base.errors import InputError
from g2netpl.labels.formats import tags
from g2netpl.labels.formats.column_files import (
    Column,
    ColumnFile,
    ParquetFile,
    is_number,
    is_text,
    pyarrow,
)
from g2netpl.labels.formats.columns import Columns, find_columns
from g2netpl.labels.formats.csv_table import refuse_odd_header
from g2netpl.labels.formats.groups import Groups, group_header
from g2netpl.labels.formats.problems import LabelFileError, Problems
from g2netpl.labels.formats.reading import Reading, class_problem
from g2netpl.labels.formats.sheet import HEAD, Sheet
from g2netpl.labels.formats.twins import wide_table
from g2netpl.labels.table import UNOBSERVED, LabelMatrix, LabelTable

_FEW, _CELLS = 20, 1 << 17  # rows, and about how many cells, that tell what the columns hold


def recognises(path: Path) -> bool:
    """By its ending."""
    return path.suffix.lower() in (".parquet", ".pq") and path.is_file()


def read(path: Path, reading: Reading) -> LabelTable:
    """Read either shape; mistakes are named by row, from 0."""
    problems = Problems()
    file = ParquetFile(path, problems)
    columns = _columns(file, reading)
    image, group, classes = _names(file, columns)
    if not is_text(file.kinds[image]):
        what = f"column {image!r}: expected text, got {file.kinds[image]}"
        problems.stop(str(path), "column type", what)
    if columns.tags is not None:
        found = tags.collect(path, _tags(file, columns, reading), reading, problems, unit=": row ")
        return found.with_notes((*found.notes, *columns.notes))
    images, groups = [], Groups(problems)
    for row, (name, *named) in enumerate(file.texts([image, *group])):
        images.append(columns.name(name or ""))
        problems.add_name(f"{path}: row {row}", images[-1])
        for each in named:
            groups.add(f"{path}: row {row}", images[-1], each)
    for place in columns.classes:
        problem = class_problem(file.header[place])
        if problem is not None:
            problems.add(str(path), "header", f"column {place + 1}: {problem}")
    values = label_matrix(file, classes, problems, path)
    at = f"{path}: row {{}}".format
    return wide_table(images, classes, values, at, groups, reading, str(path), columns.notes)


def names_classes(path: Path, reading: Reading) -> bool:
    """A wide table does, tags do not."""
    try:
        return _columns(ParquetFile(path, Problems()), reading).tags is None
    except LabelFileError:
        return True  # which the reading will tell


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
    with written_whole(path) as file:
        parquet.write_table(arrow.table(columns), file, compression="zstd")
    return []


def write_columns(
    path: Path,
    kinds: Mapping[str, str],
    parts: Iterable[Mapping[str, Any]],
    about: Mapping[str, str] | None = None,
) -> None:
    """Write columns of text, whole numbers, fractions or vectors of them, some rows at a time.

    A fraction that is NaN is null, and so is a vector that begins with one. `about` goes into the
    footer, as `read_about` gives it.
    """
    arrow, parquet = pyarrow()
    types = {
        **{"text": arrow.string(), "int": arrow.int8(), "float": arrow.float32()},
        "vector": arrow.list_(arrow.float32()),
    }
    fields = [(name, types[kind]) for name, kind in kinds.items()]
    schema = arrow.schema(fields, metadata=dict(about) if about else None)
    with (
        written_whole(path) as file,
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


def read_about(path: Path) -> dict[str, str] | None:
    """What the footer of a file says about it; None for one that is not whole."""
    arrow, parquet = pyarrow()
    try:
        found = parquet.read_schema(path).metadata or {}
        return {key.decode(): value.decode() for key, value in found.items()}
    except (OSError, ValueError, arrow.ArrowException):
        return None


def _columns(file: ColumnFile, reading: Reading) -> Columns:
    """What the columns are, as in a sheet."""
    head = file.head(min(HEAD, max(_FEW, _CELLS // max(len(file.header), 1))))
    sheet = Sheet(file.path, 0, file.header, head, iter(()), file.problems)
    return find_columns(sheet, reading)


def _names(file: ColumnFile, columns: Columns) -> tuple[str, list[str], list[str]]:
    """The columns of the images, of groups if there is one, and of tags or of the classes."""
    of_tags = [place for place in (columns.tags, columns.absent) if place is not None]
    places = (of_tags or columns.classes, [] if columns.group is None else [columns.group])
    others, group = ([file.header[place] for place in some] for some in places)
    return file.header[columns.image], group, others


def label_matrix(
    file: ColumnFile, classes: Sequence[str], problems: Problems, path: Path, first: int = 0
) -> LabelMatrix:
    """The class columns as 1, 0, −1; the rows of the file are those of `path` from `first` on."""
    values = np.full((file.rows, len(classes)), UNOBSERVED, dtype=np.int8)
    columns = {}
    for position, name in enumerate(classes):
        kind = file.kinds[name]
        if is_number(kind):
            columns[name] = position
        elif not pyarrow()[0].types.is_null(kind):
            what = f"class {name!r}: expected numbers 1, 0 or null, got {kind}"
            problems.add(str(file.path), "column type", what)
    start = 0
    for batch in file.labels(list(columns)) if columns else ():
        for name, position in columns.items():
            part = values[start : start + len(batch), position]
            part[:] = _labels(path, name, batch.column(name), first + start, problems)
        start += len(batch)
    return values


def _labels(path: Path, name: str, column: Any, start: int, problems: Problems) -> LabelMatrix:
    """A part of a class column as 1, 0, −1; its first row is the `start`th of the file."""
    arrow, _ = pyarrow()
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


def _tags(file: ColumnFile, found: Columns, reading: Reading) -> Iterator[tags.Tags]:
    """Names, tags and what is absent, row after row."""
    types = pyarrow()[0].types
    names, group, classes = _names(file, found)
    for name in classes:
        kind = file.kinds[name]
        if types.is_list(kind) or types.is_large_list(kind):
            kind = kind.value_type
        if not is_text(kind) and not types.is_null(kind):
            what = f"column {name!r}: expected text or lists of it, got {file.kinds[name]}"
            file.problems.stop(str(file.path), "column type", what)
    columns: list[Column] = [names, *classes, *group]
    for row, (image, *cells) in enumerate(file.texts(columns)):
        named = cells.pop() if group else None
        present, *absent = (
            tags.in_cell(
                cell, reading, f"{file.path}: row {row}", f"column {name!r}", file.problems
            )
            for name, cell in zip(classes, cells, strict=True)
        )
        yield row, found.name(image or ""), present, absent[0] if absent else (), named
