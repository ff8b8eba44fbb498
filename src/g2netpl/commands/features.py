"""Compute a folder of frozen features from images, for g2netpl compare.

examples:
  g2netpl features --labels train.csv --test-labels test.csv --images photos --output features
  g2netpl features --labels all.csv --images photos --output features    a fifth is the test split
  g2netpl features --labels all.csv --images photos --backbone resnet50 --output f50

An interrupted command resumes when it is given again.
"""

import argparse
from pathlib import Path

import numpy as np

from g2netpl.commands.flags import (
    add_config_flags,
    add_output_flag,
    add_overwrite_flag,
    add_settings_flags,
    checked,
)
from g2netpl.images.features import FeatureFolder, write_features
from g2netpl.labels.splits import split_table
from g2netpl.runs.config import RunConfig
from g2netpl.runs.output_dir import begin_or_resume, check_output_dir
from g2netpl.training.data import keep_test_apart, read_training_data
from g2netpl.training.datamodule import ImageDataModule, backbone_of
from g2netpl.training.splits import ListedImages, TrainingData
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError
from g2netpl.utils.launch import device_of
from g2netpl.utils.signals import AGAIN, stoppable


def add_flags(parser: argparse.ArgumentParser) -> None:
    data = ("labels", "images", "test_labels", "backbone", "weights", "image_size", "workers")
    tests = "label file of the test images; may be repeated (default: a fifth of --labels)"
    add_config_flags(parser, data, labels="label file", test_labels=tests)
    add_output_flag(parser)
    add_settings_flags(parser)
    add_overwrite_flag(parser, is_folder=True)


@stoppable(AGAIN)
def run(flags: argparse.Namespace) -> None:
    """Compute and write."""
    config, console, folder = checked(flags), Console(), Path(flags.output)
    if not config.labels:
        raise InputError("expected --labels; g2netpl features --help has examples")
    check_output_dir(folder, "features", overwrite=flags.overwrite)
    train, test = _splits(config, console)
    features = _compute(config, train, test, console)
    about = {"backbone": config.backbone, "size": config.image_size}
    with begin_or_resume(folder, "features", about, resume=False, overwrite=flags.overwrite):
        write_features(folder, features)
    counts = f"{len(train.table):,} + {len(test.table):,} images"
    width = features.train_features.shape[1]
    console.print(f"{counts} × {width} features written to {folder}")


def _splits(config: RunConfig, console: Console) -> tuple[ListedImages, ListedImages]:
    """The images to train on, and those of the test file or a fifth of the images."""
    whole = {"validation": 0.0, "validation_labels": None, "only_listed": True, "setting": "own"}
    data = read_training_data(config.model_copy(update=whole))
    train, test, notes = ListedImages(data.table, data.paths), data.test, [*data.notes]
    if test is None:
        rows = split_table(train.table, 0.2, config.seed)
        train, test = (train.take(part) for part in rows)
        notes += keep_test_apart(train, test, config, "keep them together with --set groups=FILE")
    for note in notes:
        console.print(f"note: {note}")
    return train, test


def _compute(
    config: RunConfig, train: ListedImages, test: ListedImages, console: Console
) -> FeatureFolder:
    """The features of all images, as a run on a frozen backbone has them."""
    config = config.model_copy(update={"seed": 0, "max_unreadable": 0})  # the seed split the table
    backbone = backbone_of(config)
    backbone.module.to(device_of(config.device))
    rows, table = np.arange(len(train.table)), train.table
    data = TrainingData(table, rows, table, rows[:0], test=test, paths=train.paths)
    inputs, head = ImageDataModule(config, data, backbone, console), backbone.classifier
    classifier = None if head is None else (head[0].numpy(), head[1].numpy())
    found, tested = (inputs.features(part.paths) for part in (train, test))
    return FeatureFolder(found, table, tested, test.table, classifier)
