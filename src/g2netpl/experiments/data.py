"""What an experiment runs on: features, the built-in scenes, or images with a label file.

`Dataset` says where it is, `ArrayData` holds features and scenes in memory, `PhotoData` knows the
images to train on and those of the test. Without a test a comparison reports validation mAP. Both
say what a training on them needs (`keys`), and `check` a comparison before it begins.
"""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from g2netpl.core.freezing import frozen_below
from g2netpl.core.models import Backbone
from g2netpl.experiments.grid import VALIDATION_FRACTION, Comparison
from g2netpl.images.features import read_features
from g2netpl.images.loader import check_headers
from g2netpl.labels.files import Files, named, of_each
from g2netpl.labels.missingness import can_choose_by
from g2netpl.labels.splits import split_table
from g2netpl.labels.table import POSITIVE, LabelTable, per_class
from g2netpl.runs.config import RunConfig
from g2netpl.runs.prior import FoundPrior, find_prior
from g2netpl.runs.train_config import TrainConfig
from g2netpl.training.data import read_training_data
from g2netpl.training.datamodule import backbone_of
from g2netpl.training.splits import ListedImages, TrainingData
from g2netpl.utils.errors import InputError

Kind = Literal["scenes", "features", "images"]
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
class Dataset:
    """Where the data are; label files for images alone."""

    kind: Kind
    root: Files | None  # what the user named: a folder, or label files
    labels: Files | None = None
    test_labels: Files | None = None
    images: str | None = None

    @property
    def name(self) -> str:
        """For people."""
        if self.root is None:
            return "the built-in scenes"
        return named(of_each(self.root, lambda path: Path(path).resolve().name))

    @property
    def features(self) -> str | None:
        """The features folder, where it is one."""
        return named(self.root) if self.kind == "features" and self.root is not None else None


def find_dataset(
    root: Files | None, test_labels: Files | None = None, images: str | None = None
) -> Dataset:
    """Recognise a features folder, an official layout or label files; nothing: the scenes."""
    if root is None:
        return Dataset("scenes", None)
    if not isinstance(root, str):
        return Dataset("images", root, root, test_labels, images)
    path = Path(root)
    if not path.exists():
        raise InputError(f"{root}: no such file or folder")
    if (path / "meta.npz").is_file():
        return Dataset("features", root)
    if path.is_file() or test_labels is not None:
        return Dataset("images", root, root, test_labels, images)
    for below in _BELOW:
        for train, test in _PUBLISHED:
            if (path / below / train).is_file() and (path / below / test).is_file():
                files = str(path / below / train), str(path / below / test)
                return Dataset("images", root, *files, images)
    raise InputError(
        f"{root}: no data found; expected a label file, a features folder (meta.npz), or one of "
        + ", ".join(train for train, _ in _PUBLISHED)
    )


@dataclass(frozen=True)
class ArrayData:
    """The data of a comparison, in memory, and the backbone that fits them."""

    train_inputs: Tensor
    train: LabelTable
    test_inputs: Tensor | None
    test: LabelTable | None
    backbone: str = "features"
    classifier: tuple[Tensor, Tensor] | None = None  # of features, weight and bias of ImageNet's

    @property
    def is_features(self) -> bool:
        """Whether they are vectors of a frozen backbone."""
        return self.backbone == "features"

    @property
    def keys(self) -> dict[str, Any]:
        """What every training on them has in common (see RunConfig)."""
        mode = "linear" if self.is_features else "full"
        return {"labels": "arrays", "mode": mode, "backbone": self.backbone, "device": "cpu"}

    @property
    def tables(self) -> tuple[LabelTable, LabelTable | None]:
        """The labels to train on and those of the test."""
        return self.train, self.test

    @property
    def fingerprints(self) -> dict[str, str]:
        """What the labels and the inputs say, in short."""
        every = hashlib.sha256()
        for inputs in (self.train_inputs, self.test_inputs):
            if inputs is not None:
                content: Any = inputs.contiguous().numpy()
                every.update(content)
        return {**_fingerprints(*self.tables), "all inputs": every.hexdigest()}

    def prior(self, config: TrainConfig) -> FoundPrior:
        """What is known about the classes before any tag."""
        classifier = self.classifier if self.is_features else None
        backbone = Backbone(nn.Identity(), self.train_inputs.shape[1], classifier=classifier)
        config = config.model_copy(update={"backbone": self.backbone})
        return find_prior(config, self.train.classes, backbone)

    def check(self, comparison: Comparison) -> list[str]:
        """Find what does not fit the data, before anything is trained or written."""
        comparison.check(*self.tables, self.keys)
        return []


def load_array_data(features: str | None) -> ArrayData:
    """Read a features folder, or without one make the built-in scenes."""
    if features is not None:
        folder = read_features(features)
        test = None if folder.test_features is None else torch.from_numpy(folder.test_features)
        classifier = None
        if folder.classifier is not None:
            weight, bias = folder.classifier
            classifier = torch.from_numpy(weight), torch.from_numpy(bias)
        inputs = torch.from_numpy(folder.train_features)
        return ArrayData(inputs, folder.train, test, folder.test, classifier=classifier)
    return scenes_data()


def scenes_data(train: int = 3000, test: int = 1000, seed: int = 0) -> ArrayData:
    """The built-in scenes, as many as wanted."""
    from g2netpl.images.scenes import make_scenes

    scenes = make_scenes(train, test, seed)
    train_inputs, test_inputs = (
        (torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255.0 - 0.5) / 0.25
        for images in (scenes.train_images, scenes.test_images)
    )
    return ArrayData(train_inputs, scenes.train, test_inputs, scenes.test, "tiny")


@dataclass(frozen=True)
class PhotoData:
    """Image files to compare methods on, and the keys that all trainings have (see RunConfig)."""

    dataset: Dataset
    own_keys: dict[str, Any]
    told: set[str] = field(default_factory=set)  # which images cannot be read

    @property
    def keys(self) -> dict[str, Any]:
        """The keys of a training that do not depend on the cell."""
        dataset = self.dataset
        files = {"labels": dataset.labels, "test_labels": dataset.test_labels}
        return {**self.own_keys, **files, "images": dataset.images, "only_listed": True}

    @cached_property
    def read(self) -> TrainingData:
        """The label files and where the images are; mistakes in all of them show here."""
        return read_training_data(self._config)

    @cached_property
    def parts(self) -> tuple[ListedImages, ListedImages | None]:
        """What is trained on and what is tested on."""
        return ListedImages(self.read.table, self.read.paths), self.read.test

    @property
    def tables(self) -> tuple[LabelTable, LabelTable | None]:
        """The labels of both."""
        train, test = self.parts
        return train.table, None if test is None else test.table

    @property
    def fingerprints(self) -> dict[str, str]:
        """What the label files say, in short."""
        return _fingerprints(*self.tables)

    def prior(self, config: TrainConfig) -> FoundPrior:
        """What is known about the classes before any tag."""
        return find_prior(config, self.tables[0].classes, backbone_of(self._config))

    @property
    def _config(self) -> RunConfig:
        return RunConfig.read({**self.keys, "output": "unused"}, "images")

    def check(self, comparison: Comparison) -> list[str]:
        """Find what a training would stop at, before anything is written.

        Gives what a person should be told about the images.
        """
        config = comparison.check(*self.tables, self.keys)
        found = self.look_at_files()
        backbone = backbone_of(config)
        if "partial" in config.phases:
            frozen_below(backbone.module, config.train_from, config.image_size)
        return found

    def look_at_files(self) -> list[str]:
        """Refuse tests on what was trained on, and too many files that are no images.

        Gives what a person should be told about the rest.
        """
        config = self._config
        parts = [part for part in self.parts if part is not None]
        for part in parts:
            self.told.update(check_headers(part.paths, config.most_unreadable(len(part.paths))))
        notes = [f"note: {note}" for note in self.read.notes]
        return [*notes, *(f"left out: {each}" for each in sorted(self.told)), str(self)]

    def __str__(self) -> str:
        train, test = self.tables
        labelled = np.flatnonzero(train.labelled)
        rows = split_table(train, VALIDATION_FRACTION, 0, labelled)[1]
        chooses = can_choose_by(train.take(rows).values)
        held_out = len(rows) if chooses else 0  # else all are trained on
        trained, classes = len(train) - held_out, f"{len(train.classes):,} classes"
        if test is None:
            return f"{trained:,} training and {held_out:,} validation images of {classes}, no test"
        tested = int((per_class(test.values, POSITIVE) > 0).sum())
        return (
            f"{trained:,} training, {held_out:,} validation and {len(test):,} test "
            f"images of {classes}, {tested:,} of them in the test"
        )


def _fingerprints(train: LabelTable, test: LabelTable | None) -> dict[str, str]:
    tables = {"training": train, "test": test}
    return {name: table.fingerprint() for name, table in tables.items() if table is not None}


Data = ArrayData | PhotoData
