"""Fill in every unknown label of the training set of a run, or of any label file.

examples:
  g2netpl complete runs/first                      runs/first/completed.csv: images with their tags
  g2netpl complete runs/first --output completed.csv                 every label, with its source
  g2netpl complete runs/first --output completed.parquet --sure 0.9  leave doubtful ones unknown
  g2netpl complete runs/first --table full.xlsx                      a label file, all 1 and 0
  g2netpl complete runs/first --table tasks.json --to label-studio   proposals to be reviewed
  g2netpl complete runs/first --table photos --to photo-tags --dry-run   tags in .xmp sidecars
  g2netpl complete runs/first --labels all.csv --images archive --output completed/

Without --output and --table, completed.csv in the run folder gets a row per image with all its
labels as tags, and in `added` those of them that are new. A spreadsheet opens it, and `train` reads
the labels. If the run was trained on one CSV file, workbook or Parquet file, it comes back, too, as
NAME-completed in the run folder: the same columns, ids and order, with the labels filled in.

--output has a row per image and class: value (1 or 0, empty where in doubt), score, and source:
observed (as in your file), soft (the pseudo-label), predicted (by the network), unreadable.

How labels are decided depends on the labels that there are, and the command says it:
  annotation sampled (tags)      by the network: present if its probability is 0.5 or more
  --thresholds precision:P       by the network, so that P of what is added is right on validation
  --one-of                       by the network: the likeliest class
  else                           images trained on by their soft labels of the last epoch, so that
                                 the expected number of positives per image comes out; images held
                                 out by the network, at the thresholds of the run
With --sure P, of the positives that are filled in P are right, and of the negatives too, by
validation labels of both signs. Without such labels a label must have a chance of P, which is no
promise: with annotation sampled by the network, else by soft label and network both.

--table is a label file in any format. For Label Studio it holds tasks with predictions: those of
the label file if it came from there, with their ids and addresses, to be imported into the same
project; otherwise new ones.
The flags on formats are about --truth.

With --labels another file is completed, of any size: what it knows stays, the rest is decided by
prediction. --output then has a row per image and a column per class: 1, 0, or nothing where in
doubt. As a folder it is made in blocks, which go on after a kill and are shared out as with
`predict`.

With --to photo-tags, --table is the folder of the photos. Positives become tags in sidecars beside
them; a tag goes only where somebody answered no in the review. No photo is written.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from g2netpl.commands.complete_others import check_sure, complete_others
from g2netpl.commands.in_parts import add_engine_flag
from g2netpl.commands.labelling import (
    ENDINGS,
    PHOTO_TAGS,
    READING_SEVERAL,
    add_writing_flags,
    check_target,
    share_of_labels,
    write_new,
    write_sidecars,
    written,
)
from g2netpl.commands.training_flags import OneMore, add_config_flags, checked
from g2netpl.images.thumbnails import Roots
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
    parser.add_argument("run", metavar="RUN", help="run folder of g2netpl train")
    parser.add_argument("--output", help="long table to write, .csv, .xlsx, .parquet or .pq")
    parser.add_argument(
        "--labels",
        action=OneMore,
        help="label file to be completed instead, by prediction; several are joined",
    )
    parser.add_argument("--images", help="with --labels: where its images are")
    parser.add_argument("--table", help="label file to write")
    add_writing_flags(parser, "--table")
    parser.add_argument(
        "--sure",
        type=float,
        metavar="P",
        help="fill in only labels that are so sure, by validation labels or else by their chance "
        "(default: all)",
    )
    parser.add_argument(
        "--truth",
        action=OneMore,
        metavar="LABELS",
        help="full labels, to measure the filled-in ones against; several are joined",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what is there")
    add_engine_flag(parser)
    add_config_flags(parser, (*READING_SEVERAL, "workers", "device"))


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
    completed = complete(trained, flags.sure)
    lines = [str(completed), *_how_decided(trained, completed, flags.sure)]
    if flags.truth is not None:
        reading = config.reading(trained.config.images)
        reading = replace(reading, one_of=config.one_of or trained.config.one_of)
        lines.append(compare_with_truth(completed, flags.truth, config.format, reading))
    console.print("\n".join(lines))
    if tags is not None:
        if not flags.dry_run:
            write_tags(completed, tags)
        said = f"each image with its labels, and those added: {tags}"
        console.print(written(tags, True) if flags.dry_run else said)
        for line in _complete_sheet(trained, completed, flags):
            console.print(line)
    if flags.output is not None:
        if not flags.dry_run:
            with Work(console, "writing", len(completed.observed)) as work:
                write_completed(completed, flags.output, work.advance)
        console.print(written(flags.output, flags.dry_run))
    if flags.table is not None:
        for line in _write_table(trained, completed, flags):
            console.print(line)
        console.print(written(flags.table, flags.dry_run))


def _checked_target(flags: argparse.Namespace) -> str | None:
    """See that all may be written; the table of tags in the run folder, if no other is wanted."""
    wanted = (flags.output, flags.table, flags.truth)
    tags = str(Path(flags.run) / COMPLETED) if wanted == (None, None, None) else None
    proposals = flags.table is not None and flags.to == "label-studio"
    if (flags.images, flags.engine) != (None, "here") or launched.size() > 1:
        raise InputError("--images, --engine and several processes: go with --labels")
    check_sure(flags.sure)
    for target in filter(None, (flags.output, tags)):
        check_target(target, ENDINGS, flags.overwrite)
    if flags.table is not None and flags.to != PHOTO_TAGS:
        check_target(flags.table, (".json",) if proposals else None, flags.overwrite)
        find_writer(flags.table, flags.to)
    return tags


def _how_decided(trained: Run, completed: Completed, sure: float | None) -> list[str]:
    """By what the labels were decided, unless bounds of validation say it, and what these lack."""
    lack = [f"note: {completed.lack}"] if completed.lack else []
    if sure is None:
        return [f"{completed.how}; --sure 0.9 fills in the surest alone", *lack]
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
        decisions, one_of = read_decisions(flags.run), trained.config.one_of
        reviewed = apply_decisions(completed.observed, decisions, one_of)
        table, guessed = completed.as_tags(reviewed)
        return write_sidecars(table, flags, flags.table, guessed)
    if find_writer(flags.table, flags.to) is FORMATS["label-studio"]:
        return _propose(trained, completed, flags)
    how = (flags.to, flags.overwrite, flags.dry_run)
    notes = write_new(completed.table, flags.table, *how)
    return [*(f"note: {note}" for note in notes), share_of_labels(completed.table)]


def _propose(trained: Run, completed: Completed, flags: argparse.Namespace) -> list[str]:
    """Write known and proposed labels for Label Studio; says how much is in it."""
    project, new, notes = _project_of(trained), completed.proposed(), list[str]()
    folder = Path(Roots.of_run(trained.about["config"], None).images)
    if not flags.dry_run:
        with writing(flags.table):
            says = (new, completed.scores, trained.version, folder, project)
            notes = label_studio.propose(completed.observed, Path(flags.table), *says)
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
