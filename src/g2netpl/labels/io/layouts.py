"""Folders that are a published data set, and what to write for them.

Such a folder is no folder per class: read as one, PASCAL VOC would have the classes JPEGImages and
SegmentationClass. VOC and COCO are looked for in the folder and two levels below.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from g2netpl.labels.io import photo_tags
from g2netpl.labels.io.folders import metadata_files
from g2netpl.utils.errors import InputError, listed

_VOC_AND_COCO = (  # training labels, test labels
    ("ImageSets/Main/train.txt", "ImageSets/Main/val.txt"),
    ("annotations/instances_train2014.json", "annotations/instances_val2014.json"),
    ("annotations/instances_train2017.json", "annotations/instances_val2017.json"),
)
OFFICIAL = (
    *_VOC_AND_COCO,
    ("formatted_train_labels.npy", "formatted_val_labels.npy"),
    ("ImageList/TrainImagelist.txt", "ImageList/TestImagelist.txt"),
    ("train.csv", "test.csv"),
)
_BELOW = (".", "VOC2012", "VOCdevkit/VOC2012", "coco", "NUS-WIDE", "nuswide")
_NO_CLASS = re.compile(
    r"(train|training|val|valid|validation|test|testing|trainval)[-_]?\d*"
    r"|images?|imgs?|jpegimages|photos?|pictures|flickr|data|masks?|labels?|annotations?"
    r"|segmentation(class|object)(aug|_?png|_?raw)?",
    re.IGNORECASE,
)


def official(folder: Path) -> tuple[Path, Path] | None:
    """Label files to train on and to test on, if the folder is a data set as it is published."""
    found = (pair for below in _BELOW for pair in _pairs(folder / below, OFFICIAL))
    return next(found, None)


def refuse_layout(folder: Path) -> None:
    """Say what to write for a folder of VOC or COCO; its folders are no classes."""
    folders = [] if metadata_files(folder) else _folders(folder)
    pairs = [pair for each in folders for pair in _pairs(each, _VOC_AND_COCO)]
    found = []
    for each in folders:  # lists of one class have a `_` in their names
        lists = sorted((each / "ImageSets/Main").glob("*.txt"))
        found += [file for file in lists if "_" not in file.stem]
        found += sorted((each / "annotations").glob("*.json"))
    if not found:
        return
    write = quote(str(pairs[0][0] if pairs else found[0]))
    if pairs:
        write += f" --test-labels {quote(str(pairs[0][1]))}"
    there = listed(str(file.relative_to(folder)) for file in found)
    raise InputError(
        f"{folder}: name a label file, as --labels {write} (there: {there}); its folders are not "
        "taken as classes (--format imagefolder takes them all the same)"
    )


def refuse_odd_classes(folder: Path, classes: Sequence[str]) -> None:
    """Folders called `train`, `images` or `masks`, and nothing else, are no classes."""
    if metadata_files(folder) or not all(map(_NO_CLASS.fullmatch, classes)):
        return
    raise InputError(
        f"{folder}: images are in folders called {listed(classes)}, which are no names of classes; "
        "name a label file (--format imagefolder takes the folders all the same)"
    )


def tags_hint(folder: Path) -> list[str]:
    """What to say of a folder without a label file whose photos have keywords."""
    if metadata_files(folder) or not photo_tags.carry_tags(folder):
        return []
    return ["the photos carry tags of their own, which --format photo-tags reads"]


def _pairs(folder: Path, names: Sequence[tuple[str, str]]) -> Iterator[tuple[Path, Path]]:
    for train, test in names:
        if (folder / train).is_file() and (folder / test).is_file():
            yield folder / train, folder / test


def _folders(folder: Path) -> list[Path]:
    """The folder and two levels below; the last by name first: VOC2012, VOC2007."""
    found = [folder]
    for pattern in ("*", "*/*"):
        below = (each for each in folder.glob(pattern) if each.is_dir())
        found += sorted((each for each in below if each.name[0] != "."), reverse=True)
    return found
