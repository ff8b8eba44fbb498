"""Read what a run trains on: label files, unlisted images, validation and test files, groups."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from g2netpl.images.check import several_tags
from g2netpl.images.duplicates import same_files
from g2netpl.images.sources import (
    LEAVE_OUT_HINT,
    find,
    find_all,
    images_around,
    list_images,
    others_left_out,
)
from g2netpl.labels.class_warnings import label_warnings
from g2netpl.labels.files import Files, named
from g2netpl.labels.io import image_folder, read_labels, read_matching
from g2netpl.labels.io.build import by_folder, with_groups_of
from g2netpl.labels.io.tables import read_groups
from g2netpl.labels.missingness import can_choose_by
from g2netpl.labels.names import match_known, normalize_name
from g2netpl.labels.settings import Setting
from g2netpl.labels.table import POSITIVE, IndexArray, LabelTable, per_class, per_image
from g2netpl.runs.config import GROUPS_BY_FOLDER, RunConfig
from g2netpl.training.names_only import CLASS_LIST, NOTE
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
    """Read, split and observe; all images are trained on if no validation can choose an epoch."""
    notes: list[str] = []
    listed = _read_listed(config, notes)
    labels, has_labels = named(config.labels), config.format != CLASS_LIST
    if has_labels and len(listed.table) < 2:
        raise InputError(f"{labels}: expected at least 2 images, got {len(listed.table)}")
    files = [("test", config.test_labels, config.test_images)]
    files.append(("validation", config.validation_labels, None))
    others = {
        name: _read_other(given, images, config, listed.table, notes)
        for name, given, images in files
        if given is not None
    }
    if len(others) == 2:
        _keep_validation_apart(others["validation"], others["test"], config)
    training, apart = _with_unlisted(listed, [*others.values()], config, notes), np.arange(0)
    if "test" in others:
        way_out = "leave them out of one of the two"
        notes += keep_test_apart(training, others["test"], config, way_out)
    if "validation" in others:
        validation = others["validation"]
        training, others["validation"], apart = _without_overlap(training, validation, notes)
    parts = _grouped({"training": training, **others}, config, notes)
    table, setting = parts["training"].table, Setting.parse(config.setting)
    if setting.kind == "full" and len(table) > len(listed.table):
        raise InputError(
            f"setting full: {len(table) - len(listed.table):,} images of the folder are not in "
            f"{labels}; leave them out with --set only_listed=true"
        )
    fraction = 0.0 if "validation" in parts else config.validation
    data = split_and_observe(table, setting, fraction, config.seed, config.single_label, apart)
    if "validation" in parts:
        data = _with_validation(data, parts["validation"])
    if len(apart) and not per_class(data.visible.values, POSITIVE).any():
        raise InputError(
            f"{labels}: all positives are in the validation file, too; leave some here"
        )
    if has_labels:
        check_learnable(data.visible, labels)
    else:
        notes.append(NOTE)
    paths, test = parts["training"].paths, parts.get("test")
    return replace(data, test=test, paths=paths, notes=tuple(notes))


def _with_validation(data: TrainingData, validation: ListedImages) -> TrainingData:
    """The data with a validation file, if that can choose an epoch."""
    if not can_choose_by(validation.table.values):
        why = unranked(validation.table, "images of the validation file")
        return replace(data, note=last_epoch(why))
    note, paths = "chosen by mAP on the validation file", validation.paths
    return replace(data, validation=validation.table, validation_paths=paths, note=note)


def folder_of(files: Files, images: str | None, config: RunConfig) -> str:
    """The folder of the images of label files."""
    return images or config.images or str(image_folder(files, config.format))


def _read_listed(config: RunConfig, notes: list[str]) -> ListedImages:
    table = read_labels(config.labels, config.format, config.reading())
    notes += table.notes
    odd = several_tags(table.classes)
    if odd:
        notes.append(f"class {odd[0]!r} looks like several tags; is --set separator=MARKS needed?")
    notes += label_warnings(table, config.single_label)
    return _located(config.labels, table, folder_of(config.labels, None, config), config, notes)


def _read_other(
    files: Files, images: str | None, config: RunConfig, table: LabelTable, notes: list[str]
) -> ListedImages:
    format = None if config.format == CLASS_LIST else config.format
    other = read_matching(files, table, format, config.reading(images))
    notes += [f"{named(files)}: {note}" for note in other.notes]
    return _located(files, other, folder_of(files, images, config), config, notes)


def _located(
    files: Files, table: LabelTable, root: str, config: RunConfig, notes: list[str]
) -> ListedImages:
    """The images that exist, and a note on the others."""
    reject = config.missing == "reject"
    located = find_all(table.images, root, LEAVE_OUT_HINT) if reject else find(table.images, root)
    notes += located.notes
    if located.notes:
        table = table.with_images(located.names)
    listed = ListedImages(table, located.paths)
    if not located.missing:
        return listed
    notes.append(f"{counted(len(located.missing), 'image')} of {named(files)} missing: left out")
    return listed.take(np.setdiff1d(np.arange(len(table)), located.missing))


def _with_unlisted(
    listed: ListedImages, others: list[ListedImages], config: RunConfig, notes: list[str]
) -> ListedImages:
    """The images with those that nobody listed: those of the folder, and those of --unlabelled."""
    taken = {_same(path) for part in (listed, *others) for path in part.paths}
    every, leave_out = config.only_listed is False, config.only_listed
    if leave_out is None:
        leave_out = others_left_out(config.labels, config.format)
    around, unread = images_around(config.labels, config.format, config.images, every)
    notes += unread
    root = folder_of(config.labels, None, config)
    unlisted = _new(around, root, taken)
    if unlisted:
        what = "taken as unlabelled training images (--set only_listed=true leaves them out)"
        what = "left out" if leave_out else what
        notes.append(f"{counted(len(unlisted), 'image')} of {root} not listed: {what}")
    unlisted = {} if leave_out else unlisted
    if config.unlabelled is not None:
        folder = config.unlabelled
        more = _new(list_images(folder), folder, taken | {*map(_same, unlisted.values())})
        if not more:
            raise InputError(
                f"{folder}: expected unlabelled images, found none that is not used already"
            )
        notes.append(f"{counted(len(more), 'unlabelled training image')} from {folder}")
        name = Path(folder).resolve().name
        unlisted |= {f"{name}/{image}": path for image, path in more.items()}
    table = listed.table.with_unlabelled(list(unlisted))
    return ListedImages(table, [*listed.paths, *unlisted.values()])


def _new(names: list[str], root: str, taken: set[str]) -> dict[str, str]:
    """Those of the images at an address that are not taken, and where they are."""
    paths = find(names, root, exactly=True).paths
    pairs = zip(names, paths, strict=True)
    return {name: path for name, path in pairs if _same(path) not in taken}


def _same(path: str) -> str:
    """A path by which a file is known, however it was spelt: a Mac finds it by either way."""
    return normalize_name(os.path.realpath(path))


def _without_overlap(
    training: ListedImages, validation: ListedImages, notes: list[str]
) -> tuple[ListedImages, ListedImages, IndexArray]:
    """Training file, validation file, and rows of the former that are not trained on.

    These are the images of both files that the validation file labels completely; they get its
    labels. Others of both files are trained on, and left out of the validation.
    """
    pairs = np.array(same_files(training.paths, validation.paths), dtype=np.int64).reshape(-1, 2)
    held = validation.table.values
    is_known = per_image(held)[pairs[:, 1]] == held.shape[1]
    rows, theirs = pairs[is_known].T
    values = training.table.values.copy()
    values[rows] = held[theirs]
    training = replace(training, table=training.table.with_values(values))
    also = "of the validation file also in the training file"
    if len(rows):
        notes.append(f"{counted(len(rows), 'image')} {also}: not trained on")
    if not is_known.all():
        notes.append(
            f"{counted(int((~is_known).sum()), 'image')} {also}, and not labelled completely: "
            "trained on, and left out of the validation"
        )
    kept = np.setdiff1d(np.arange(len(held)), pairs[~is_known, 1])
    return training, validation.take(kept), np.unique(rows)


def _keep_validation_apart(validation: ListedImages, test: ListedImages, config: RunConfig) -> None:
    """Reject validation images that are test images: nothing is chosen on test."""
    shared = len(same_files(validation.paths, test.paths))
    if shared:
        raise InputError(
            f"--validation-labels {named(config.validation_labels or ())}: "
            f"{counted(shared, 'image')} also in the test file {named(config.test_labels or ())}, "
            "but validation and test must not share images; leave them out of one of the two"
        )


def keep_test_apart(
    training: ListedImages, test: ListedImages, config: RunConfig, way_out: str
) -> list[str]:
    """Reject test images that are trained on, as a copy too; a note where that is allowed."""
    shared = same_files(training.paths, test.paths)
    if not shared:
        return []
    row, first = shared[0]
    name, trained = test.table.images[first], training.table.images[row]
    copy = "" if name == trained else f" = {trained!r}"
    where = named(config.test_labels or f"the test split of {named(config.labels)}")
    what = f"{where}: {counted(len(shared), 'image')} also trained on, the first {name!r}{copy}"
    if config.overlap == "reject":
        raise InputError(f"{what}; {way_out}, or use --set overlap=allow")
    return [f"{what}: test results are too optimistic"]


def _grouped(
    parts: dict[str, ListedImages], config: RunConfig, notes: list[str]
) -> dict[str, ListedImages]:
    """The images with their groups, the training images first, and notes on them."""
    tables = [part.table for part in parts.values()]
    if config.groups is not None:
        tables = with_groups(tables, config.groups, named(config.labels))
    own_groups = {name for name in tables[0].groups or () if name}
    if tables[0].groups is not None:
        images = sum(map(bool, tables[0].groups))
        count = counted(len(own_groups), "group")
        notes.append(f"{images:,} images in {count}, which no split divides")
    shared = own_groups & {name for table in tables[1:] for name in table.groups or ()}
    if shared:
        what = "of the test or validation file also among the training images"
        notes.append(f"{counted(len(shared), 'group')} {what}, as {min(shared)!r}")
    grouped = zip(parts.items(), tables, strict=True)
    return {name: replace(part, table=table) for (name, part), table in grouped}


def with_groups(tables: list[LabelTable], rule: str, labels: str) -> list[LabelTable]:
    """The tables with the groups of a file, or with their folders as groups."""
    names = dict.fromkeys(name for table in tables for name in table.images)
    if rule == GROUPS_BY_FOLDER:
        groups = by_folder(names)
    else:
        groups = read_groups(rule)
        groups |= {file: groups[name] for name, file in match_known(groups, names, rule).items()}
    tables = [with_groups_of(table, groups) for table in tables]
    if not any(tables[0].groups or ()):
        raise InputError(
            f"groups {rule}: no image of {labels} is in a group; expected names as in that file"
        )
    return tables
