"""A folder as data set: Hugging Face's `imagefolder`, with a metadata file or a folder per class.

`metadata.csv`, `metadata.jsonl` or `metadata.parquet` has `file_name` and `labels` (a list, or text
with separators; `absent` for what is known not to be there); CSV and Parquet may have a column per
class instead. Without such a file, the name of the folder an image lies in is its only known label:
the rest is unobserved. Images that lie in the folder itself are unlabelled, and not listed.
"""

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from g2netpl.base.disk import write_text_whole
from g2netpl.base.errors import InputError
from g2netpl.labels.formats import csv_table, parquet, tags
from g2netpl.labels.formats.collector import Collector
from g2netpl.labels.formats.columns import GROUP, TAG_HEADERS
from g2netpl.labels.formats.groups import group_cells, group_header
from g2netpl.labels.formats.json_file import parse_json
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.reading import Reading, silent_classes
from g2netpl.labels.formats.text import numbered_lines
from g2netpl.labels.paths import list_images
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable

_PARTS = ("train", "val", "valid", "validation", "test")
_METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")


def recognises(path: Path) -> bool:
    """Any folder, and a file called metadata.jsonl."""
    return path.is_dir() or path.name == "metadata.jsonl"


def metadata_files(path: Path) -> list[Path]:
    """The metadata files of a folder; there should be one at most."""
    return [path / name for name in _METADATA if (path / name).is_file()]


def metadata_file(path: Path) -> Path:
    """The file that is written for a folder, or for this very file."""
    return path if path.name == "metadata.jsonl" else path / "metadata.jsonl"


def read(path: Path, reading: Reading) -> LabelTable:
    """Read the metadata file, or else take the folders as classes."""
    if path.is_file():
        return _read_lines(path, reading)
    files = metadata_files(path)
    if len(files) > 1:
        raise InputError(f"{path}: {files[0].name} and {files[1].name}: expected one of them only")
    if not files:
        return _read_folders(path, reading)
    if files[0].suffix == ".parquet":
        return parquet.read(files[0], reading)
    if files[0].suffix == ".jsonl":
        return _read_lines(files[0], reading)
    return csv_table.read(files[0], reading)


def write(table: LabelTable, path: Path) -> list[str]:
    """Write metadata.jsonl into the folder; the images are not copied."""
    file = metadata_file(path)
    if file != path and path.suffix and not path.is_dir():
        raise InputError(f"{path}: expected a folder, or its metadata.jsonl")
    others = [name for name in _METADATA if name != file.name and (file.parent / name).is_file()]
    if others:
        raise InputError(f"{file.parent}: {others[0]} is there; two metadata files cannot be read")
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text_whole(file, "".join(f"{line}\n" for line in json_lines(table)))
    return silent_classes(table)


def json_lines(table: LabelTable) -> Iterator[str]:
    """What is known about each image, as an object of JSON."""
    names = np.array(table.classes, dtype=object)
    for image, values, group in zip(table.images, table.values, group_cells(table), strict=True):
        content = {
            "file_name": image,
            "labels": names[values == POSITIVE].tolist(),
            "absent": names[values == NEGATIVE].tolist(),
            **dict(zip(group_header(table), group, strict=True)),
        }
        yield json.dumps(content, ensure_ascii=False)


def _read_folders(path: Path, reading: Reading) -> LabelTable:
    problems = Problems()
    collector = Collector(lambda place: str(path), reading.classes, problems)
    loose, tops = 0, set()
    for name in list_images(path):
        folder, top = PurePosixPath(name).parent.name, name.partition("/")[0]
        if not folder:
            loose += 1
            continue
        if top != folder and top in _PARTS:
            tops.add(top)
        collector.label(0, collector.image(0, name), folder, POSITIVE)
    if not collector.classes and not problems.found:
        raise InputError(
            f"{path}: expected a folder per class with images in it, or a metadata file "
            f"({', '.join(_METADATA)}); found {loose:,} images in the folder itself"
        )
    notes = [f"{loose:,} images in no folder of a class are unlabelled"] if loose else []
    if len(tops) > 1:
        named = " and ".join(sorted(tops))
        notes.append(f"images of {named} are read together; name one of these folders to part them")
    return collector.table(reading.absent_value("unobserved"), notes)


def _read_lines(path: Path, reading: Reading) -> LabelTable:
    problems = Problems()

    def rows() -> Iterator[tags.Tags]:
        for line, text in numbered_lines(path, problems):
            where = f"{path}:{line}"
            with problems.kept():
                content = parse_json(text, where, Problems())
                if not isinstance(content, dict) or not isinstance(content.get("file_name"), str):
                    problems.add(where, "line", "expected an object with 'file_name', a text")
                    continue
                yield line, content["file_name"], *_known_in(content, where, reading, problems)

    return tags.collect(path, rows(), reading, problems)


def _known_in(
    content: dict[str, Any], where: str, reading: Reading, problems: Problems
) -> tuple[list[str], list[str], Any]:
    """The classes that an object of JSON says are there and are absent, and the group."""
    present: Any = next((content[key] for key in TAG_HEADERS if key in content), [])
    cells = (present, content.get("absent", []))
    there, absent = (tags.in_cell(cell, reading, where, "labels", problems) for cell in cells)
    return there, absent, content.get(GROUP)
