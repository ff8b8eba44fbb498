"""Read what a run trains on: label files, unlisted images, validation and test files, groups."""

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from g2netpl.images.check import several_tags
from g2netpl.images.sources import GO_ON_WITHOUT, find, find_all, list_images
from g2netpl.images.unlisted import find_unlisted_images, others_left_out, unread_around
from g2netpl.labels.class_warnings import label_warnings
from g2netpl.labels.files import Files, named
from g2netpl.labels.io import image_folder, read_labels, read_matching, single_label
from g2netpl.labels.io.group_files import read_groups
from g2netpl.labels.io.groups import by_folder, with_groups_of
from g2netpl.labels.missingness import can_choose_by
from g2netpl.labels.names import match_known, normalize_name
from g2netpl.labels.settings import Setting
from g2netpl.labels.table import POSITIVE, LabelTable, per_class
from g2netpl.runs.config import GROUPS_BY_FOLDER, RunConfig
from g2netpl.training.names_only import CLASS_LIST
from g2netpl.training.overlap import keep_test_apart, keep_validation_apart, resolve_overlap
from g2netpl.training.splits import (
    ListedImages,
    TrainingData,
    check_learnable,
    last_epoch,
    split_and_observe,
    unranked,
)
from g2netpl.utils.errors import InputError, counted


def read_training_data(config: RunConfig) -> TrainingData:
    """Read, split and observe; all images are trained on where no validation can choose."""
    listed, notes = _read_listed(config)
    labels = named(config.labels)
    has_labels = config.format != CLASS_LIST
    if has_labels and len(listed.table) < 2:
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
        notes += keep_test_apart(ListedImages(table, paths), test, config, way_out)
    apart = np.arange(0)
    if own is not None:
        shared = resolve_overlap(ListedImages(table, paths), own)
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
    data = split_and_observe(table, setting, share, config.seed, config.single_label, apart)
    if own is not None and can_choose_by(own.table.values):
        note = "chosen by mAP on the validation file"
        data = replace(data, validation=own.table, validation_paths=own.paths, note=note)
    elif own is not None:
        why = unranked(own.table, "images of the validation file")
        data = replace(data, note=last_epoch(why))
    if len(apart) and not per_class(data.visible.values, POSITIVE).any():
        raise InputError(
            f"{labels}: all positives are in the validation file, too; leave some here"
        )
    if has_labels:
        check_learnable(data.visible, labels)
    return replace(data, test=test, paths=paths, notes=(*notes, *found))


def folder_of(files: Files, images: str | None, config: RunConfig) -> str:
    """The folder of the images of label files."""
    return images or config.images or str(image_folder(files, config.format))


def _read_listed(config: RunConfig) -> tuple[ListedImages, list[str]]:
    table = read_labels(config.labels, config.format, config.reading())
    notes = list(table.notes)
    odd = several_tags(table.classes)
    if odd:
        notes.append(f"class {odd[0]!r} looks like several tags; is --separator right?")
    notes += label_warnings(table, config.single_label)
    if not config.single_label and single_label.looks_single_label(table.values):
        notes.append(single_label.HINT)
    root = folder_of(config.labels, None, config)
    listed, missing = _located(config.labels, table, root, config)
    return listed, [*notes, *missing]


def _read_other(
    files: Files | None, images: str | None, config: RunConfig, table: LabelTable
) -> tuple[ListedImages | None, list[str]]:
    if files is None:
        return None, []
    format = None if config.format == CLASS_LIST else config.format
    other = read_matching(files, table, format, config.reading(images))
    listed, missing = _located(files, other, folder_of(files, images, config), config)
    return listed, [*(f"{named(files)}: {note}" for note in other.notes), *missing]


def _located(
    files: Files, table: LabelTable, root: str, config: RunConfig
) -> tuple[ListedImages, list[str]]:
    """The images that are there, and a note on the others."""
    refuse = config.missing == "refuse"
    located = find_all(table.images, root, GO_ON_WITHOUT) if refuse else find(table.images, root)
    if located.notes:
        table = table.with_images(located.names)
    if not located.missing:
        return ListedImages(table, located.paths), located.notes
    there = np.setdiff1d(np.arange(len(table)), located.missing)
    note = f"{counted(len(located.missing), 'image')} of {named(files)} not there: left out"
    paths = [located.paths[row] for row in there]
    return ListedImages(table.take(there), paths), [*located.notes, note]


def _with_unlisted(
    listed: ListedImages, config: RunConfig, others: list[ListedImages]
) -> tuple[LabelTable, list[str], list[str]]:
    """The table with the images nobody listed: those of the folder, and those of --unlabelled."""
    names: list[str] = []
    paths: list[str] = []
    notes = unread_around(config.labels, config.format, config.images)
    taken = {_same(path) for part in (listed, *others) for path in part.paths}
    root, every = folder_of(config.labels, None, config), config.only_listed is False
    around = find_unlisted_images(config.labels, config.format, config.images, every)
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
    return normalize_name(os.path.realpath(path))


def _grouped(
    table: LabelTable, others: list[ListedImages], config: RunConfig
) -> tuple[LabelTable, list[ListedImages], list[str]]:
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
        groups |= {file: groups[name] for name, file in match_known(groups, names, rule).items()}
    table, *others = (with_groups_of(each, groups) for each in tables)
    if not any(table.groups or ()):
        raise InputError(
            f"groups {rule}: no image of {labels} is in a group; expected names as in that file"
        )
    return [table, *others]
