"""Tables out: rows as CSV or a workbook, columns as CSV, a workbook or Parquet."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow
from pyarrow.parquet import ParquetWriter

from g2netpl.labels.io.frames import PARQUET_ENDINGS
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import atomic_text, atomic_write, writing

_MOST_ROWS, _MOST_COLUMNS = 1 << 20, 1 << 14  # of a sheet of Excel
_MOST_TEXT = 32_767  # characters of a cell of Excel
_CHANGED = re.compile(r"^=|[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]|_x[0-9A-Fa-f]{4}_")
_TYPES = {  # of columns in Parquet
    "text": pyarrow.string(),
    "int": pyarrow.int8(),
    "float": pyarrow.float32(),
}


def book_cell(cell: Any, path: Path) -> Any:
    """A cell that a workbook keeps as it is; an empty one is None."""
    if isinstance(cell, str) and (_CHANGED.search(cell) or len(cell) > _MOST_TEXT):
        raise InputError(f"{path}: {cell[:40]!r} cannot be in a workbook as it is")
    return None if cell == "" else cell


def save_book(book: Any, path: Path) -> None:
    """Save a workbook of openpyxl, whole or not at all."""
    content = io.BytesIO()  # openpyxl leaves its archive open if a disk is full
    book.save(content)
    with writing(path), atomic_write(path) as file:
        file.write(content.getbuffer())


def write_rows(path: str | Path, header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> None:
    """Write CSV or a workbook that a person or a command named, whole or not at all."""
    path = Path(path)
    if path.suffix.lower() not in (".xlsx", ".xlsm"):
        with atomic_text(path) as file:
            csv.writer(file, lineterminator="\n").writerows(chain([header], rows))
        return
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("labels")
    sheet.freeze_panes = "B2"
    try:
        for number, row in enumerate(chain([header], rows)):
            if number >= _MOST_ROWS or len(row) > _MOST_COLUMNS:
                most = f"a sheet has {_MOST_ROWS:,} rows and {_MOST_COLUMNS:,} columns at most"
                raise InputError(f"{path}: {most}; write csv or parquet instead")
            sheet.append([book_cell(cell, path) for cell in row])
    except BaseException:
        sheet.close()
        raise
    save_book(book, path)


def write_columns(path: Path, kinds: Mapping[str, str], parts: Iterable[Mapping[str, Any]]) -> None:
    """Write columns of `text`, `int` or `float`, some rows at a time; NaN is an empty cell."""
    if path.suffix.lower() in PARQUET_ENDINGS:
        with writing(path):
            write_parquet_columns(path, kinds, parts)
        return
    columns = (map(_cells, part.values()) for part in parts)
    write_rows(path, list(kinds), chain.from_iterable(zip(*part, strict=True) for part in columns))


def _cells(values: Any) -> Sequence[Any]:
    """A column for text: fractions of four digits, without the tail that float32 would show."""
    if not isinstance(values, np.ndarray):
        return list(values)
    if values.dtype.kind != "f":
        return list(values.tolist())  # None where masked
    shortened = values.astype(np.float64).round(4).tolist()
    return [None if each != each else each for each in shortened]


def write_parquet_columns(
    path: Path, kinds: Mapping[str, str], parts: Iterable[Mapping[str, Any]]
) -> None:
    """The same as Parquet."""
    schema = pyarrow.schema([(name, _TYPES[kind]) for name, kind in kinds.items()])
    with (
        atomic_write(path) as file,
        ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        for columns in parts:
            pairs = ((columns[field.name], field.type) for field in schema)
            arrays = [pyarrow.array(values, kind, from_pandas=True) for values, kind in pairs]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
