"""A folder as data set: Hugging Face's `imagefolder`, with a metadata file or a folder per class.

`metadata.csv`, `metadata.jsonl` or `metadata.parquet` has `file_name` and `labels` (a list, or text
with separators; `absent` for what is known not to be there); CSV and Parquet may have a column per
class instead. Without such a file, the name of the folder that holds an image is its only known
label: the rest is unobserved. Images in the folder itself are unlabelled, and not listed.
"""

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from g2netpl.labels.io import tables
from g2netpl.labels.io.builder import TableBuilder
from g2netpl.labels.io.cells import cell_tags
from g2netpl.labels.io.columns import TAG_HEADERS
from g2netpl.labels.io.duplicates import united_note
from g2netpl.labels.io.groups import GROUP, Groups
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import ReadOptions, silent_classes
from g2netpl.labels.io.text import numbered_lines, parse_json
from g2netpl.labels.paths import list_images
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import write_text

_SPLITS = ("train", "val", "valid", "validation", "test")
_METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")


def can_read(path: Path) -> bool:
    """Any folder, and a file called metadata.jsonl."""
    return path.is_dir() or path.name == "metadata.jsonl"


def metadata_files(path: Path) -> list[Path]:
    """The metadata files of a folder; there should be one at most."""
    return [path / name for name in _METADATA if (path / name).is_file()]


def metadata_file(path: Path) -> Path:
    """The file that is written for a folder, or for this very file."""
    return path if path.name == "metadata.jsonl" else path / "metadata.jsonl"


def read(path: Path, options: ReadOptions) -> LabelTable:
    """Read the metadata file, or else take the folders as classes."""
    files = [path] if path.is_file() else metadata_files(path)
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
    lines = []
    for image, there, absent, group in tables.rows_of(table):
        content = {"file_name": image, "labels": there, "absent": absent}
        content |= {} if table.groups is None else {GROUP: group}
        lines.append(json.dumps(content, ensure_ascii=False) + "\n")
    write_text(file, "".join(lines))
    return silent_classes(table)


def _read_folders(path: Path, options: ReadOptions) -> LabelTable:
    issues = Issues()
    builder = TableBuilder(lambda place: str(path), options.classes, issues)
    loose, tops = 0, set()
    for name in list_images(path):
        folder, top = PurePosixPath(name).parent.name, name.partition("/")[0]
        if not folder:
            loose += 1
            continue
        if top != folder and top in _SPLITS:
            tops.add(top)
        builder.label(0, builder.image(0, name), folder, POSITIVE)
    if not builder.classes and not issues.found:
        raise InputError(
            f"{path}: expected a folder per class with images in it, or a metadata file "
            f"({', '.join(_METADATA)}); found {loose:,} images in the folder itself"
        )
    notes = [f"{loose:,} images in no folder of a class are unlabelled"] if loose else []
    if len(tops) > 1:
        named = " and ".join(sorted(tops))
        notes.append(f"images of {named} are read together; name one of these folders for a split")
    return builder.table(options.absent_value("unobserved"), notes)


def _read_lines(path: Path, options: ReadOptions) -> LabelTable:
    issues, rows, unite = Issues(), 0, options.duplicates == "unite"
    builder = TableBuilder(lambda place: f"{path}:{place}", options.classes, issues)
    groups = Groups(issues)
    for line, text in numbered_lines(path, issues):
        where = f"{path}:{line}"
        with issues.kept():
            content = parse_json(text, where, Issues())
            if not isinstance(content, dict) or not isinstance(content.get("file_name"), str):
                issues.add(where, "line", "expected an object with 'file_name', a text")
                continue
            rows, name = rows + 1, content["file_name"]
            row = (builder.image if unite else builder.next_image)(line, name)
            groups.add(where, name, content.get(GROUP))
            there: Any = next((content[key] for key in TAG_HEADERS if key in content), [])
            for value, cell in ((POSITIVE, there), (NEGATIVE, content.get("absent", []))):
                for tag in sorted({*_tags(cell, options, where, issues)}):
                    builder.label(line, row, tag, value)
    if not issues.found and not builder.classes:
        none = "no image has a tag" if rows else "no rows, and so no images"
        issues.stop(str(path), "no tag", f"{none}; expected tags in 'labels'")
    notes = united_note(rows - len(builder.images)) if unite else []
    return groups.on(builder.table(options.absent_value("unobserved"), notes))


def _tags(cell: Any, options: ReadOptions, where: str, issues: Issues) -> Iterator[str]:
    """The tags in a text, a list of texts, or nothing."""
    if cell is None or isinstance(cell, str):
        yield from cell_tags(cell or "", options.separator or ";|")
    elif isinstance(cell, list) and all(isinstance(each, str) for each in cell):
        yield from cell
    else:
        issues.add(where, "cell", f"labels: expected text or a list of it, got {cell!r:.60}")
