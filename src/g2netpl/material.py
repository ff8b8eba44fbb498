"""What a run trains on: the label file, split into parts and observed as the setting says."""

from dataclasses import dataclass

import numpy as np

from g2netpl.config import RunConfig
from g2netpl.errors import InputError
from g2netpl.evaluation import can_rank
from g2netpl.formats import read_labels
from g2netpl.labels import LabelTable
from g2netpl.settings import SPML_SEED, IndexArray, Setting, observe, split_indices


@dataclass(frozen=True)
class Material:
    """The images of the label file, and what may be known about which of them."""

    table: LabelTable  # the file as it is
    training: IndexArray  # rows that are trained on
    visible: LabelTable  # their labels, as far as the training may know them
    held_out: IndexArray  # rows of the same file that the epoch is chosen by; may be empty
    validation: LabelTable | None  # their labels, or those of the user's own validation file
    test: LabelTable | None
    note: str  # how the epoch will be chosen

    @property
    def hides_truth(self) -> bool:
        """True where the setting hid labels that the file knows."""
        return self.table.take(self.training).observed_fraction > self.visible.observed_fraction


def read_material(config: RunConfig) -> Material:
    """Read, split and observe. Without a validation that can rank, all images are trained on."""
    table = read_labels(config.labels)
    if len(table) < 2:
        raise InputError(f"{config.labels}: expected at least 2 images, got {len(table)}")
    setting = Setting.parse(config.setting)
    test = read_matching(config.test_labels, table)
    validation = read_matching(config.validation_labels, table)
    everything = np.arange(len(table))
    training, held_out = everything, everything[:0]
    note = "chosen by mAP on the validation file"
    if validation is None and config.validation > 0:
        seed = SPML_SEED if setting.spml_compatible else config.seed
        training, held_out = split_indices(
            len(table), config.validation, seed, setting.spml_compatible
        )
        validation = table.take(held_out) if len(held_out) else None
        note = f"chosen by mAP on {len(held_out):,} held-out images"
    if validation is None or not can_rank(validation.values):
        why = "no validation images" if validation is None else "no observed negatives to rank by"
        note = f"the last one ({why}), all images are trained on"
        training, held_out, validation = everything, everything[:0], None
    if setting.spml_compatible:  # as the benchmark does it: mask first, then split
        visible = observe(table, setting, SPML_SEED).take(training)
    else:
        visible = observe(table.take(training), setting, config.seed)
    if not (visible.values == 1).any():
        raise InputError(f"{config.labels}: no positive label is observed; nothing to learn from")
    return Material(table, training, visible, held_out, validation, test, note)


def read_matching(path: str | None, table: LabelTable) -> LabelTable | None:
    """A second label file, which must know the same classes; its columns are put in order."""
    if path is None:
        return None
    other = read_labels(path)
    odd = sorted(set(other.classes) ^ set(table.classes))
    if odd:
        side = "only here" if odd[0] in other.classes else "missing here"
        raise InputError(
            f"{path}: its classes differ from the training file's: {odd[0]!r} is {side}"
        )
    order = [other.classes.index(name) for name in table.classes]
    return LabelTable(other.images, table.classes, other.values[:, order])
