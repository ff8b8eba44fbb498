"""Fill in every unknown label of the training set of a run.

examples:
  g2netpl complete runs/first --output completed.csv                 every label, with its source
  g2netpl complete runs/first --output completed.parquet --sure 0.9  leave doubtful ones unknown
  g2netpl complete runs/first --table full.csv                       a label file, all 1 and 0
  g2netpl complete runs/first --table tasks.json --to label-studio   proposals to be reviewed
  g2netpl complete runs/first --table ours.json --to label-studio --like export.json

--output has a row per image and class: value (1 or 0, empty where in doubt), score, and source:
observed (as in your file), soft (the game's soft label), predicted (of images held out from
training), unreadable. Soft labels are those of the last epoch, decided so that the expected number
of positives per image comes out. With --sure P, of the positives that are filled in P are right,
and of the negatives too, by validation labels of both signs; without such labels, both the soft
label and the network's prediction must have that chance. --table is a label file in any format. For
Label Studio it holds tasks with predictions: those of --like, or of the label file if it came from
there, with their ids and addresses, to be imported into the same project; otherwise new ones. The
flags on formats are about --truth.
"""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from g2netpl.base.console import Console
    from g2netpl.runs.completion import Completed
    from g2netpl.runs.run import Run


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    from g2netpl.commands.labelling import READING
    from g2netpl.commands.training_flags import add_config_flags

    parser.add_argument("run", metavar="RUN", help="run folder of g2netpl train")
    parser.add_argument("--output", help="long table to write, .csv, .parquet or .pq")
    parser.add_argument("--table", help="label file to write")
    parser.add_argument("--to", metavar="FORMAT", help="format of --table (default: by its name)")
    parser.add_argument(
        "--like",
        metavar="TASKS",
        help="with --to label-studio: an export of the project whose tasks are meant "
        "(default: the label file of the run, if it is one)",
    )
    parser.add_argument(
        "--sure",
        type=float,
        metavar="P",
        help="fill in only so many labels that this share is right (default: all)",
    )
    parser.add_argument(
        "--truth", metavar="LABELS", help="full labels, to measure the filled-in ones against"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what is there")
    add_config_flags(parser, READING)


def run(flags: argparse.Namespace) -> None:
    """Decide, write, and say how many labels came from where."""
    from g2netpl.base.console import Console
    from g2netpl.base.errors import InputError
    from g2netpl.commands.labelling import check_target, share_of_labels, write_new
    from g2netpl.commands.training_flags import checked
    from g2netpl.labels.formats import find_writer
    from g2netpl.runs.completion import compare_with_truth, complete, write_completed
    from g2netpl.runs.run import load_run

    console, config = Console(), checked(flags)
    if flags.output is None and flags.table is None and flags.truth is None:
        raise InputError("complete: nothing to do; give --output, --table or --truth")
    proposals = flags.table is not None and flags.to == "label-studio"
    if flags.like is not None and not proposals:
        raise InputError("--like: goes with --table FILE --to label-studio")
    if flags.sure is not None and not 0.5 <= flags.sure < 1:
        raise InputError(f"--sure: must be at least 0.5 and less than 1, got {flags.sure:g}")
    if flags.output is not None:
        check_target(flags.output, (".csv", ".parquet", ".pq"), flags.overwrite)
    if flags.table is not None:
        check_target(flags.table, (".json",) if proposals else None, flags.overwrite)
        find_writer(flags.table, flags.to)
    trained = load_run(flags.run)
    completed = complete(trained, flags.sure)
    console.print(str(completed), highlight=False)
    if flags.sure is None:
        k, hint = (
            f"{trained.expected_positives:.2f}",
            f"every label is decided by {trained.thresholds}",
        )
        if trained.thresholds.by_draw:
            hint = f"every label is decided: {trained.thresholds.rule}, or absent"
        elif trained.has_soft_labels().any():
            hint = f"every label is decided, so that about k = {k} positives per image come out"
        console.print(f"{hint}; --sure 0.9 fills in the surest alone", highlight=False)
    elif completed.sure is None:
        basis = "names alone" if trained.thresholds.by_draw else "k alone, with no promise"
        console.print(
            f"sure by {basis}: validation has no labels of both signs to hold it against; "
            "--validation-labels of a training brings them",
            highlight=False,
        )
    if flags.truth is not None:
        shown = compare_with_truth(completed, flags.truth, config.format, config.reading())
        console.print(shown, highlight=False)
    if flags.output is not None:
        write_completed(completed, flags.output)
        console.print(f"written to {flags.output}", highlight=False)
    if flags.table is not None:
        if proposals:
            content = _write_predictions(trained, completed, flags, console)
        else:
            for note in write_new(completed.table, flags.table, flags.to, flags.overwrite):
                console.print(f"note: {note}", highlight=False)
            content = share_of_labels(completed.table)
        console.print(f"{content}\nwritten to {flags.table}", highlight=False)


def _write_predictions(
    trained: "Run", completed: "Completed", flags: argparse.Namespace, console: "Console"
) -> str:
    """Write tasks of Label Studio; says how much is in them."""
    from pathlib import Path

    from g2netpl.images.thumbnails import Roots
    from g2netpl.labels.formats import label_studio
    from g2netpl.labels.table import POSITIVE

    like = _tasks_of(trained) if flags.like is None else Path(flags.like)
    folder = Roots.of_run(trained.about["config"], None).images
    said = (completed.values == POSITIVE, completed.scores, trained.version)
    written = (Path(flags.table), like, folder)
    for note in label_studio.write_predictions(completed.observed, *said, *written):
        console.print(f"note: {note}", highlight=False)
    new = f"{completed.proposed().sum():,} as predictions"
    if like is not None:
        return f"{new}, for the tasks of {like}"
    return f"{completed.observed.known:,} known labels as annotations, {new}"


def _tasks_of(trained: "Run") -> "Path | None":
    """The label file of a run, if it came from Label Studio and is still there."""
    from pathlib import Path

    from g2netpl.labels.formats import FORMATS, find_format

    path = Path(trained.config.labels)
    found = path.is_file() and find_format(path, trained.config.format)
    return path if found is FORMATS["label-studio"] else None
