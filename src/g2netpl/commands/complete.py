"""Fill in the unknown labels of the training set of a run, or of any label file.

examples:
  g2netpl complete runs/first                     runs/first/completed.csv: images with their tags
  g2netpl complete runs/first --confidence 0.9 --output photos --to photo-tags
  g2netpl complete runs/first --labels all.csv --images archive --output completed/

Without --output, completed.csv in the run folder gets a row per image with all its labels as tags,
and in `added` those that are new. A run that was trained on one CSV file, workbook or Parquet file
also writes it again, as NAME-completed in the run folder: the same columns, ids and order, with the
labels filled in. --output is a label file in any format. For Label Studio it has tasks with
predictions, for photo-tags it is the folder of the photos, and tags go into sidecars next to them.

--details is a table with a row per image and class: value (1, 0 or empty), score, and source:
observed (as in your file), soft (the pseudo-label), predicted (by the network), unreadable.

How labels are decided depends on the run, and the command prints it:
  annotation sampled (tags)      by the network: present if its probability is 0.5 or more
  --thresholds precision:P       by the network, so that P of what is added is right on validation
  --single-label                 by the network: the most probable class
  else                           training images by their pseudo-labels of the last epoch, so that
                                 the expected positives per image come out; held-out images by the
                                 network, at the thresholds of the run
With --confidence P, at least P of the positives that are added are right, and of the negatives, by
validation labels with positives and negatives. Without these, a label needs probability P, which
guarantees nothing.

With --labels another label file of any size is completed: known labels stay, the others are
predicted. --output has a row per image and a column per class. A folder is written in chunks; an
interrupted command resumes when it is given again; torchrun or Ray share the chunks.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from g2netpl.commands.complete_others import check_sure, complete_others
from g2netpl.commands.flags import Collect, add_config_flags, add_set_flag, checked
from g2netpl.commands.in_parts import add_engine_flag
from g2netpl.commands.labelling import (
    ENDINGS,
    PHOTO_TAGS,
    add_writing_flags,
    check_target,
    share_of_labels,
    write_new,
    write_sidecars,
    written,
)
from g2netpl.labels.files import each_file
from g2netpl.labels.io import FORMATS, find_format, find_writer, label_studio
from g2netpl.labels.io.sheets import complete_sheet, completed_name, is_sheet
from g2netpl.runs.answers import apply_decisions, read_decisions
from g2netpl.runs.completion import (
    Completed,
    compare_with_truth,
    complete,
    write_completed,
    write_tags,
)
from g2netpl.runs.folder import COMPLETED
from g2netpl.runs.run import Run, load_run
from g2netpl.utils import launch as launched
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import writing
from g2netpl.utils.progress import Work


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", metavar="RUN", help="run folder of g2netpl train")
    add("--output", metavar="FILE", help="label file to write (default: completed.csv in RUN)")
    add_writing_flags(parser, "--output")
    add("--details", metavar="FILE", help="table of all labels with score and source to write")
    add(
        "--confidence",
        type=float,
        metavar="P",
        help="fraction of the added labels that must be right (default: all are filled in)",
    )
    add(
        "--truth",
        action=Collect,
        metavar="LABELS",
        help="label file with full labels, to measure the added ones",
    )
    add("--overwrite", action="store_true", help="replace existing files")
    group = parser.add_argument_group("another label file")
    group.add_argument("--labels", action=Collect, help="label file to complete by prediction")
    group.add_argument("--images", help="folder of its images")
    add_engine_flag(group)
    add_config_flags(group, ("workers", "device"))
    add_set_flag(group)


def run(flags: argparse.Namespace) -> None:
    """Decide, write, and say how many labels came from where."""
    if flags.labels is not None:
        complete_others(flags)
    else:
        _complete(flags)


def _complete(flags: argparse.Namespace) -> None:
    """Complete the labels that the run was trained on."""
    console, config = Console(), checked(flags)
    tags = _checked_target(flags)
    trained = load_run(flags.run)
    completed = complete(trained, flags.confidence)
    lines = [str(completed), *_how_decided(trained, completed, flags.confidence)]
    if flags.truth is not None:
        reading = config.reading(trained.config.images)
        reading = replace(reading, single_label=config.single_label or trained.config.single_label)
        lines.append(compare_with_truth(completed, flags.truth, config.format, reading))
    console.print("\n".join(lines))
    if tags is not None:
        if not flags.dry_run:
            write_tags(completed, tags)
        said = f"each image with its labels, and those added: {tags}"
        console.print(written(tags, True) if flags.dry_run else said)
        for line in _complete_sheet(trained, completed, flags):
            console.print(line)
    if flags.details is not None:
        if not flags.dry_run:
            with Work(console, "writing", len(completed.observed)) as work:
                write_completed(completed, flags.details, work.advance)
        console.print(written(flags.details, flags.dry_run))
    if flags.output is not None:
        for line in _write_table(trained, completed, flags):
            console.print(line)
        console.print(written(flags.output, flags.dry_run))


def _checked_target(flags: argparse.Namespace) -> str | None:
    """See that all may be written; the table of tags in the run folder, if no other is wanted."""
    wanted = (flags.details, flags.output, flags.truth)
    tags = str(Path(flags.run) / COMPLETED) if wanted == (None, None, None) else None
    proposals = flags.output is not None and flags.to == "label-studio"
    if (flags.images, flags.engine) != (None, "here") or launched.size() > 1:
        raise InputError("--images, --engine and several processes: go with --labels")
    check_sure(flags.confidence)
    for target in filter(None, (flags.details, tags)):
        check_target(target, ENDINGS, flags.overwrite)
    if flags.output is not None and flags.to != PHOTO_TAGS:
        check_target(flags.output, (".json",) if proposals else None, flags.overwrite)
        find_writer(flags.output, flags.to)
    return tags


def _how_decided(trained: Run, completed: Completed, sure: float | None) -> list[str]:
    """By what the labels were decided, unless bounds of validation say it, and what these lack."""
    lack = [f"note: {completed.lack}"] if completed.lack else []
    if sure is None:
        return [f"{completed.how}; --confidence 0.9 fills in the surest alone", *lack]
    if completed.sure is not None:
        return lack
    basis = "names alone" if trained.thresholds.by_draw else "k alone, with no promise"
    return [
        f"sure by {basis}: validation has no labels of both signs, complete or missing at "
        "random, to hold it against; "
        "--validation-labels of a training brings them"
    ]


def _write_table(trained: Run, completed: Completed, flags: argparse.Namespace) -> list[str]:
    """Write the label file, and tell what is in it."""
    if flags.to == PHOTO_TAGS:
        decisions, single_label = read_decisions(flags.run), trained.config.single_label
        reviewed = apply_decisions(completed.observed, decisions, single_label)
        table, guessed = completed.as_tags(reviewed)
        return write_sidecars(table, flags, flags.output, guessed)
    if find_writer(flags.output, flags.to) is FORMATS["label-studio"]:
        return _propose(trained, completed, flags)
    how = (flags.to, flags.overwrite, flags.dry_run)
    notes = write_new(completed.table, flags.output, *how)
    return [*(f"note: {note}" for note in notes), share_of_labels(completed.table)]


def _propose(trained: Run, completed: Completed, flags: argparse.Namespace) -> list[str]:
    """Write known and proposed labels for Label Studio; says how much is in it."""
    project, new, notes = _project_of(trained), completed.proposed(), list[str]()
    if not flags.dry_run:
        with writing(flags.output):
            says = (new, completed.scores, trained.version, project)
            notes = label_studio.propose(completed.observed, Path(flags.output), *says)
    predicted = f"{new.sum():,} as predictions"
    known = f"{completed.observed.known:,} known labels as annotations, {predicted}"
    content = known if project is None else f"{predicted}, for the tasks of {project}"
    return [*(f"note: {note}" for note in notes), content]


def _complete_sheet(trained: Run, completed: Completed, flags: argparse.Namespace) -> list[str]:
    """Write the user's own sheet with the tags completed; says where."""
    config = trained.config
    first, *more = map(Path, each_file(config.labels))
    if more or config.format not in (None, "csv", "tags", "xlsx", "parquet") or not is_sheet(first):
        return []
    target = completed_name(first, Path(flags.run))
    said = f"{first} with the labels that were added: {target}"
    if flags.dry_run:
        return [f"nothing is written to {target} (--dry-run)"]
    check_target(str(target), None, flags.overwrite, [first])
    parts = (completed.table, completed.proposed(), target, completed.scores)
    notes = complete_sheet(first, *parts, config.reading(config.images))
    return [said, *(f"note: {note}" for note in notes)]


def _project_of(trained: Run) -> Path | None:
    """The label file of a run, if it is one of Label Studio's tasks and is still there."""
    first, *more = map(Path, each_file(trained.config.labels))
    found = not more and first.is_file() and find_format(first, trained.config.format)
    return first if found is FORMATS["label-studio"] else None
