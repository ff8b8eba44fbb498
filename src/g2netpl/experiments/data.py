"""What an experiment runs on: features, the built-in scenes, or images with label files.

`Dataset` says where the data are, `ArrayData` holds features or scenes in memory, `PhotoData` knows
the image files. Both have the `keys` of RunConfig that runs on them need. Without test images a
comparison reports validation mAP.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from g2netpl.core.freezing import frozen_below
from g2netpl.core.models import Backbone
from g2netpl.experiments.sweep import Sweep
from g2netpl.images.features import read_features
from g2netpl.images.loader import check_headers
from g2netpl.images.scenes import make_scenes
from g2netpl.labels.files import Files, named, of_each
from g2netpl.labels.table import LabelTable
from g2netpl.runs.config import RunConfig
from g2netpl.runs.prior import FoundPrior, find_prior
from g2netpl.runs.train_config import TrainConfig
from g2netpl.training.data import read_training_data
from g2netpl.training.datamodule import backbone_of
from g2netpl.training.splits import TrainingData
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
    """Where the data are; only images have label files."""

    kind: Kind
    root: Files | None  # as given: a folder, or label files
    labels: Files | None = None
    test_labels: Files | None = None
    images: str | None = None

    @property
    def name(self) -> str:
        """The name of the data, for people."""
        if self.root is None:
            return "the built-in scenes"
        return named(of_each(self.root, lambda path: Path(path).resolve().name))

    @property
    def features(self) -> str | None:
        """The features folder, if it is one."""
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
    """Features or scenes in memory, and the backbone that fits them."""

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
        """The keys of every run on them."""
        mode = "linear" if self.is_features else "full"
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

    def prior(self, config: TrainConfig) -> FoundPrior:
        """The scores of the classes before training."""
        classifier = self.classifier if self.is_features else None
        backbone = Backbone(nn.Identity(), self.train_inputs.shape[1], classifier=classifier)
        config = config.model_copy(update={"backbone": self.backbone})
        return find_prior(config, self.train.classes, backbone)

    def check(self, sweep: Sweep) -> list[str]:
        """Reject what does not fit the data, before anything is trained."""
        sweep.check(*self.tables, self.keys)
        return []


def load_array_data(features: str | None) -> ArrayData:
    """Read a features folder; without one make the built-in scenes."""
    if features is None:
        return scenes_data()
    folder = read_features(features)
    classifier, test = None, None
    if folder.classifier is not None:
        weight, bias = folder.classifier
        classifier = torch.from_numpy(weight), torch.from_numpy(bias)
    if folder.test_features is not None:
        test = torch.from_numpy(folder.test_features)
    inputs = torch.from_numpy(folder.train_features)
    return ArrayData(inputs, folder.train, test, folder.test, classifier=classifier)


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
    """Image files, and the keys that all runs on them share."""

    dataset: Dataset
    own_keys: dict[str, Any]

    @property
    def keys(self) -> dict[str, Any]:
        """The keys of every run on them."""
        dataset = self.dataset
        files = {"labels": dataset.labels, "test_labels": dataset.test_labels}
        return {**self.own_keys, **files, "images": dataset.images, "only_listed": True}

    @cached_property
    def read(self) -> TrainingData:
        """The label files and the places of the images."""
        return read_training_data(self._config)

    @property
    def tables(self) -> tuple[LabelTable, LabelTable | None]:
        """The training and the test labels."""
        return self.read.table, None if self.read.test is None else self.read.test.table

    @property
    def fingerprints(self) -> dict[str, str]:
        """Hashes of the labels."""
        return _fingerprints(*self.tables)

    def prior(self, config: TrainConfig) -> FoundPrior:
        """The scores of the classes before training."""
        return find_prior(config, self.tables[0].classes, backbone_of(self._config))

    @property
    def _config(self) -> RunConfig:
        return RunConfig.read({**self.keys, "output": "unused"}, "images")

    def check(self, sweep: Sweep) -> list[str]:
        """Reject what does not fit the data, before anything is trained; notes on the images."""
        config = sweep.check(*self.tables, self.keys)
        backbone = backbone_of(config)
        if "partial" in config.phases:
            frozen_below(backbone.module, config.train_from, config.image_size)
        return self.notes()

    def notes(self) -> list[str]:
        """The sizes of the splits and unreadable images; too many of those are rejected."""
        (train, test), lines = self.tables, [f"note: {note}" for note in self.read.notes]
        for part in (self.read.paths, [] if self.read.test is None else self.read.test.paths):
            unreadable = check_headers(part, self._config.most_unreadable(len(part)))
            lines += [f"left out: {problem}" for problem in sorted(unreadable)]
        tested = "no test images" if test is None else f"{len(test):,} test images"
        return [*lines, f"{len(train):,} images of {len(train.classes):,} classes, {tested}"]


def _fingerprints(train: LabelTable, test: LabelTable | None) -> dict[str, str]:
    tables = {"training": train, "test": test}
    return {name: table.fingerprint() for name, table in tables.items() if table is not None}


Data = ArrayData | PhotoData
