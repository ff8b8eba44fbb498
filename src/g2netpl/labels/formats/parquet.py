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

from g2netpl.base.errors import InputError
from g2netpl.base.files import atomic_write
from g2netpl.labels.formats import tags
from g2netpl.labels.formats.column_files import (
    Column,
    ColumnFile,
    ParquetFile,
    is_number,
    is_text,
    pyarrow,
)
from g2netpl.labels.formats.columns import MINUS_ONE, Columns, find_columns
from g2netpl.labels.formats.csv_table import refuse_odd_header
from g2netpl.labels.formats.groups import Groups, group_header
from g2netpl.labels.formats.problems import LabelFileError, Problems
from g2netpl.labels.formats.reading import Reading, class_problem
from g2netpl.labels.formats.sheet import HEAD, Sheet
from g2netpl.labels.formats.twins import At, wide_table
from g2netpl.labels.table import UNOBSERVED, LabelMatrix, LabelTable

_FEW, _CELLS = 20, 1 << 17  # rows, and about how many cells, that tell what the columns hold
_NO_NAMES: Mapping[str, Sequence[str] | None] = {}


def recognises(path: Path) -> bool:
    """By its ending."""
    return path.suffix.lower() in (".parquet", ".pq") and path.is_file()


def read(path: Path, reading: Reading) -> LabelTable:
    """Read either shape; mistakes are named by row, from 0."""
    return read_columns(path, [ParquetFile(path, Problems())], reading)


def read_columns(
    path: Path,
    files: Sequence[ColumnFile],
    reading: Reading,
    images: Sequence[str] | None = None,
    names: Mapping[str, Sequence[str] | None] = _NO_NAMES,
) -> LabelTable:
    """The table of files of the same columns, whose rows are counted through.

    `images` are the names of the images, if no column of text has them; `names` are those that the
    numbers in a column of labels stand for.
    """
    first, problems, at = files[0], files[0].problems, partial("{}: row {}".format, path)
    columns = _columns(first, reading)
    image, group, classes = _names(first, columns)
    if images is None:
        if not is_text(first.kinds[image]):
            what = f"column {image!r}: expected text, got {first.kinds[image]}"
            problems.stop(str(path), "column type", what)
        images = [columns.name(name or "") for (name,) in _rows(files, [image])]
    if columns.tags:
        known = [names.get(name) for name in classes]
        meaning, count = dict(zip(classes, known, strict=True)), len(columns.tags)
        found = _tags(files, images, meaning, count, group, reading, at)
        column = ",".join(classes[:count])
        table = tags.collect(path, found, reading, problems, ": row ", column)
        return table.with_notes((*table.notes, *columns.notes))
    groups = Groups(problems)
    for row, name in enumerate(images):
        problems.add_name(at(row), name)
    for row, (each,) in enumerate(_rows(files, group) if group else ()):
        groups.add(at(row), images[row], each)
    for place in columns.classes:
        problem = class_problem(first.header[place])
        if problem is not None:
            problems.add(str(path), "header", f"column {place + 1}: {problem}")
    values = np.vstack(list(_label_matrices(files, classes, at)))
    return wide_table(images, classes, values, at, groups, reading, str(path), columns.notes)


def names_classes(path: Path, reading: Reading) -> bool:
    """A wide table does, tags do not."""
    try:
        return _columns(ParquetFile(path, Problems()), reading).tags == ()
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


def _columns(file: ColumnFile, reading: Reading) -> Columns:
    """What the columns are, as in a sheet."""
    head = file.head(min(HEAD, max(_FEW, _CELLS // max(len(file.header), 1))))
    sheet = Sheet(file.path, 0, file.header, head, iter(()), file.problems)
    return find_columns(sheet, reading)


def _names(file: ColumnFile, columns: Columns) -> tuple[str, list[str], list[str]]:
    """The columns of the images, of groups if there is one, and of tags or of the classes."""
    absent = [] if columns.absent is None else [columns.absent]
    of_tags = [*columns.tags, *absent]
    places = (of_tags or columns.classes, [] if columns.group is None else [columns.group])
    others, group = ([file.header[place] for place in some] for some in places)
    return file.header[columns.image], group, others


def _rows(files: Sequence[ColumnFile], columns: Sequence[Column]) -> Iterator[tuple[Any, ...]]:
    return chain.from_iterable(file.texts([*columns]) for file in files)


def _label_matrices(
    files: Sequence[ColumnFile], classes: Sequence[str], at: At
) -> Iterator[LabelMatrix]:
    """The class columns of each file as 1, 0, UNOBSERVED and MINUS_ONE."""
    first = 0
    for file in files:
        values = np.full((file.rows, len(classes)), UNOBSERVED, dtype=np.int8)
        columns = {}
        for position, name in enumerate(classes):
            kind = file.kinds[name]
            if is_number(kind):
                columns[name] = position
            elif not pyarrow()[0].types.is_null(kind):
                what = f"class {name!r}: expected numbers 1, 0 or null, got {kind}"
                file.problems.add(str(file.path), "column type", what)
        start = 0
        for batch in file.labels(list(columns)) if columns else ():
            for name, position in columns.items():
                part = values[start : start + len(batch), position]
                part[:] = _labels(name, batch.column(name), first + start, at, file.problems)
            start += len(batch)
        first += file.rows
        yield values


def _labels(name: str, column: Any, start: int, at: At, problems: Problems) -> LabelMatrix:
    """A part of a class column as such; its first row is the `start`th of all."""
    arrow, _ = pyarrow()
    values = column.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
    empty = np.isnan(values)
    wrong = np.flatnonzero(~(empty | np.isin(values, (1, 0, -1))))
    for row in wrong[:1000]:
        what = f"class {name!r}: expected 1, 0 or null (unobserved), got {values[row]:g}"
        problems.add(at(start + row), "cell", what)
    labels = np.where(values == -1, MINUS_ONE, values)
    labels[empty] = labels[wrong] = UNOBSERVED
    return labels.astype(np.int8)


def _tags(
    files: Sequence[ColumnFile],
    images: Sequence[str],
    columns: Mapping[str, Sequence[str] | None],
    count: int,
    group: list[str],
    reading: Reading,
    at: At,
) -> Iterator[tags.Tags]:
    """Names, tags and what is absent, row after row; `columns` with what their numbers mean.

    The first `count` of the columns have tags.
    """
    for name, known in columns.items():
        _check_kind(files[0], name, known)
    cells = _rows(files, [*columns, *group])
    for row, (image, (*found, last)) in enumerate(zip(images, cells, strict=True)):
        said = found if group else [*found, last]
        each = [
            _classes_in(cell, known, reading, at(row), f"column {name!r}", files[0].problems)
            for (name, known), cell in zip(columns.items(), said, strict=True)
        ]
        present, absent = (chain.from_iterable(some) for some in (each[:count], each[count:]))
        yield row, image, present, absent, last if group else None


def _check_kind(file: ColumnFile, name: str, known: Sequence[str] | None) -> None:
    types, kind = pyarrow()[0].types, file.kinds[name]
    inner = kind.value_type if types.is_list(kind) or types.is_large_list(kind) else kind
    fits = is_text(inner) if known is None else types.is_integer(inner)
    if not fits and not types.is_null(inner):
        wanted = "text" if known is None else "numbers of classes"
        what = f"column {name!r}: expected {wanted} or lists of it, got {kind}"
        file.problems.stop(str(file.path), "column type", what)


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
