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
    add_overwrite_flag,
    add_settings_flags,
    checked,
)
from g2netpl.images.features import FeatureFolder, write_features
from g2netpl.images.sources import locate
from g2netpl.labels.files import named
from g2netpl.labels.io import read_labels, read_matching
from g2netpl.labels.splits import split_table
from g2netpl.labels.table import LabelTable
from g2netpl.runs.config import RunConfig
from g2netpl.runs.output_dir import begin_or_resume, check_output_dir
from g2netpl.training.data import folder_of, keep_test_apart, with_groups
from g2netpl.training.datamodule import ImageDataModule, backbone_of
from g2netpl.training.splits import ListedImages, TrainingData
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError
from g2netpl.utils.launch import device_of
from g2netpl.utils.signals import AGAIN, stoppable

_DEFAULTS = {"image_size": 256}


def add_flags(parser: argparse.ArgumentParser) -> None:
    add_config_flags(parser, ("labels", "images", "test_labels", "backbone", "weights"))
    add_config_flags(parser, ("image_size", "workers"), _DEFAULTS)
    add_config_flags(parser, ("output",), required=("output",))
    add_settings_flags(parser)
    add_overwrite_flag(parser, is_folder=True)


@stoppable(AGAIN)
def run(flags: argparse.Namespace) -> None:
    """Compute and write."""
    config, console, folder = checked(flags, _DEFAULTS), Console(), Path(flags.output)
    if not config.labels:
        raise InputError("expected --labels; g2netpl features --help has examples")
    train, test = _tables(config)
    check_output_dir(folder, "features", overwrite=flags.overwrite)
    features = _computed(config, train, test, console)
    about = {"backbone": config.backbone, "size": config.image_size}
    with begin_or_resume(folder, "features", about, resume=False, overwrite=flags.overwrite):
        write_features(folder, features)
    width = features.train_features.shape[1]
    console.print(f"{len(train):,} + {len(test):,} images × {width} features written to {folder}")


def _tables(config: RunConfig) -> tuple[LabelTable, LabelTable]:
    """The labels to train on, and those of the test file or of a fifth of the images."""
    how = (config.format, config.reading())
    table = read_labels(config.labels, *how)
    if config.test_labels is not None:
        return table, read_matching(config.test_labels, table, *how)
    if config.groups is not None:
        (table,) = with_groups([table], config.groups, named(config.labels))
    first, second = split_table(table, 0.2, config.seed)
    return table.take(first), table.take(second)


def _computed(
    config: RunConfig, train: LabelTable, test: LabelTable, console: Console
) -> FeatureFolder:
    """What the frozen backbone makes of all images, as a training on features would have it."""
    tested = (config.test_labels or config.labels, config.test_images)
    roots = [folder_of(*part, config) for part in ((config.labels, None), tested)]
    paths = [locate(part.images, root) for part, root in zip((train, test), roots, strict=True)]
    parts = [ListedImages(*part) for part in zip((train, test), paths, strict=True)]
    way_out = "leave them out of one part, or keep them together with --groups"
    for note in keep_test_apart(parts[0], parts[1], config, way_out):
        console.print(f"note: {note}")
    config = config.model_copy(update={"seed": 0, "max_unreadable": 0})  # the seed split the table
    backbone = backbone_of(config)
    backbone.module.to(device_of(config.device))
    rows = np.arange(len(train))
    data = TrainingData(train, rows, train, rows[:0], test=parts[1], paths=paths[0])
    inputs = ImageDataModule(config, data, backbone, console)
    found = [inputs.features(each) for each in paths]
    head = backbone.classifier
    classifier = None if head is None else (head[0].numpy(), head[1].numpy())
    return FeatureFolder(found[0], train, found[1], test, classifier)
