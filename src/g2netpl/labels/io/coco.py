"""COCO's instances JSON, and LVIS's, which also says what is known to be absent.

An object of a class makes the class positive, crowds too. COCO annotates everything, so a class
without an object is negative, and images without any annotation are left out, as in the SPML
protocol; with `absent = unobserved` the one is unknown and the others stay as unlabelled images.
In files with `neg_category_ids` (LVIS) the negatives are those, and the rest is unknown.
Images are sorted by their ids as text, as in SPML.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from g2netpl.labels.io.builder import TableBuilder
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import ReadOptions, class_problem, in_class_order
from g2netpl.labels.io.text import beginning, json_issue, member, read_json
from g2netpl.labels.names import normalize_name
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable, per_image
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import write_text

_OFFICIAL = re.compile("instances_(train|val)20(14|17)")  # every object is annotated there


def can_read(path: Path) -> bool:
    """A JSON file that is an object."""
    return path.suffix.lower() == ".json" and beginning(path).startswith("{")


def image_folder(path: Path) -> Path:
    """`train2014/` next to `annotations/instances_train2014.json`, else the file's own folder."""
    if path.parent.name == "annotations":
        folder = path.parent.parent / path.stem.removeprefix("instances_")
        return folder if folder.is_dir() else path.parent.parent / "images"
    return path.parent


def read(path: Path, options: ReadOptions) -> LabelTable:
    """Read annotations; issues name their place in the file."""
    issues = Issues()
    content = read_json(path, issues)
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected an object with images, annotations and categories")
    images, annotations, categories = (
        member(content, key, list, str(path)) for key in ("images", "annotations", "categories")
    )
    names = _category_names(path, categories, issues)
    by_id: dict[int | str, tuple[dict[str, Any], int]] = {}
    for place, image in enumerate(images):
        where = f"{path}: images[{place}]"
        with issues.kept():
            identity = _identity(image, "id", where)
            if identity in by_id:
                issues.add(where, "image listed twice", f"id {identity!r} is there twice")
            by_id.setdefault(identity, (image, place))
    by_id = dict(sorted(by_id.items(), key=lambda item: str(item[0])))
    builder = TableBuilder(lambda place: f"{path}: images[{place}]", names.values(), issues)
    for image, place in by_id.values():
        with issues.kept():
            _read_image(image, place, names, builder)
    issues.raise_any()
    row_of = {identity: row for row, identity in enumerate(by_id)}
    for place, annotation in enumerate(annotations):
        where = f"{path}: annotations[{place}]"
        with issues.kept():
            identity = _identity(annotation, "image_id", where)
            number = member(annotation, "category_id", int, where)
            if identity not in by_id:
                issues.add(where, "unknown image", f"image_id {identity!r} is not in 'images'")
            elif number not in names:
                issues.add(where, "unknown class", f"category_id {number} is not in 'categories'")
            else:
                builder.label(by_id[identity][1], row_of[identity], names[number], POSITIVE)
    federated = any("neg_category_ids" in image for image, _ in by_id.values())
    absent = options.absent_value("unobserved" if federated else "negative")
    table = builder.table(absent)
    if absent == NEGATIVE:
        table = _annotated(table, path.stem, options)
    return in_class_order(table, options, f"{path}: categories")


def _annotated(table: LabelTable, stem: str, options: ReadOptions) -> LabelTable:
    """Without the images that nobody annotated, if the rest is complete."""
    kept = np.flatnonzero(per_image(table.values, POSITIVE))
    notes = []
    if len(kept) < len(table):
        notes.append(
            f"{len(table) - len(kept):,} images without any annotation are left out, as in "
            "the SPML protocol (--absent unobserved keeps them, unlabelled)"
        )
    if not _OFFICIAL.fullmatch(stem) and options.absent is None:
        notes.append(
            "classes without an annotation are taken as negative; if only some objects "
            "were drawn, give --absent unobserved"
        )
    return table.take(kept).with_notes(notes)


def write(table: LabelTable, path: Path) -> list[str]:
    """Write images, categories and an annotation without a box per positive; LVIS's negatives."""
    first = 10 ** len(str(len(table)))  # ids of one length: sorted as text as well
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, int]] = []
    for row, (name, values) in enumerate(zip(table.images, table.values, strict=True)):
        image = {"id": first + row, "file_name": name}
        negative = (np.flatnonzero(values == NEGATIVE) + 1).tolist()
        images.append(image | {"neg_category_ids": negative, "not_exhaustive_category_ids": []})
        for column in np.flatnonzero(values == POSITIVE).tolist():
            ids = {"id": len(annotations) + 1, "image_id": first + row, "category_id": column + 1}
            annotations.append(ids | {"iscrowd": 0})
    categories = [{"id": column + 1, "name": name} for column, name in enumerate(table.classes)]
    content = {"images": images, "annotations": annotations, "categories": categories}
    write_text(path, json.dumps(content, ensure_ascii=False) + "\n")
    return []


def _category_names(path: Path, categories: list[Any], issues: Issues) -> dict[int, str]:
    """Names by id, in the order of the ids."""
    names: dict[int, str] = {}
    for place, category in enumerate(categories):
        where = f"{path}: categories[{place}]"
        with issues.kept():
            number = member(category, "id", int, where)
            name = normalize_name(member(category, "name", str, where))
            odd = class_problem(name)
            if number in names:
                odd = f"id {number} is there twice"
            elif name in names.values():
                odd = f"the name {name!r} is there twice"
            if odd is not None:
                issues.add(where, "category", odd)
            names[number] = name
    issues.raise_any()
    if not names:
        raise InputError(f"{path}: categories: expected at least one, got none")
    return dict(sorted(names.items()))


def _identity(entry: Any, key: str, where: str) -> int | str:
    if isinstance(entry, dict) and isinstance(entry.get(key), str):
        return str(entry[key])
    return int(member(entry, key, int, where))


def _read_image(
    image: dict[str, Any], place: int, names: dict[int, str], builder: TableBuilder
) -> None:
    """Take an image and what is known to be absent from it."""
    where = builder.at(place)
    if "file_name" not in image and isinstance(image.get("coco_url"), str):  # LVIS
        name = image["coco_url"].rpartition("/")[2]
    else:
        name = member(image, "file_name", str, where)
    row = builder.new_image(place, name)
    if image.get("neg_category_ids") is None:
        return
    for number in member(image, "neg_category_ids", list, where):
        if not isinstance(number, int) or number not in names:
            raise json_issue(where, f"neg_category_ids: {number!r:.60} is not in 'categories'")
        builder.label(place, row, names[number], NEGATIVE)
