"""CSV label files, in two shapes.

Wide: `image,cat,dog,…`, one row per image; 1 positive, 0 negative, empty or −1 unobserved.
Tags: `image,labels`, tags separated by `;` or `|`; what is not tagged is unobserved.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from g2netpl.errors import InputError
from g2netpl.labels import NEGATIVE, POSITIVE, UNOBSERVED, LabelTable

_CELLS = {"1": POSITIVE, "0": NEGATIVE, "": UNOBSERVED, "-1": UNOBSERVED}
_TAG_HEADERS = (["image", "labels"], ["image", "tags"])


def recognises(path: Path) -> bool:
    """By its ending."""
    return path.suffix.lower() == ".csv"


def read(path: Path) -> LabelTable:
    """Read either shape; a mistake is named by file and line."""
    rows = _rows(path)
    line, header = next(rows, (1, []))
    header = [name.strip() for name in header]
    if not header or header[0] != "image" or len(header) < 2:
        raise InputError(
            f"{path}:{line}: expected a header 'image,<class>,…' or 'image,labels', "
            f"got {','.join(header)[:80]!r}"
        )
    if header in _TAG_HEADERS:
        return _read_tags(path, rows)
    return _read_wide(path, header[1:], rows)


def write(table: LabelTable, path: Path) -> None:
    """Write the wide shape; unobserved cells stay empty."""
    names = {POSITIVE: "1", NEGATIVE: "0", UNOBSERVED: ""}
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["image", *table.classes])
        for image, values in zip(table.images, table.values.tolist(), strict=True):
            writer.writerow([image, *(names[value] for value in values)])


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Lines of the file with their numbers; empty lines are passed over."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            for row in reader:
                if row:
                    yield reader.line_num, row
    except UnicodeDecodeError as problem:
        raise InputError(f"{path}: expected UTF-8 text, byte {problem.start} is not") from None
    except csv.Error as problem:
        raise InputError(f"{path}:{reader.line_num}: {problem}") from None
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror})") from None


def _read_wide(path: Path, classes: list[str], rows: Iterator[tuple[int, list[str]]]) -> LabelTable:
    for position, name in enumerate(classes, start=2):
        if not name:
            raise InputError(f"{path}:1: column {position} has no class name")
        if classes.index(name) != position - 2:
            raise InputError(f"{path}:1: class {name!r} is listed twice; each must be unique")
    images: dict[str, int] = {}
    values = []
    for line, row in rows:
        if len(row) != len(classes) + 1:
            raise InputError(
                f"{path}:{line}: expected {len(classes) + 1} cells as in the header, got {len(row)}"
            )
        _add_image(path, line, row[0], images)
        try:
            values.append([_CELLS[cell] for cell in row[1:]])
        except KeyError:
            values.append(
                [_cell(path, line, name, cell) for name, cell in zip(classes, row[1:], strict=True)]
            )
    matrix = np.array(values, dtype=np.int8).reshape(len(values), len(classes))
    return LabelTable(tuple(images), tuple(classes), matrix)


def _cell(path: Path, line: int, name: str, cell: str) -> int:
    text = cell.strip()
    if text in ("1.0", "0.0", "-1.0"):  # as spreadsheets and pandas write them
        text = text.removesuffix(".0")
    if text not in _CELLS:
        raise InputError(
            f"{path}:{line}: class {name!r}: expected 1, 0 or an empty cell (unobserved), "
            f"got {cell!r}"
        )
    return _CELLS[text]


def _read_tags(path: Path, rows: Iterator[tuple[int, list[str]]]) -> LabelTable:
    images: dict[str, int] = {}
    tags: list[list[str]] = []
    for line, row in rows:
        if len(row) != 2:
            raise InputError(
                f"{path}:{line}: expected 2 cells (image, tags), got {len(row)}; separate tags "
                "by ';' or '|'"
            )
        _add_image(path, line, row[0], images)
        tags.append([tag.strip() for tag in row[1].replace("|", ";").split(";") if tag.strip()])
    classes = sorted({tag for of_image in tags for tag in of_image})
    if not classes:
        raise InputError(f"{path}: no image has a tag; expected tags in the column 'labels'")
    position = {name: index for index, name in enumerate(classes)}
    values = np.full((len(tags), len(classes)), UNOBSERVED, dtype=np.int8)
    for row_index, of_image in enumerate(tags):
        values[row_index, [position[tag] for tag in of_image]] = POSITIVE
    return LabelTable(tuple(images), tuple(classes), values)


def _add_image(path: Path, line: int, name: str, images: dict[str, int]) -> None:
    if not name.strip():
        raise InputError(f"{path}:{line}: the image name is empty")
    if name in images:
        raise InputError(f"{path}:{line}: image {name!r} is listed already on line {images[name]}")
    images[name] = line
