"""Hugging Face data sets, with the pictures inside: a folder that `datasets` saved, or Parquet.

The column of pictures is a struct of `bytes` and `path`. Labels are `labels`, `label` or `tags`, or
the only other column of classes: a class or a list of them (ClassLabel), a text or a list of texts;
where there is no such column, every column of numbers is a class: 1, 0 or nothing. `absent` may
name what is known not to be there.

Pictures are read where they are, or unpacked by `g2netpl convert`. Where there are paths and no
bytes, they are names below the image folder, as in any other label file.
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from g2netpl.base.errors import InputError, Refused, counted
from g2netpl.base.files import atomic_write
from g2netpl.labels.formats import parquet
from g2netpl.labels.formats.column_files import is_picture, pyarrow
from g2netpl.labels.formats.groups import group_header
from g2netpl.labels.formats.huggingface_data import ENDINGS, DataSet, parquet_files
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.reading import Reading, in_class_order
from g2netpl.labels.paths import SUFFIXES, ending_of
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable


def recognises(path: Path) -> bool:
    """A folder that `datasets` saved, and Parquet with a column of pictures."""
    if any((path / name).is_file() for name in ("state.json", "dataset_dict.json")):
        return True
    files = parquet_files(path) if path.is_dir() else [path]
    return bool(files) and files[0].suffix.lower() in ENDINGS and _has_pictures(files[0])


def image_folder(path: Path) -> Path:
    """Where pictures lie that are not inside; else the data set itself."""
    if path.is_dir() or DataSet(path, Problems()).is_packed:
        return path
    return path.parent


def names_classes(path: Path, reading: Reading) -> bool:
    """Texts do not, the names of a ClassLabel and columns do."""
    data = DataSet(path, Problems())
    return data.labels is None or data.names(data.labels) is not None


def read(path: Path, reading: Reading) -> LabelTable:
    """Read any shape; mistakes are named by row, from 0, over all its files."""
    data = DataSet(path, Problems())
    told = replace(reading, image_column=data.image, tags_column=data.labels)
    if data.labels is None:
        others = data.other_columns(reading)
        told = replace(told, ignore_columns=(*reading.ignore_columns, *others))
        return parquet.read_columns(path, data.files, told, data.images())
    names = {name: data.names(name) for name in data.kinds}
    known = names[data.labels]
    if known is not None:
        told = replace(told, classes=known)
    table = parquet.read_columns(path, data.files, told, data.images(), names)
    return table if known is None else in_class_order(table, reading, str(path))


def write(table: LabelTable, path: Path) -> list[str]:
    """Write a Parquet file with the paths of the pictures, which stay where they are."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"{path}: expected a name ending in .parquet")
    arrow, parquet_ = pyarrow()
    classes = {"names": list(table.classes), "_type": "ClassLabel"}
    features: dict[str, Any] = {"image": {"_type": "Image"}}
    none = arrow.nulls(len(table), arrow.binary())
    paths = arrow.array(table.images, type=arrow.string())
    columns = {"image": arrow.StructArray.from_arrays([none, paths], names=["bytes", "path"])}
    for name, sign in (("labels", POSITIVE), ("absent", NEGATIVE)):
        lists = [np.flatnonzero(values == sign).tolist() for values in table.values]
        columns[name] = arrow.array(lists, type=arrow.list_(arrow.int64()))
        features[name] = {"feature": classes, "_type": "Sequence"}
    for name in group_header(table):
        columns[name] = arrow.array(table.groups, type=arrow.string())
        features[name] = {"dtype": "string", "_type": "Value"}
    about = {"huggingface": json.dumps({"info": {"features": features}})}
    with atomic_write(path) as file:
        parquet_.write_table(arrow.table(columns).replace_schema_metadata(about), file)
    return []


def unpack(path: Path, table: LabelTable, folder: Path, overwrite: bool = False) -> LabelTable:
    """Write the pictures that are inside into a folder; gives the table with the names there.

    What is there already is left as it is, so that unpacking can be gone on with; another file of
    the same name is not replaced unless `overwrite` says so. A picture that is not there is left
    out, and told.
    """
    data = DataSet(path, Problems())
    if not data.is_packed:
        note = "the file has paths and no pictures, which stay where they are"
        return table.with_notes((*table.notes, note))
    folder.mkdir(parents=True, exist_ok=True)
    names: dict[str, str] = {}
    for name, content in zip(data.images(), data.pictures(), strict=True):
        if content is not None:
            names[name] = name if name.lower().endswith(SUFFIXES) else name + ending_of(content)
            _write_picture(folder / names[name], content, overwrite)
    rows = [row for row, name in enumerate(table.images) if name in names]
    kept, lost = table.take(rows), len(table) - len(rows)
    notes = [f"{counted(lost, 'row')} without a picture left out"] if lost else []
    images = [names[name] for name in kept.images]
    return LabelTable(images, kept.classes, kept.values, None, (*table.notes, *notes), kept.groups)


def _has_pictures(path: Path) -> bool:
    try:
        kinds = pyarrow()[1].read_schema(path).types if path.is_file() else []
    except Exception:  # not installed, or a damaged file, which the reader of Parquet tells
        return False
    return any(map(is_picture, kinds))


def _write_picture(path: Path, content: bytes, overwrite: bool) -> None:
    if os.path.lexists(path) and not overwrite:
        if not path.is_symlink() and path.is_file() and path.read_bytes() == content:
            return
        raise Refused(f"{path}: another file is there; choose another folder, or give --overwrite")
    with atomic_write(path) as file:
        file.write(content)
