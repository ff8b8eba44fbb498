"""What is trained on: labels, split into parts and observed as the setting says."""

import os
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from g2netpl.base.errors import InputError, counted
from g2netpl.images.inspection import several_tags
from g2netpl.images.sources import GO_ON_WITHOUT, find, find_all, list_images
from g2netpl.images.unlisted import images_around, others_left_out, unread_around
from g2netpl.labels.doubts import doubts
from g2netpl.labels.files import Files, named
from g2netpl.labels.formats import image_folder, one_of, read_labels, read_matching
from g2netpl.labels.formats.groups import by_folder, read_groups, with_groups_of
from g2netpl.labels.near_names import known_as
from g2netpl.labels.observation import can_choose_by
from g2netpl.labels.settings import SPML_SEED, Setting, observe
from g2netpl.labels.spelling import composed
from g2netpl.labels.splits import split_indices, split_table
from g2netpl.labels.table import POSITIVE, IndexArray, LabelTable, per_class
from g2netpl.runs.config import GROUPS_BY_FOLDER, RunConfig
from g2netpl.runs.metrics import can_rank
from g2netpl.training.listed import Listed, held_apart, keep_test_apart, keep_validation_apart


@dataclass(frozen=True)
class TrainingData:
    """All images, and what may be known about which of them; in memory they have no paths."""

    table: LabelTable  # the file as it is, and the images that it does not list
    training: IndexArray  # rows that are trained on
    visible: LabelTable  # their labels, as far as the training may know them
    held_out: IndexArray  # rows of the same file that are not trained on; may be empty
    validation: LabelTable | None = None  # their labels, or those of an own validation file
    test: Listed | None = None
    paths: list[str] = field(default_factory=list)  # of all images
    validation_paths: list[str] | None = None  # of the user's own file
    note: str = ""  # how the epoch will be chosen
    notes: tuple[str, ...] = ()  # what else a person should be told

    @property
    def hides_truth(self) -> bool:
        """True where the setting hid labels that the file knows."""
        return self.table.take(self.training).observed_fraction > self.visible.observed_fraction

    @property
    def all_paths(self) -> list[str]:
        """Every picture that the training looks at."""
        test = [] if self.test is None else self.test.paths
        return [*self.paths, *(self.validation_paths or []), *test]

    @property
    def all_images(self) -> list[tuple[str, str, str, int]]:
        """Path, name, group and part of every picture: 0 training, 1 validation, 2 test."""
        parts = np.zeros(len(self.table), dtype=np.int64)
        parts[self.held_out] = 1
        tables = [(self.paths, self.table, parts.tolist())]
        if self.validation_paths is not None and self.validation is not None:
            tables.append((self.validation_paths, self.validation, [1] * len(self.validation)))
        if self.test is not None:
            tables.append((self.test.paths, self.test.table, [2] * len(self.test.table)))
        return [
            each
            for paths, table, places in tables
            for each in zip(
                paths, table.images, table.groups or [""] * len(table), places, strict=True
            )
        ]

    @property
    def fingerprints(self) -> dict[str, str]:
        """What the label files say, in short."""
        tables = {
            "training": self.table,
            "validation": None if self.validation_paths is None else self.validation,
            "test": None if self.test is None else self.test.table,
        }
        return {name: table.fingerprint() for name, table in tables.items() if table is not None}


def read_training_data(config: RunConfig) -> TrainingData:
    """Read, split and observe; all images are trained on where no validation can choose."""
    listed, notes = _read_listed(config)
    labels = named(config.labels)
    if len(listed.table) < 2:
        raise InputError(f"{labels}: expected at least 2 images, got {len(listed.table)}")
    test, told = _read_other(config.test_labels, config.test_images, config, listed.table)
    own, more = _read_other(config.validation_labels, None, config, listed.table)
    notes += [*told, *more]
    if test is not None and own is not None:
        keep_validation_apart(own, test, config)
    others = [part for part in (test, own) if part is not None]
    table, paths, found = _with_unlisted(listed, config, others)
    if test is not None:
        way_out = "leave them out of one of the two"
        notes += keep_test_apart(Listed(table, paths), test, config, way_out)
    apart = np.arange(0)
    if own is not None:
        shared = held_apart(Listed(table, paths), own)
        table, apart, own = shared.table, shared.rows, shared.validation
        notes += shared.notes
    others = [part for part in (test, own) if part is not None]
    table, others, told = _grouped(table, others, config)
    test, own = (None if test is None else others[0]), (None if own is None else others[-1])
    notes += told
    setting = Setting.parse(config.setting)
    if setting.kind == "full" and len(table) > len(listed.table):
        raise InputError(
            f"setting full: {len(table) - len(listed.table):,} images of the folder are not in "
            f"{labels}; leave them out with --only-listed"
        )
    share = config.validation if own is None else 0.0
    data = split_and_observe(table, setting, share, config.seed, config.one_of, apart)
    if own is not None and can_choose_by(own.table.values):
        note = "chosen by mAP on the validation file"
        data = replace(data, validation=own.table, validation_paths=own.paths, note=note)
    elif own is not None:
        why = _unranked(own.table, "images of the validation file")
        data = replace(data, note=_last_epoch(why))
    if len(apart) and not per_class(data.visible.values, POSITIVE).any():
        raise InputError(
            f"{labels}: all positives are in the validation file, too; leave some here"
        )
    check_learnable(data.visible, labels)
    return replace(data, test=test, paths=paths, notes=(*notes, *found))


def observe_data(config: RunConfig, table: LabelTable) -> TrainingData:
    """A table in memory, split and observed as the configuration says."""
    setting = Setting.parse(config.setting)
    table = one_of.by_one(table) if config.one_of else table
    data = split_and_observe(table, setting, config.validation, config.seed, config.one_of)
    check_learnable(data.visible, named(config.labels))
    return data


def split_and_observe(
    table: LabelTable,
    setting: Setting,
    share: float,
    seed: int,
    by_one: bool = False,
    apart: IndexArray | None = None,
) -> TrainingData:
    """Hold out a share of the images that something is known about, observe the others.

    None are held out that nothing could be chosen by, or that nothing could be learnt without.
    `by_one` says that each image has one class, so that who knows it knows all. Without a share,
    rows that are kept `apart` are not trained on.
    """
    training, held_out = _split(table, setting, share, seed)
    validation, why = table.take(held_out), ""
    if not len(held_out):
        asked = round(share * int(table.labelled.sum())) > 0
        why = "every group has all of a class, or all images" if asked else "no validation images"
    elif not can_choose_by(validation.values):
        why = _unranked(validation, "held-out images")
    elif not per_class(table.take(training).values, POSITIVE).any():
        why = "the others have no positive"
    if why:
        held_out = held_out[:0] if apart is None else apart
        training = np.setdiff1d(np.arange(len(table)), held_out)
    if setting.spml_compatible:  # as the benchmark does it: mask first, then split
        visible = observe(table, setting, SPML_SEED).take(training)
    else:
        visible = observe(table.take(training), setting, seed)
    if by_one:
        visible = one_of.by_one(visible)
    if why:
        return TrainingData(table, training, visible, held_out, note=_last_epoch(why))
    note = f"chosen by mAP on {len(held_out):,} held-out images"
    return TrainingData(table, training, visible, held_out, validation, note=note)


def check_learnable(visible: LabelTable, where: str) -> None:
    """Refuse labels without a positive, and one class that every image has."""
    positive = per_class(visible.values, POSITIVE)
    if not positive.any():
        raise InputError(f"{where}: no positive label is observed; nothing to learn from")
    if positive.tolist() == [len(visible)]:
        raise InputError(
            f"{where}: {visible.classes[0]!r} is the one class, and on every image; nothing tells "
            "it from the rest: give some images 0"
        )


def _last_epoch(why: str) -> str:
    return f"the last one ({why}), all images are trained on"


def _unranked(table: LabelTable, whose: str) -> str:
    if can_rank(table.values):
        return f"too few negatives are known among the {whose}"
    return f"no class has both a positive and a negative among the {whose}"


def _split(
    table: LabelTable, setting: Setting, share: float, seed: int
) -> tuple[IndexArray, IndexArray]:
    if not setting.spml_compatible:
        return split_table(table, share, seed, np.flatnonzero(table.labelled))
    if share and table.groups is not None:
        raise InputError(
            f"setting {setting}: the benchmark's split knows no groups; leave out @spml"
        )
    return split_indices(len(table), share, SPML_SEED, True)


def folder_of(files: Files, images: str | None, config: RunConfig) -> str:
    """The folder of the images of label files."""
    return images or config.images or str(image_folder(files, config.format))


def _read_listed(config: RunConfig) -> tuple[Listed, list[str]]:
    table = read_labels(config.labels, config.format, config.reading())
    notes = list(table.notes)
    odd = several_tags(table.classes)
    if odd:
        notes.append(f"class {odd[0]!r} looks like several tags; is --separator right?")
    notes += doubts(table, config.one_of)
    if not config.one_of and one_of.looks_so(table.values):
        notes.append(one_of.HINT)
    root = folder_of(config.labels, None, config)
    listed, missing = _located(config.labels, table, root, config)
    return listed, [*notes, *missing]


def _read_other(
    files: Files | None, images: str | None, config: RunConfig, table: LabelTable
) -> tuple[Listed | None, list[str]]:
    if files is None:
        return None, []
    other = read_matching(files, table, config.format, config.reading(images))
    listed, missing = _located(files, other, folder_of(files, images, config), config)
    return listed, [*(f"{named(files)}: {note}" for note in other.notes), *missing]


def _located(
    files: Files, table: LabelTable, root: str, config: RunConfig
) -> tuple[Listed, list[str]]:
    """The images that are there, and a note on the others."""
    refuse = config.missing == "refuse"
    located = find_all(table.images, root, GO_ON_WITHOUT) if refuse else find(table.images, root)
    if located.notes:
        table = table.with_images(located.names)
    if not located.missing:
        return Listed(table, located.paths), located.notes
    there = np.setdiff1d(np.arange(len(table)), located.missing)
    note = f"{counted(len(located.missing), 'image')} of {named(files)} not there: left out"
    paths = [located.paths[row] for row in there]
    return Listed(table.take(there), paths), [*located.notes, note]


def _with_unlisted(
    listed: Listed, config: RunConfig, others: list[Listed]
) -> tuple[LabelTable, list[str], list[str]]:
    """The table with the images nobody listed: those of the folder, and those of --unlabelled."""
    names: list[str] = []
    paths: list[str] = []
    notes = unread_around(config.labels, config.format, config.images)
    taken = {_same(path) for part in (listed, *others) for path in part.paths}
    root, every = folder_of(config.labels, None, config), config.only_listed is False
    around = images_around(config.labels, config.format, config.images, every)
    found = _new(around, root, taken)
    leave_out = config.only_listed
    if leave_out is None:
        leave_out = others_left_out(config.labels, config.format)
    if found and leave_out:
        notes.append(f"{counted(len(found), 'image')} of {root} not listed: left out")
    elif found:
        notes.append(
            f"{counted(len(found), 'image')} of {root} not listed: taken as unlabelled "
            "training images (--only-listed leaves them out)"
        )
        names += found
        paths += found.values()
    if config.unlabelled is not None:
        folder = config.unlabelled
        taken |= set(map(_same, paths))
        there = list_images(folder)
        more = _new(there, folder, taken)
        if not more:
            raise InputError(
                f"{folder}: expected unlabelled images, found none that is not used already"
            )
        if len(more) < len(there):
            used = counted(len(there) - len(more), "image")
            notes.append(f"{used} of {folder} used already: not taken as unlabelled")
        names += [f"{Path(folder).resolve().name}/{name}" for name in more]
        paths += more.values()
        notes.append(f"{counted(len(more), 'unlabelled training image')} from {folder}")
    try:
        table = listed.table.with_unlabelled(names)
    except InputError as problem:
        raise InputError(f"{config.unlabelled}: {problem}") from None
    return table, [*listed.paths, *paths], notes


def _new(names: list[str], root: str, taken: set[str]) -> dict[str, str]:
    """Those of the images at an address that are not taken, and where they are."""
    paths = find(names, root, exactly=True).paths
    pairs = zip(names, paths, strict=True)
    return {name: path for name, path in pairs if _same(path) not in taken}


def _same(path: str) -> str:
    """A path by which a file is known, however it was spelt: a Mac finds it by either way."""
    return composed(os.path.realpath(path))


def _grouped(
    table: LabelTable, others: list[Listed], config: RunConfig
) -> tuple[LabelTable, list[Listed], list[str]]:
    """All images with their groups, and what to tell about them."""
    tables = [table, *(part.table for part in others)]
    if config.groups is not None:
        tables = with_groups(tables, config.groups, named(config.labels))
    table, *rest = tables
    others = [replace(part, table=each) for part, each in zip(others, rest, strict=True)]
    if table.groups is None:
        return table, others, []
    sizes = Counter(name for name in table.groups if name)
    notes = [f"{sizes.total():,} images in {counted(len(sizes), 'group')}, which no split parts"]
    shared = {name for part in rest for name in part.groups or ()} & sizes.keys()
    if shared:
        what = "of the test or validation file also among the training images"
        notes.append(f"{counted(len(shared), 'group')} {what}, as {min(shared)!r}")
    return table, others, notes


def with_groups(tables: list[LabelTable], rule: str, labels: str) -> list[LabelTable]:
    """The tables with the groups of a file, or with their folders as groups."""
    names = dict.fromkeys(name for table in tables for name in table.images)
    if rule == GROUPS_BY_FOLDER:
        groups = by_folder(names)
    else:
        groups = read_groups(rule)
        groups |= {file: groups[name] for name, file in known_as(groups, names, rule).items()}
    table, *others = (with_groups_of(each, groups) for each in tables)
    if not any(table.groups or ()):
        raise InputError(
            f"groups {rule}: no image of {labels} is in a group; expected names as in that file"
        )
    return [table, *others]
