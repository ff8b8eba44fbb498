"""Folders that are a data set of their own layout, and what to write for it.

Such a folder is no folder per class: read as one, PASCAL VOC would have the classes JPEGImages and
SegmentationClass. Official layouts are looked for in the folder, below it and one further below;
label files in the folder, in those in it and in their `annotations`.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from g2netpl.base.errors import InputError, listed
from g2netpl.labels.formats import (
    coco,
    imagefolder,
    label_studio,
    openimages,
    parquet,
    photo_tags,
    spml,
)
from g2netpl.labels.formats.text import IMAGE_HEADERS, beginning, delimiter

OFFICIAL = (  # training labels, test labels
    ("ImageSets/Main/train.txt", "ImageSets/Main/val.txt"),
    ("annotations/instances_train2014.json", "annotations/instances_val2014.json"),
    ("annotations/instances_train2017.json", "annotations/instances_val2017.json"),
    ("formatted_train_labels.npy", "formatted_val_labels.npy"),
    ("ImageList/TrainImagelist.txt", "ImageList/TestImagelist.txt"),
    ("train.csv", "test.csv"),
)
_BELOW = (".", "VOC2012", "VOCdevkit/VOC2012", "coco", "NUS-WIDE", "nuswide")
_LISTS = ("ImageSets/Main", "ImageList")  # folders of .txt files, of which one is to be named
_LOOKED_AT = 20  # files of a folder
_SNIFFED = 1 << 16  # bytes
_JSON = re.compile(rb'"(annotations|completions|images|data)"\s*:\s*[\[{]')
_NO_CLASS = re.compile(
    r"(train|training|val|valid|validation|test|testing|trainval)[-_]?\d*"
    r"|images?|imgs?|jpegimages|photos?|pictures|flickr|data|masks?|labels?|annotations?"
    r"|segmentation(class|object)(aug|_?png|_?raw)?",
    re.IGNORECASE,
)


def official(folder: Path) -> tuple[Path, Path] | None:
    """Label files to train on and to test on, where the folder is a data set as it is given out."""
    return next((pair for below in _BELOW for pair in _pairs(folder / below)), None)


def refuse_layout(folder: Path) -> None:
    """Say what to write for a folder that holds label files; its folders are no classes then."""
    if imagefolder.metadata_files(folder):
        return
    folders = list(_folders(folder, 2))
    pairs = [pair for each in folders for pair in _pairs(each)]
    found = [file for each in folders for file in _lists(each)]
    found += [file for each in _folders(folder, 1) for file in _label_files(each)]
    if not pairs and not found:
        return
    if pairs:
        chosen = pairs[0][0]
        write = f"{quote(str(chosen))} --test-labels {quote(str(pairs[0][1]))}"
        others = [str(each.relative_to(folder)) for each, _ in pairs[1:]]
        if not others:
            others = sorted(file.name for file in found if file.parent == chosen.parent)
    else:
        chosen = found[0]
        named = chosen.parent if imagefolder.is_metadata(chosen) else chosen
        write = quote(str(named))
        others = [str(file.relative_to(folder)) for file in found]
    kind = "list" if chosen.suffix == ".txt" else "file"
    there = f" (there: {listed(others)})" if len(others) > 1 or pairs[1:] else ""
    raise InputError(
        f"{folder}: name a {kind} in {folder.name / chosen.parent.relative_to(folder)} as the "
        f"label file, as --labels {write}{there}; its folders are not taken as classes "
        "(--format imagefolder takes them all the same)"
    )


def refuse_odd_classes(folder: Path, classes: Sequence[str]) -> None:
    """Folders called `train`, `images` or `masks`, and nothing else, are no classes."""
    if imagefolder.metadata_files(folder) or not all(map(_NO_CLASS.fullmatch, classes)):
        return
    raise InputError(
        f"{folder}: images lie in folders called {listed(classes)}, which are no names of classes; "
        "name a label file (--format imagefolder takes the folders all the same)"
    )


def tags_hint(folder: Path) -> list[str]:
    """What to say of a folder without a label file whose photos carry tags."""
    if imagefolder.metadata_files(folder) or not photo_tags.carry_tags(folder):
        return []
    return ["the photos carry tags of their own, which --format photo-tags reads"]


def _pairs(folder: Path) -> Iterator[tuple[Path, Path]]:
    for train, test in OFFICIAL:
        if (folder / train).is_file() and (folder / test).is_file():
            yield folder / train, folder / test


def _folders(folder: Path, depth: int) -> Iterator[Path]:
    """The folder and those in it, down to a depth; the last by name first: VOC2012, VOC2007."""
    yield folder
    if depth:
        try:
            with os.scandir(folder) as entries:
                names = [each.name for each in entries if each.is_dir() and each.name[0] != "."]
        except OSError:
            return
        for name in sorted(names, reverse=True):
            yield from _folders(folder / name, depth - 1)


def _lists(folder: Path) -> Iterator[Path]:
    """Lists of images of PASCAL VOC and NUS-WIDE; those of one class have a `_` in their names."""
    for place in _LISTS:
        for file in sorted((folder / place).glob("*.txt")):
            if "_" not in file.stem and (place != "ImageList" or file.stem.endswith("Imagelist")):
                yield file


def _label_files(folder: Path) -> Iterator[Path]:
    """Files in a folder, and in its `annotations`, that look like label files."""
    for place in (folder, folder / "annotations"):
        try:
            with os.scandir(place) as entries:
                names = (each.name for each in entries if each.name[0] != "." and each.is_file())
                some = [name for name in names if Path(name).suffix.lower() in _LOOKS]
        except OSError:
            continue
        files = (place / name for name in sorted(some)[:_LOOKED_AT])
        yield from (file for file in files if _LOOKS[file.suffix.lower()](file))


def _is_table(path: Path) -> bool:
    """A CSV file whose header is one of label files."""
    first = beginning(path).split(delimiter(path))[0].strip().strip('"').lower()
    return first in IMAGE_HEADERS or openimages.recognises(path)


def _is_json(path: Path) -> bool:
    """Annotations of COCO, or tasks of Label Studio."""
    if not coco.recognises(path) and not label_studio.recognises(path):
        return False
    with open(path, "rb") as file:
        return _JSON.search(file.read(_SNIFFED)) is not None


_LOOKS = {
    ".csv": _is_table,
    ".json": _is_json,
    ".jsonl": imagefolder.is_metadata,
    ".npy": spml.recognises,
    ".parquet": parquet.recognises,
    ".pq": parquet.recognises,
}
