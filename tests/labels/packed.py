"""Hugging Face data sets with the pictures inside."""

import io
import json

import pytest
from PIL import Image

NAMES = ("cat", "dog", "owl")
PATHS = ("a.jpg", None, "../a.png", "x/A.JPG", ".hidden")
LABELS = ([0], [1, 2], [], None, [2])
LISTS = {"feature": {"names": list(NAMES), "_type": "ClassLabel"}, "_type": "List"}


def png(number):
    """A small picture, another one for each number."""
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (number * 40 % 256, number % 256, 90)).save(buffer, "PNG")
    return buffer.getvalue()


def images(paths, contents=None):
    """A column of pictures."""
    arrow = pytest.importorskip("pyarrow")
    contents = [png(row) for row in range(len(paths))] if contents is None else contents
    arrays = [arrow.array(contents, arrow.binary()), arrow.array(paths, arrow.string())]
    return arrow.StructArray.from_arrays(arrays, names=["bytes", "path"])


def write(path, columns, features=None, **options):
    """A file of columns; with another ending than .parquet, a folder that `datasets` saved."""
    arrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    table = arrow.table(columns)
    if features is not None:
        about = json.dumps({"info": {"features": features}})
        table = table.replace_schema_metadata({"huggingface": about})
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        write_table(table, path, **options)
    else:
        pytest.importorskip("datasets").Dataset(table).save_to_disk(path)
    return path


def pictures(path, labels=LABELS, **options):
    """Five pictures with lists of classes."""
    arrow = pytest.importorskip("pyarrow")
    cells = arrow.array(labels, arrow.list_(arrow.int64()))
    columns = {"image": images(PATHS), "labels": cells, "caption": [*"abcde"]}
    return write(path, columns, {"image": {"_type": "Image"}, "labels": LISTS}, **options)
