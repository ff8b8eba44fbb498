"""Fill in every unknown label of the training set of a run.

examples:
  g2netpl complete runs/first --output completed.csv                 every label, with its source
  g2netpl complete runs/first --output completed.parquet --sure 0.9  leave doubtful ones unknown
  g2netpl complete runs/first --table full.csv                       a label file, all 1 and 0
  g2netpl complete runs/first --table tasks.json --to label-studio   proposals to be reviewed
  g2netpl complete runs/first --table look --to fiftyone             the same, in FiftyOne

--output has a row per image and class: value (1 or 0, empty where in doubt), score, and source:
observed (as in your file), soft (the game's soft label), predicted (of images held out from
training), unreadable. Soft labels are those of the last epoch, decided so that the expected number
of positives per image comes out. With --sure P, of the positives that are filled in P are right,
and of the negatives too, by validation labels of both signs; without such labels, both the soft
label and the network's prediction must have that chance. --table is a label file in any format. The
flags on formats are about --truth.
"""

import argparse


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    from g2netpl.commands.labelling import READING
    from g2netpl.commands.training_flags import add_config_flags

    parser.add_argument("run", metavar="RUN", help="run folder of g2netpl train")
    parser.add_argument("--output", help="long table to write, .csv, .parquet or .pq")
    parser.add_argument("--table", help="label file to write")
    parser.add_argument("--to", metavar="FORMAT", help="format of --table (default: by its name)")
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
    from pathlib import Path

    from g2netpl.base.console import Console
    from g2netpl.base.disk import writing
    from g2netpl.base.errors import InputError
    from g2netpl.commands.labelling import check_target, share_of_labels, write_new
    from g2netpl.commands.training_flags import checked
    from g2netpl.labels.formats import find_writer
    from g2netpl.runs.completion import compare_with_truth, complete, write_completed
    from g2netpl.runs.run import load_run

    console, config = Console(), checked(flags)
    if flags.output is None and flags.table is None and flags.truth is None:
        raise InputError("complete: nothing to do; give --output, --table or --truth")
    if flags.sure is not None and not 0.5 <= flags.sure < 1:
        raise InputError(f"--sure: must be at least 0.5 and less than 1, got {flags.sure:g}")
    if flags.output is not None:
        check_target(flags.output, (".csv", ".parquet", ".pq"), flags.overwrite)
    if flags.table is not None:
        tasks = flags.to == "label-studio"
        check_target(flags.table, (".json",) if tasks else None, flags.overwrite)
        propose = find_writer(flags.table, flags.to).propose
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
        if propose is not None:
            new, known = completed.proposals(), completed.observed.known
            with writing(flags.table):
                propose(completed.observed, Path(flags.table), new)
            content = f"{known:,} known labels as annotations, {new.new.sum():,} as predictions"
        else:
            for note in write_new(completed.table, flags.table, flags.to, flags.overwrite):
                console.print(f"note: {note}", highlight=False)
            content = share_of_labels(completed.table)
        console.print(f"{content}\nwritten to {flags.table}", highlight=False)
