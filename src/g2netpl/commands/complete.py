"""Fill in the unknown labels of the training set of a run, or of any label file.

examples:
  g2netpl complete runs/first                     runs/first/completed.csv: images with their tags
  g2netpl complete runs/first --confidence 0.9 --output photos --to photo-tags
  g2netpl complete runs/first --labels all.csv --images archive --output completed/
  g2netpl complete --scores tagger.csv --labels tags.csv --output completed.csv

Without --output, completed.csv in the run folder gets a row per image: all its labels as tags, and
in `added` the new ones. A run of one CSV file, workbook or Parquet file also gets NAME-completed:
the same columns and order, with the labels filled in. With --output a label file in any format is
written; for photo-tags it is the folder of the photos, and tags go into sidecars next to them.
--details is a table with a row per image and class: value (1, 0 or empty), score, and source:
observed, soft (the pseudo-label), predicted (by the network) or unreadable.

The command prints how labels are decided: by the network with the thresholds of the run, or for
training images by their pseudo-labels, so that k positives per image are expected.
With --confidence P, at least a fraction P of added positives and of added negatives is correct, by
validation labels with positives and negatives. Without these, a label needs probability P, which
is no guarantee.

With --labels another label file of any size is completed: known labels stay, the others are
predicted. --output gets a row per image and a column per class. A folder is written in chunks; the
same command again resumes; torchrun or Ray share the chunks.

With --scores, any tagger's scores take the place of RUN: a CSV or Parquet file with a row per image
and a column per class. The tagger must not have been trained on these labels.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from g2netpl.commands import chunks, writing
from g2netpl.commands.flags import (
    add_config_flags,
    add_overwrite_flag,
    add_settings_flags,
    checked,
    reject_flags,
)
from g2netpl.commands.writing import PHOTO_TAGS, summary, write_table, written
from g2netpl.labels import io
from g2netpl.labels.files import each_file
from g2netpl.labels.io import label_studio, sheets, tables
from g2netpl.labels.names import match_known, normalize_name
from g2netpl.labels.table import LabelTable
from g2netpl.runs import completion
from g2netpl.runs.answers import reviewed_labels
from g2netpl.runs.chunks import cut
from g2netpl.runs.completion import Completed, check_confidence
from g2netpl.runs.predicting import Completer, write_tags
from g2netpl.runs.prior import read_scores
from g2netpl.runs.records import COMPLETED
from g2netpl.runs.run import Run, load_run
from g2netpl.runs.thresholds import ConfidentThresholds
from g2netpl.utils import launch as launched
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.files import writing as writing_to


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", metavar="RUN", nargs="?", help="run folder of g2netpl train")
    add("--output", metavar="FILE", help="label file to write (default: completed.csv in RUN)")
    writing.add_writing_flags(parser, "--output")
    add("--details", metavar="FILE", help="table to write: all labels with score and source")
    level = "precision of added labels, guaranteed by validation labels or estimated (default: off)"
    add("--confidence", type=float, metavar="P", help=level)
    add_overwrite_flag(parser)
    group = parser.add_argument_group("another label file")
    labels = "label file to complete; may be repeated"
    add_config_flags(group, ("labels", "images"), labels=labels, images="folder of its images")
    scores = "scores of another tagger, instead of RUN"
    group.add_argument("--scores", metavar="FILE", help=scores)
    chunks.add_engine_flag(group)
    add_settings_flags(group)


def run(flags: argparse.Namespace) -> None:
    """Decide, write, and report how many labels came from where."""
    check_confidence(flags.confidence, "--confidence")
    if flags.scores is not None:
        reject_flags(flags, "images details engine", "does not go with --scores")
        if flags.labels is None or flags.output is None or flags.run is not None:
            raise InputError("--scores: needs --labels and --output, and no RUN")
        _complete_by_scores(flags)
    elif flags.run is None:
        raise InputError("complete: expected RUN, or --scores with --labels")
    elif flags.labels is None:
        reject_flags(flags, "images engine config set", "needs --labels")
        if launched.size() > 1:
            raise InputError("complete: works in several processes only with --labels")
        _complete_run(flags)
    else:
        reject_flags(flags, "details dry_run", "does not go with --labels")
        if flags.images is None or flags.output is None:
            raise InputError("--labels: needs --images and --output")
        chunks.check_output(flags)
        with chunks.interrupts(flags):
            _complete_others(flags)


def _complete_run(flags: argparse.Namespace) -> None:
    """Complete the labels that the run was trained on."""
    console = Console()
    by_default = (flags.details, flags.output) == (None, None)
    tags = str(Path(flags.run) / COMPLETED) if by_default else None
    for target in filter(None, (flags.details, tags)):
        writing.check_target(target, writing.ENDINGS, flags.overwrite)
    if flags.output is not None and flags.to != PHOTO_TAGS:
        writing.check_target(flags.output, None, flags.overwrite)
        io.find_writer(flags.output, flags.to)
    trained = load_run(flags.run)
    completed = completion.complete_run(trained, flags.confidence)
    console.print(str(completed))
    if tags is not None:
        if not flags.dry_run:
            write_tags(completed, tags)
        text = f"each image with its labels, and those added: {tags}"
        console.print(written(tags, True) if flags.dry_run else text)
        for line in _complete_sheet(trained, completed, flags):
            console.print(line)
    if flags.details is not None:
        if not flags.dry_run:
            completion.write_completed(completed, flags.details)
        console.print(written(flags.details, flags.dry_run))
    if flags.output is not None:
        for line in _write_output(trained, completed, flags):
            console.print(line)
        console.print(written(flags.output, flags.dry_run))


def _write_output(trained: Run, completed: Completed, flags: argparse.Namespace) -> list[str]:
    """Write the label file, or tags into photos; returns what is in it."""
    if flags.to == PHOTO_TAGS:
        table, guessed = completed.as_tags(reviewed_labels(flags.run))
        return write_table(table, flags.output, flags, guessed=guessed)
    if io.find_writer(flags.output, flags.to) is io.FORMATS["label-studio"]:
        return _write_predictions(trained, completed, flags)
    notes = write_table(completed.table, flags.output, flags)
    return [*(f"note: {note}" for note in notes), summary(completed.table)]


def _write_predictions(trained: Run, completed: Completed, flags: argparse.Namespace) -> list[str]:
    """Write known and predicted labels for Label Studio; returns what is in it."""
    first, *more = map(Path, each_file(trained.config.labels))
    has_tasks = not more and first.is_file()
    has_tasks &= io.find_format(first, trained.config.format) is io.FORMATS["label-studio"]
    project, new, notes = first if has_tasks else None, completed.added(), list[str]()
    if not flags.dry_run:
        with writing_to(flags.output):
            how = (new, completed.scores, trained.version, project)
            notes = label_studio.propose(completed.observed, Path(flags.output), *how)
    predicted = f"{new.sum():,} as predictions"
    known = f"{completed.observed.known:,} known labels as annotations, {predicted}"
    content = known if project is None else f"{predicted}, for the tasks of {project}"
    return [*(f"note: {note}" for note in notes), content]


def _complete_sheet(trained: Run, completed: Completed, flags: argparse.Namespace) -> list[str]:
    """Write the user's own sheet with the labels filled in; returns where."""
    config = trained.config
    first, *more = map(Path, each_file(config.labels))
    formats = (None, "csv", "tags", "xlsx", "parquet")
    if more or config.format not in formats or not tables.can_read(first):
        return []
    target = sheets.completed_name(first, Path(flags.run))
    if flags.dry_run:
        return [written(target, dry_run=True)]
    writing.check_target(str(target), None, flags.overwrite, [first])
    parts = (completed.table, completed.added(), target, completed.scores)
    notes = sheets.complete_sheet(first, *parts, config.reading(config.images))
    text = f"{first} with the labels that were added: {target}"
    return [text, *(f"note: {note}" for note in notes)]


def _complete_by_scores(flags: argparse.Namespace) -> None:
    """Complete a label file by another tagger's scores."""
    config = checked(flags)
    table = io.read_labels(flags.labels, config.format, config.reading())
    scores = read_scores(flags.scores, table.classes).scores
    if scores.isna().all().any():
        name = scores.columns[scores.isna().all()][0]
        raise InputError(f"{flags.scores}: no scores for class {name!r}; leave it out of --labels")
    known = [normalize_name(name) for name in table.images]
    scores = scores.rename(index=match_known(scores.index, known, flags.scores))
    table = table.with_unlabelled(scores.index.difference(known).tolist())
    scores = scores.reindex([normalize_name(name) for name in table.images])
    labels = pd.DataFrame(table.values, list(table.images), list(table.classes))
    completed = completion.complete(
        labels, scores.set_axis(labels.index), confidence=flags.confidence
    )
    lines = [str(completed)]
    notes = write_table(completed.table, flags.output, flags, flags.labels)
    lines += [*(f"note: {note}" for note in notes), written(flags.output, flags.dry_run)]
    Console().print("\n".join(lines))


def _complete_others(flags: argparse.Namespace) -> None:
    """Complete another label file: known labels stay, the others are predicted."""
    console, trained = Console(quiet=not launched.is_first_of_machine()), load_run(flags.run)
    if "image" in trained.classes:
        raise InputError("a class is called 'image', which is the first column; rename it")
    config, classes = checked(flags), trained.classes
    same = LabelTable((), classes, np.zeros((0, len(classes))))
    single_label = config.single_label or trained.config.single_label
    reading = config.reading().model_copy(update={"single_label": single_label})
    table = io.read_matching(flags.labels, same, config.format, reading)
    level: ConfidentThresholds | float | None = flags.confidence
    if flags.confidence is not None:
        level = completion.confident_of_run(trained, flags.confidence, table.values) or level
    maker = Completer(
        name=flags.run,
        images=flags.images,
        count=len(table),
        of_unknown=completion.thresholds_of_unknown(trained, table.values),
        k=trained.expected_positives,
        confidence=level,
        **chunks.share(flags),
    )
    parts = cut(table.images, known=table.values)
    counts = chunks.make_all(flags, console, "completing", parts, maker)
    unknown = counts["images"] * len(classes) - counts["known"]
    console.print(
        f"{counted(counts['images'], 'image')} × {counted(len(classes), 'class')}: "
        f"{counts['observed']:,} observed, {counts['known'] - counts['observed']:,} predicted\n"
        f"{counts['positives'] / max(counts['images'], 1):.2f} positives per image"
        + (f"; {unknown:,} labels left unknown" if unknown else "")
        + f"\n{written(flags.output)}"
    )
