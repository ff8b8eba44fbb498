"""COCO's instances JSON, and LVIS's, which also says what is known to be absent.

An object of a class makes the class positive, crowds too. COCO annotates everything, so a class
without an object is negative, and images without any annotation are left out, as in the SPML
protocol; with `absent = unobserved` the one is unknown and the others stay as unlabelled images.
In files with `neg_category_ids` (LVIS) the negatives are those, and the rest is unknown.
Images are sorted by their ids as text, as in SPML.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, Field

from g2netpl.labels.io.build import long_table
from g2netpl.labels.io.issues import Issues, beginning, read_json
from g2netpl.labels.io.options import ReadOptions, check_classes
from g2netpl.labels.names import normalize_name, plain_names
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable, per_image
from g2netpl.utils.files import write_text

_OFFICIAL = re.compile("instances_(train|val)20(14|17)")  # every object is annotated there


class _Image(BaseModel):
    id: str = Field(coerce_numbers_to_str=True)
    file_name: str = ""
    coco_url: str = ""  # LVIS has no file names
    neg_category_ids: list[int] | None = None


class _Annotation(BaseModel):
    image_id: str = Field(coerce_numbers_to_str=True)
    category_id: int


class _Category(BaseModel):
    id: int
    name: str


class _Content(BaseModel):
    images: list[_Image]
    annotations: list[_Annotation]
    categories: list[_Category] = Field(min_length=1)


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
    content: _Content = read_json(path, issues, _Content, "COCO")
    images = sorted(content.images, key=lambda image: image.id)
    categories = sorted(content.categories, key=lambda category: category.id)
    classes = [normalize_name(category.name) for category in categories]
    check_classes(classes, f"{path}: categories", issues)
    row_of = {image.id: row for row, image in enumerate(images)}
    class_of = {each.id: name for each, name in zip(categories, classes, strict=True)}
    for items, unique in ((images, row_of), (categories, class_of)):
        if len(unique) < len(items):
            twice, _ = Counter(item.id for item in items).most_common(1)[0]
            issues.stop(str(path), "id listed twice", f"id {twice} occurs twice")
    negatives = [(image.id, number) for image in images for number in image.neg_category_ids or ()]
    labels = []
    for key, sign, pairs in (
        ("neg_category_ids", NEGATIVE, negatives),
        ("annotations", POSITIVE, [(box.image_id, box.category_id) for box in content.annotations]),
    ):
        for place, (image, number) in enumerate(pairs):
            if image in row_of and number in class_of:
                labels.append((row_of[image], class_of[number], sign))
            else:
                unknown = image if image not in row_of else number
                issues.add(f"{path}: {key}[{place}]", "unknown id", f"there is no id {unknown}")
    issues.raise_any()
    is_federated = any(image.neg_category_ids is not None for image in images)
    absent = options.absent_value("unobserved" if is_federated else "negative")
    names = plain_names(image.file_name or image.coco_url.rpartition("/")[2] for image in images)
    where = [f"{path}: image {image.id}" for image in images].__getitem__
    table = long_table(names, labels, where, issues, classes, absent)
    if absent != NEGATIVE:
        return table
    kept, notes = np.flatnonzero(per_image(table.values, POSITIVE)), []
    if len(kept) < len(table):
        what = f"{len(table) - len(kept):,} images without any annotation are left out"
        notes.append(
            f"{what}, as in the SPML protocol (--set absent=unobserved keeps them, unlabelled)"
        )
    if not _OFFICIAL.fullmatch(path.stem) and options.absent is None:
        note = "classes without an annotation are taken as negative; if only some objects were "
        notes.append(f"{note}annotated, give --set absent=unobserved")
    return table.take(kept).with_notes(notes)


def write(table: LabelTable, path: Path) -> list[str]:
    """Write images, categories and an annotation without a box per positive; LVIS's negatives."""
    first = 10 ** len(str(len(table)))  # ids of one length: sorted as text as well
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, int]] = []
    for row, (name, values) in enumerate(zip(table.images, table.values, strict=True), first):
        negative = (np.flatnonzero(values == NEGATIVE) + 1).tolist()
        image = {"id": row, "file_name": name, "neg_category_ids": negative}
        images.append(image | {"not_exhaustive_category_ids": []})
        for category in (np.flatnonzero(values == POSITIVE) + 1).tolist():
            ids = {"id": len(annotations) + 1, "image_id": row, "category_id": category}
            annotations.append(ids | {"iscrowd": 0})
    categories = [{"id": number, "name": name} for number, name in enumerate(table.classes, 1)]
    content = {"images": images, "annotations": annotations, "categories": categories}
    write_text(path, json.dumps(content, ensure_ascii=False) + "\n")
    return []
