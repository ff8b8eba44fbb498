"""Check a label file and its images before training: all that is wrong or unusual, in one pass.

examples:
  g2netpl check --labels labels.csv --images photos
  g2netpl check --labels labels.csv --images photos --output issues.csv
  g2netpl check --labels train.csv --images photos --test-labels test.csv --groups-out groups.csv

Near-duplicates (the same picture in another size or quality, neighbours of a series) are counted;
--groups-out writes them as groups, which g2netpl train --groups keeps in one split.

Exit code 0: ready to train. 2: g2netpl train would reject the data, for the reasons shown.
"""

import argparse
from collections.abc import Sequence
from contextlib import suppress

from rich.table import Table

from g2netpl.commands.flags import (
    add_config_flags,
    add_overwrite_flag,
    add_settings_flags,
    checked,
)
from g2netpl.commands.writing import check_target, summary
from g2netpl.images import check as images
from g2netpl.images.check import Inspection
from g2netpl.images.duplicates import named_groups, near_duplicates
from g2netpl.images.sources import find
from g2netpl.labels import class_names
from g2netpl.labels.files import each_file
from g2netpl.labels.io import LabelFileError, image_folder, read_labels
from g2netpl.labels.io.writing import write_rows
from g2netpl.labels.table import group_numbers
from g2netpl.runs.config import RunConfig
from g2netpl.training.data import read_training_data
from g2netpl.utils.console import Console, shown
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.progress import Work

_FREQUENT, _EXAMPLES = 20, 5  # classes that are shown at each end, issues of each kind


def add_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("data")
    parts = ("test_labels", "validation_labels", "groups")
    add_config_flags(group, ("labels", "images", "format", *parts, "single_label"))
    add_config_flags(group, ("max_unreadable", "backbone", "names", "workers"))
    add_settings_flags(group)
    group = parser.add_argument_group("output")
    group.add_argument("--no-decode", action="store_true", help="skip the decoding of images")
    group.add_argument("--output", metavar="FILE", help="CSV file of all issues")
    group.add_argument("--groups-out", metavar="FILE", help="CSV file of near-duplicates as groups")
    group.add_argument("--names-out", metavar="FILE", help="CSV file of what class names mean")
    add_overwrite_flag(group)


def run(flags: argparse.Namespace) -> None:
    """Inspect, show, and fail if training would."""
    console, config = Console(), checked(flags)
    if not config.labels:
        raise InputError("expected --labels; g2netpl check --help has examples")
    read = each_file(config.labels) + each_file(config.test_labels or ())
    for target in filter(None, (flags.output, flags.groups_out, flags.names_out)):
        check_target(target, (".csv",), flags.overwrite, read)
    if flags.groups_out is not None and flags.no_decode:
        raise InputError("--groups-out: needs the pictures; leave out --no-decode")
    if config.images is not None:
        find([], config.images)
    found = _inspect(config)
    if found.table is not None:
        with Work(console, "checking images", len(found.table)) as work:
            images.inspect_images(
                *(found, config.images, config.format, config.workers),
                *(config.most_unreadable, work.advance),
                decode=not flags.no_decode,
                elsewhere=_paths_of_other_splits(config),
                may_miss=config.missing == "leave-out",
            )
        _match_class_names(found, found.table.classes, config, flags.names_out)
    if found.hashes and not found.errors:
        _find_duplicates(console, found, config, flags.groups_out)
    _show(console, found)
    if flags.output is not None:
        images.write_issues(found, flags.output)
        console.print(f"all issues: {flags.output}")
    if found.errors:
        count = counted(len(found.errors), "error")
        remedy = found.remedy or "correct the file and check it again"
        raise InputError(f"{found.labels}: {count}, listed above; {remedy}")
    unseen = "; the images were not decoded" if flags.no_decode else ""
    console.print(f"Ready to train{unseen}.")


def _inspect(config: RunConfig) -> Inspection:
    """Check the label files, or else report what is wrong in a file that says how to read them."""
    try:
        reading = config.reading()
    except LabelFileError as problem:
        return Inspection(config.labels, errors=list(problem.issues))
    return images.inspect_labels(config.labels, config.format, reading)


def _paths_of_other_splits(config: RunConfig) -> set[str]:
    """Paths of the images of the test and the validation file."""
    paths: set[str] = set()
    parts = ((config.test_labels, config.test_images), (config.validation_labels, None))
    for files, folder in parts:
        if files is not None:
            root = folder or config.images or image_folder(files, config.format)
            names = read_labels(files, config.format, config.reading(folder)).images
            with suppress(InputError):  # reported with the training data
                paths.update(find(names, root).paths)
    return paths


def _match_class_names(
    found: Inspection, classes: Sequence[str], config: RunConfig, target: str | None
) -> None:
    """Report which class names the backbone's ImageNet classifier knows; write what they mean."""
    synsets = class_names.imagenet_synsets(class_names.classifier_size(config.backbone))
    if synsets:
        matches = class_names.match_names(classes, synsets, config.names)
        found.facts.append(class_names.summary(matches, synsets))
        if target is not None:
            class_names.write_names(target, matches)
            found.facts.append(f"what class names mean, for train --names: {target}")
    elif target is not None:
        raise InputError(f"--names-out: {config.backbone} has no ImageNet classifier")


def _find_duplicates(
    console: Console, found: Inspection, config: RunConfig, target: str | None
) -> None:
    """Report how many images look the same, and how many across splits; write groups."""
    try:
        data = read_training_data(config)
    except InputError as problem:
        where, _, what = str(problem).partition(": ")
        found.reject(where, "rejected by train", what)
        return
    others = [path for path, *_ in data.all_images if path not in found.hashes]
    with Work(console, "checking images of other files", len(others)) as work:
        for facts in images.inspect_files(others, config.workers):
            work.advance()
            if facts.problem is None:
                found.hashes[facts.path] = facts.phash
    seen = [image for image in data.all_images if image[0] in found.hashes]
    paths, names, groups, splits = zip(*seen, strict=True)
    hashes = [found.hashes[path] for path in paths]
    result = near_duplicates(hashes, splits, group_numbers(groups))
    hint = "; --groups-out FILE writes them as groups" if result.pairs and target is None else ""
    found.facts.append(
        f"near-duplicates: {counted(result.pairs, 'pair')}, {result.apart:,} in different splits "
        f"(training, validation, test){hint}"
    )
    if target is not None:
        joined = named_groups(names, groups, result.groups)
        write_rows(target, ["image", "group"], joined.items())
        several = counted(len(set(joined.values())), "group")
        found.facts.append(f"{several} of {len(joined):,} images, for train --groups: {target}")


def _show(console: Console, found: Inspection) -> None:
    if found.table is not None:
        console.print(summary(found.table))
        table = Table("class", box=None, pad_edge=False)
        for name in ("positive", "negative", "unknown"):
            table.add_column(name, justify="right")
        ranked = sorted(found.classes, key=lambda count: -count.positive)
        is_long = len(ranked) > 2 * _FREQUENT
        for name, *numbers in ranked[:_FREQUENT] + ranked[-_FREQUENT:] if is_long else ranked:
            table.add_row(shown(name), *(f"{number:,}" for number in numbers))
        console.print(table)
        if is_long:
            console.print(f"({_FREQUENT} most and least frequent of {len(ranked)} classes)")
    for fact in found.facts:
        console.print(shown(fact))
    for severity, issues in (("error", found.errors), ("warning", found.warnings)):
        for kind, group in images.by_kind(issues).items():
            console.print(f"{severity}: {kind}: {len(group):,}")
            for issue in group[:_EXAMPLES]:
                console.print(shown(f"  {issue.where}: {issue.message}"))
            if len(group) > _EXAMPLES:
                console.print("  … (--output FILE writes all)")
