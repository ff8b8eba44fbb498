"""COCO's instances JSON, and LVIS's, which also says what is known to be absent.

An object of a class makes the class positive, crowds too. COCO annotates everything, so a class
without an object is negative, and images without any annotation are left out, as the SPML protocol
has it; with `absent = unobserved` the one is unknown and the others stay as unlabelled images.
In files with `neg_category_ids` (LVIS) the negatives are those, and the rest is unknown.
Images are sorted by their ids as text, as in SPML.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from g2netpl.base.disk import write_text_whole
from g2netpl.base.errors import InputError
from g2netpl.labels.formats.collector import Collector
from g2netpl.labels.formats.json_file import member, mistake, read_json
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.reading import Reading, class_problem, in_class_order
from g2netpl.labels.formats.text import beginning
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable, per_image

Image = tuple[dict[str, Any], int]  # and its place in the file
_OFFICIAL = re.compile("instances_(train|val)20(14|17)")  # every object is annotated there


def recognises(path: Path) -> bool:
    """A JSON file that is an object."""
    return path.suffix.lower() == ".json" and beginning(path).startswith("{")


def image_folder(path: Path) -> Path:
    """`train2014/` beside `annotations/instances_train2014.json`, else the file's own folder."""
    if path.parent.name == "annotations":
        folder = path.parent.parent / path.stem.removeprefix("instances_")
        return folder if folder.is_dir() else path.parent.parent / "images"
    return path.parent


def read(path: Path, reading: Reading) -> LabelTable:
    """Read annotations; mistakes are named by their place in the file."""
    problems = Problems()
    content = read_json(path, problems)
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected an object with images, annotations and categories")
    images, annotations, categories = (
        member(content, key, list, str(path)) for key in ("images", "annotations", "categories")
    )
    names = _category_names(path, categories, problems)
    by_id = _images_by_id(path, images, problems)
    federated = any("neg_category_ids" in image for image, _ in by_id.values())
    collector = Collector(lambda place: f"{path}: images[{place}]", names.values(), problems)
    for image, place in by_id.values():
        with problems.kept():
            _read_image(image, place, names, collector)
    problems.raise_any()
    _read_annotations(path, annotations, by_id, names, collector)
    absent = reading.absent_value("unobserved" if federated else "negative")
    table = collector.table(absent)
    if absent == NEGATIVE:
        table = _annotated(table, path.stem, reading)
    return in_class_order(table, reading, f"{path}: categories")


def _read_annotations(
    path: Path,
    annotations: list[Any],
    by_id: dict[int | str, Image],
    names: dict[int, str],
    collector: Collector,
) -> None:
    """Collect the objects."""
    row_of = {identity: row for row, identity in enumerate(by_id)}
    problems = collector.problems
    for place, annotation in enumerate(annotations):
        where = f"{path}: annotations[{place}]"
        with problems.kept():
            identity = _identity(annotation, "image_id", where)
            number = member(annotation, "category_id", int, where)
            if identity not in by_id:
                problems.add(where, "unknown image", f"image_id {identity!r} is not in 'images'")
            elif number not in names:
                problems.add(where, "unknown class", f"category_id {number} is not in 'categories'")
            else:
                _, at = by_id[identity]
                collector.label(at, row_of[identity], names[number], POSITIVE)


def _annotated(table: LabelTable, stem: str, reading: Reading) -> LabelTable:
    """Without the images that nobody annotated, which is told, where the rest is complete."""
    kept = np.flatnonzero(per_image(table.values, POSITIVE))
    notes = []
    if len(kept) < len(table):
        notes.append(
            f"{len(table) - len(kept):,} images without any annotation are left out, as in "
            "the SPML protocol (--absent unobserved keeps them, unlabelled)"
        )
    if not _OFFICIAL.fullmatch(stem) and reading.absent is None:
        notes.append(
            "classes without an annotation are taken as negative; where only some objects "
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
    write_text_whole(path, json.dumps(content, ensure_ascii=False) + "\n")
    return []


def _category_names(path: Path, categories: list[Any], problems: Problems) -> dict[int, str]:
    """Names by id, in the order of the ids."""
    names: dict[int, str] = {}
    seen: set[str] = set()
    for place, category in enumerate(categories):
        where = f"{path}: categories[{place}]"
        with problems.kept():
            number, name = member(category, "id", int, where), member(category, "name", str, where)
            odd = class_problem(name)
            if number in names:
                odd = f"id {number} is there twice"
            elif name in seen:
                odd = f"the name {name!r} is there twice"
            if odd is not None:
                problems.add(where, "category", odd)
            names[number] = name
            seen.add(name)
    problems.raise_any()
    if not names:
        raise InputError(f"{path}: categories: expected at least one, got none")
    return dict(sorted(names.items()))


def _images_by_id(path: Path, images: list[Any], problems: Problems) -> dict[int | str, Image]:
    """Images by id, in the order of the ids as text."""
    by_id: dict[int | str, Image] = {}
    for place, image in enumerate(images):
        where = f"{path}: images[{place}]"
        with problems.kept():
            identity = _identity(image, "id", where)
            if identity in by_id:
                problems.add(where, "image listed twice", f"id {identity!r} is there twice")
            by_id.setdefault(identity, (image, place))
    return dict(sorted(by_id.items(), key=lambda item: str(item[0])))


def _identity(entry: Any, key: str, where: str) -> int | str:
    if isinstance(entry, dict) and isinstance(entry.get(key), str):
        return str(entry[key])
    return int(member(entry, key, int, where))


def _read_image(
    image: dict[str, Any], place: int, names: dict[int, str], collector: Collector
) -> None:
    """Collect an image and what is known to be absent from it."""
    where = collector.at(place)
    if "file_name" not in image and isinstance(image.get("coco_url"), str):  # LVIS
        name = image["coco_url"].rpartition("/")[2]
    else:
        name = member(image, "file_name", str, where)
    row = collector.new_image(place, name)
    if image.get("neg_category_ids") is None:
        return
    for number in member(image, "neg_category_ids", list, where):
        if not isinstance(number, int) or number not in names:
            raise mistake(where, f"neg_category_ids: {number!r:.60} is not in 'categories'")
        collector.label(place, row, names[number], NEGATIVE)
