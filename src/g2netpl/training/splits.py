"""TrainingData: labels split into training and held-out images, observed as the setting says."""

from dataclasses import dataclass, field

import numpy as np

from g2netpl.labels.io.build import complete_single_labels
from g2netpl.labels.missingness import can_choose_by
from g2netpl.labels.settings import SPML_SEED, Setting, observe
from g2netpl.labels.splits import split_indices, split_table
from g2netpl.labels.table import POSITIVE, IndexArray, LabelTable, per_class
from g2netpl.runs.metrics import can_rank
from g2netpl.runs.train_config import TrainConfig
from g2netpl.utils.errors import InputError


@dataclass(frozen=True)
class ListedImages:
    """The images of one label file: what is known about them, and where they are."""

    table: LabelTable
    paths: list[str]

    def take(self, rows: IndexArray) -> "ListedImages":
        """Some of them."""
        return ListedImages(self.table.take(rows), [self.paths[row] for row in rows])


@dataclass(frozen=True)
class TrainingData:
    """All images, and what may be known about which of them; in memory they have no paths."""

    table: LabelTable  # the file as it is, and the images that it does not list
    training: IndexArray  # rows that are trained on
    visible: LabelTable  # their labels, as far as the run may know them
    held_out: IndexArray  # rows of the same file that are not trained on; may be empty
    validation: LabelTable | None = None  # their labels, or those of an own validation file
    test: ListedImages | None = None
    paths: list[str] = field(default_factory=list)  # of all images
    validation_paths: list[str] | None = None  # of the user's own file
    note: str = ""  # how the epoch will be chosen
    notes: tuple[str, ...] = ()  # what else a person should know

    @property
    def hides_truth(self) -> bool:
        """True if the setting hid labels that the file knows."""
        return self.table.take(self.training).observed_fraction > self.visible.observed_fraction

    @property
    def files(self) -> dict[str, ListedImages]:
        """The images of each label file."""
        files = {"training": ListedImages(self.table, self.paths)}
        if self.validation_paths is not None and self.validation is not None:
            files["validation"] = ListedImages(self.validation, self.validation_paths)
        return files if self.test is None else {**files, "test": self.test}

    @property
    def all_images(self) -> list[tuple[str, str, str, int]]:
        """Path, name, group and split of every image: 0 training, 1 validation, 2 test."""
        images: list[tuple[str, str, str, int]] = []
        for name, listed in self.files.items():
            table, number = listed.table, ("training", "validation", "test").index(name)
            splits = np.full(len(table), number)
            if name == "training":
                splits[self.held_out] = 1
            groups = table.groups or [""] * len(table)
            images += zip(listed.paths, table.images, groups, splits.tolist(), strict=True)
        return images


def observe_data(config: TrainConfig, table: LabelTable) -> TrainingData:
    """A table in memory, split and observed as the configuration says."""
    setting = Setting.parse(config.setting)
    table = complete_single_labels(table) if config.single_label else table
    data = split_and_observe(table, setting, config.validation, config.seed, config.single_label)
    check_learnable(data.visible, "labels")
    return data


def split_and_observe(
    table: LabelTable,
    setting: Setting,
    fraction: float,
    seed: int,
    single_label: bool = False,
    apart: IndexArray | None = None,
) -> TrainingData:
    """Hold out a fraction of the images that something is known about, observe the others.

    None are held out if nothing could be chosen by them, or learnt without them. Without a
    fraction, rows that are kept `apart` are not trained on.
    """
    if not setting.spml_compatible:
        training, held_out = split_table(table, fraction, seed, np.flatnonzero(table.labelled))
    elif fraction and table.groups is not None:
        raise InputError(f"setting {setting}: the benchmark's split has no groups; leave out @spml")
    else:
        training, held_out = split_indices(len(table), fraction, SPML_SEED, True)
    validation, why = table.take(held_out), ""
    if not len(held_out):
        is_wanted = round(fraction * int(table.labelled.sum())) > 0
        why = "every group has all images of a class" if is_wanted else "no validation images"
    elif not can_choose_by(validation.values):
        why = unranked(validation, "held-out images")
    elif not per_class(table.take(training).values, POSITIVE).any():
        why = "the other images have no positive"
    if why:
        held_out = held_out[:0] if apart is None else apart
        training = np.setdiff1d(np.arange(len(table)), held_out)
    if setting.spml_compatible:  # as the benchmark does it: mask first, then split
        visible = observe(table, setting, SPML_SEED).take(training)
    else:
        visible = observe(table.take(training), setting, seed)
    if single_label:
        visible = complete_single_labels(visible)
    if why:
        return TrainingData(table, training, visible, held_out, note=last_epoch(why))
    note = f"chosen by mAP on {len(held_out):,} held-out images"
    return TrainingData(table, training, visible, held_out, validation, note=note)


def check_learnable(visible: LabelTable, where: str) -> None:
    """Refuse labels without a positive, and one class that every image has."""
    positive = per_class(visible.values, POSITIVE)
    if not positive.any():
        raise InputError(f"{where}: no positive label is observed; nothing to learn from")
    if positive.tolist() == [len(visible)]:
        raise InputError(
            f"{where}: only one class, {visible.classes[0]!r}, and it is on every image, so there "
            "is nothing to learn; give some images 0"
        )


def last_epoch(why: str) -> str:
    """The note of a run that has nothing to choose an epoch by."""
    return f"the last one ({why}); all images are trained on"


def unranked(table: LabelTable, whose: str) -> str:
    """Why no epoch can be chosen by these labels."""
    if can_rank(table.values):
        return f"too few negatives are known among the {whose}"
    return f"no class has both a positive and a negative among the {whose}"
