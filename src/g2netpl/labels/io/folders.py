"""A folder as data set: Hugging Face's `imagefolder`, with a metadata file or a folder per class.

`metadata.csv`, `metadata.jsonl` or `metadata.parquet` has `file_name` and the columns of any other
table, such as `labels` (a list, or text with separators) and `absent`. Without such a file, the
name of the folder that holds an image is its only known label: the rest is unobserved. Images in
the folder itself are unlabelled, and not listed.
"""

import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from g2netpl.labels.io import tables
from g2netpl.labels.io.build import long_table
from g2netpl.labels.io.columns import TAG_HEADERS
from g2netpl.labels.io.frames import sheet_of_frame
from g2netpl.labels.io.issues import Issues, numbered_lines
from g2netpl.labels.io.options import ReadOptions, silent_classes
from g2netpl.labels.names import plain_names
from g2netpl.labels.paths import list_images
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable
from g2netpl.utils.errors import InputError, listed
from g2netpl.utils.files import write_text

_SPLITS = ("train", "val", "valid", "validation", "test")
_METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
_NO_CLASS = re.compile(  # what folders are called that hold no class
    r"(train|training|val|valid|validation|test|testing|trainval)[-_]?\d*"
    r"|images?|imgs?|jpegimages|photos?|pictures|flickr|data|masks?|labels?|annotations?"
    r"|segmentation(class|object)(aug|_?png|_?raw)?"
    r"|(19|20)\d\d([-_. ]?\d\d){0,2}",  # years and days
    re.IGNORECASE,
)


def can_read(path: Path) -> bool:
    """Any folder, and a file called metadata.jsonl."""
    return path.is_dir() or path.name == "metadata.jsonl"


def metadata_file(path: Path) -> Path:
    """The file that is written for a folder, or for this very file."""
    return path if path.name == "metadata.jsonl" else path / "metadata.jsonl"


def read(path: Path, options: ReadOptions) -> LabelTable:
    """Read the metadata file, or else take the folders as classes."""
    files = [path] if path.is_file() else [path / name for name in _METADATA]
    files = [file for file in files if file.is_file()]
    if len(files) > 1:
        raise InputError(f"{path}: {files[0].name} and {files[1].name}: expected one of them only")
    if not files:
        return _read_folders(path, options)
    if files[0].suffix == ".jsonl":
        return _read_lines(files[0], options)
    return tables.read(files[0], options)


def write(table: LabelTable, path: Path) -> list[str]:
    """Write metadata.jsonl into the folder; the images are not copied."""
    file = metadata_file(path)
    if file != path and path.suffix and not path.is_dir():
        raise InputError(f"{path}: expected a folder, or its metadata.jsonl")
    others = [name for name in _METADATA if name != file.name and (file.parent / name).is_file()]
    if others:
        raise InputError(f"{file.parent}: {others[0]} is there; two metadata files cannot be read")
    file.parent.mkdir(parents=True, exist_ok=True)
    columns = {
        "file_name": table.images,
        "labels": tables.names_of(table, POSITIVE),
        "absent": tables.names_of(table, NEGATIVE),
        **tables.group_column(table),
    }
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    write_text(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return silent_classes(table)


def _read_lines(path: Path, options: ReadOptions) -> LabelTable:
    """The table in a file with an object per line."""
    issues, rows = Issues(), list[dict[str, Any]]()
    for line, text in numbered_lines(path, issues):
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as problem:
            row = problem
        if isinstance(row, dict):
            rows.append(row)
        else:
            issues.add(f"{path}:{line}", "JSON", f"expected a JSON object, got {row!s:.60}")
    issues.raise_any()
    names = dict.fromkeys(name for row in rows for name in row)
    plain = [name for name in names if not any(isinstance(row.get(name), dict) for row in rows)]
    frame = pd.DataFrame({name: [row.get(name) for row in rows] for name in plain}, dtype=object)
    tags = tuple(name for name in TAG_HEADERS if name in frame)[:1] or options.tags_column
    options = options.model_copy(update={"image_column": "file_name", "tags_column": tags})
    return tables.read_sheet(sheet_of_frame(frame, path, issues), options)


def _read_folders(path: Path, options: ReadOptions) -> LabelTable:
    """The images in folders, which are classes."""
    names = list_images(path)
    images = [name for name in names if "/" in name]
    classes = [PurePosixPath(name).parent.name for name in images]
    loose = len(names) - len(images)
    if not images:
        problem = "expected a folder per class with images in it, or a metadata file "
        problem += f"({', '.join(_METADATA)}); found {loose:,} images in the folder itself, whose "
        raise InputError(f"{path}: {problem}keywords are read with --format photo-tags")
    if options.classes is None and all(map(_NO_CLASS.fullmatch, classes)):
        problem = f"images are in folders called {listed(sorted({*classes}))}, which are not names "
        problem += "of classes; read the keywords of photos with --format photo-tags, or name a "
        problem += "label file; if they are classes, list them in a file for --set classes=FILE"
        raise InputError(f"{path}: {problem}")
    notes = [f"{loose:,} images in no folder of a class are unlabelled"] if loose else []
    if next(path.rglob("*.xmp"), None) is not None:
        notes.append(
            "the classes are the names of folders; the keywords of the photos are read with "
            "--format photo-tags"
        )
    splits = sorted({name.partition("/")[0] for name in images} & {*_SPLITS} - {*classes})
    if len(splits) > 1:
        shown = " and ".join(splits)
        notes.append(f"images of {shown} are read together; name one of these folders for a split")
    labels = [(row, name, POSITIVE) for row, name in enumerate(classes)]
    where, absent = f"{path}".format, options.absent_value("unobserved")
    names, known = plain_names(images), options.classes
    return long_table(names, labels, where, Issues(), known, absent, notes)
