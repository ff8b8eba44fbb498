"""What an experiment runs on: features, the built-in scenes, or images with label files.

`ArrayData` holds features or scenes in memory, `PhotoData` knows the image files. Both have the
`keys` of RunConfig that runs on them need. Without test images a comparison reports validation mAP.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from g2netpl.core.models import Backbone
from g2netpl.images.features import read_features
from g2netpl.images.loader import check_headers
from g2netpl.images.scenes import make_scenes
from g2netpl.labels.files import Files, named, of_each
from g2netpl.labels.table import LabelTable
from g2netpl.runs.config import RunConfig
from g2netpl.runs.train_config import TrainConfig
from g2netpl.training.data import read_training_data
from g2netpl.training.datamodule import backbone_of
from g2netpl.training.splits import TrainingData
from g2netpl.utils.errors import InputError

_PUBLISHED = (  # label files of data sets as they are published: to train on, and to test on
    ("ImageSets/Main/train.txt", "ImageSets/Main/val.txt"),
    ("annotations/instances_train2014.json", "annotations/instances_val2014.json"),
    ("annotations/instances_train2017.json", "annotations/instances_val2017.json"),
    ("formatted_train_labels.npy", "formatted_val_labels.npy"),
    ("ImageList/TrainImagelist.txt", "ImageList/TestImagelist.txt"),
    ("train.csv", "test.csv"),
)
_BELOW = (".", "VOC2012", "VOCdevkit/VOC2012", "coco", "NUS-WIDE", "nuswide")


@dataclass(frozen=True)
class ArrayData:
    """Features or scenes in memory, and the backbone that fits them."""

    train_inputs: Tensor
    train: LabelTable
    test_inputs: Tensor | None
    test: LabelTable | None
    backbone: str = "features"
    classifier: tuple[Tensor, Tensor] | None = None  # of features, weight and bias of ImageNet's
    folder: str | None = None  # that the features are from

    @property
    def name(self) -> str:
        """The name of the data, for people."""
        return "the built-in scenes" if self.folder is None else Path(self.folder).resolve().name

    @property
    def keys(self) -> dict[str, Any]:
        """The keys of every run on them."""
        mode = "linear" if self.backbone == "features" else "full"
        return {"labels": "arrays", "mode": mode, "backbone": self.backbone, "device": "cpu"}

    @property
    def tables(self) -> tuple[LabelTable, LabelTable | None]:
        """The training and the test labels."""
        return self.train, self.test

    @property
    def fingerprints(self) -> dict[str, str]:
        """Hashes of the labels and the inputs."""
        digest = hashlib.sha256()
        for inputs in (self.train_inputs, self.test_inputs):
            if inputs is not None:
                digest.update(inputs.contiguous().numpy().data)
        return {**_fingerprints(*self.tables), "all inputs": digest.hexdigest()}

    def build_backbone(self, config: TrainConfig) -> Backbone:
        """The network below the head; nothing for features."""
        if self.backbone == "features":
            width = self.train_inputs.shape[1]
            return Backbone(nn.Identity(), width, classifier=self.classifier)
        return backbone_of(config.model_copy(update={"backbone": self.backbone}))

    def notes(self) -> list[str]:
        """Nothing, see `PhotoData.notes`."""
        return []


def load_array_data(features: str | None) -> ArrayData:
    """Read a features folder; without one make the built-in scenes."""
    if features is None:
        return scenes_data()
    read = read_features(features)
    test, head = read.test_features, read.classifier
    return ArrayData(
        torch.from_numpy(read.train_features),
        read.train,
        None if test is None else torch.from_numpy(test),
        read.test,
        classifier=None if head is None else (torch.from_numpy(head[0]), torch.from_numpy(head[1])),
        folder=features,
    )


def scenes_data(train: int = 3000, test: int = 1000, seed: int = 0) -> ArrayData:
    """The built-in scenes."""
    scenes = make_scenes(train, test, seed)
    train_inputs, test_inputs = (
        (torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255.0 - 0.5) / 0.25
        for images in (scenes.train_images, scenes.test_images)
    )
    return ArrayData(train_inputs, scenes.train, test_inputs, scenes.test, "tiny")


@dataclass(frozen=True)
class PhotoData:
    """Image files with label files, and the keys that all runs on them share."""

    root: Files  # as given: a folder, or label files
    labels: Files
    test_labels: Files | None = None
    images: str | None = None
    own_keys: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the data, for people."""
        return named(of_each(self.root, lambda path: Path(path).resolve().name))

    @property
    def keys(self) -> dict[str, Any]:
        """The keys of every run on them."""
        files = {name: getattr(self, name) for name in ("labels", "test_labels", "images")}
        return {"mode": "full", **self.own_keys, **files, "only_listed": True}

    @cached_property
    def read(self) -> TrainingData:
        """The label files and the paths of the images."""
        return read_training_data(self.config)

    @property
    def tables(self) -> tuple[LabelTable, LabelTable | None]:
        """The training and the test labels."""
        return self.read.table, None if self.read.test is None else self.read.test.table

    @property
    def fingerprints(self) -> dict[str, str]:
        """Hashes of the labels."""
        return _fingerprints(*self.tables)

    def build_backbone(self, config: TrainConfig) -> Backbone:
        """The network below the head."""
        return backbone_of(config)

    def notes(self) -> list[str]:
        """The sizes of the splits and unreadable images; too many of those are rejected."""
        (train, test), lines = self.tables, [f"note: {note}" for note in self.read.notes]
        for part in (self.read.paths, [] if self.read.test is None else self.read.test.paths):
            unreadable = check_headers(part, self.config.most_unreadable(len(part)))
            lines += [f"left out: {problem}" for problem in sorted(unreadable)]
        tested = "no test images" if test is None else f"{len(test):,} test images"
        return [*lines, f"{len(train):,} images of {len(train.classes):,} classes, {tested}"]

    @property
    def config(self) -> RunConfig:
        """The configuration that all runs start from."""
        return RunConfig.read({**self.keys, "output": "unused"}, "images")


Data = ArrayData | PhotoData


def find_dataset(
    root: Files,
    test_labels: Files | None = None,
    images: str | None = None,
    own_keys: Mapping[str, Any] | None = None,
) -> Data:
    """Recognise a features folder, label files, or a published data set in its official layout."""
    where, path = (images, own_keys or {}), Path(root if isinstance(root, str) else root[0])
    if isinstance(root, str) and not path.exists():
        raise InputError(f"{root}: no such file or folder")
    if (path / "meta.npz").is_file():
        return load_array_data(str(path))
    if path.is_file() or test_labels is not None or not isinstance(root, str):
        return PhotoData(root, root, test_labels, *where)
    for below in _BELOW:
        for train, test in _PUBLISHED:
            if (path / below / train).is_file() and (path / below / test).is_file():
                return PhotoData(root, str(path / below / train), str(path / below / test), *where)
    raise InputError(
        f"{root}: no data found; expected a label file, a features folder (meta.npz), or one of "
        + ", ".join(train for train, _ in _PUBLISHED)
    )


def _fingerprints(train: LabelTable, test: LabelTable | None) -> dict[str, str]:
    tables = {"training": train, "test": test}
    return {name: table.fingerprint() for name, table in tables.items() if table is not None}
