"""Say how much labelling is enough: mAP against labelled images, and what 100 more would bring.

examples:
  g2netpl plan --labels labels.csv --images photos --output plans/first
  g2netpl plan --labels labels.csv --images photos --absent negative --output plans/complete
  g2netpl plan --features features --setting own --output plans/features

The labelled images must be known with both signs, 1 and 0: mAP is measured on some of them. A last
layer is trained on frozen features of more and more of the others, and a curve drawn through the
results. --setting says what a labelled image is: fspl, one object of it is named; own, all that
the file knows. Writes plan.json, curve.csv, curve.png and plan.txt.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from g2netpl.base.disk import write_json, write_text_whole
from g2netpl.base.errors import InputError
from g2netpl.base.signals import NOTHING_KEPT, stoppable
from g2netpl.commands.training_flags import add_training_flags, config_of
from g2netpl.labels.files import named

if TYPE_CHECKING:
    from g2netpl.base.console import Console
    from g2netpl.experiments.labelling_plan import Plan
    from g2netpl.runs.config import RunConfig

_NOT_HERE = (
    *("mode", "train_from", "linear_epochs", "view", "precision", "thresholds", "track"),
    *("test_labels", "test_images", "validation_labels", "setting", "resume_labels"),
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command: the data and network of train, and how many trainings."""
    add = parser.add_argument
    add("--features", metavar="DIR", help="features folder instead of --labels; its train part")
    add("--setting", choices=("fspl", "own"), default="fspl", help="what a labelled image is")
    add("--points", type=int, default=6, help="numbers of labelled images to try (6)")
    add("--repeats", type=int, default=5, help="parts to test on in turn (5)")
    add("--overwrite", action="store_true", help="replace the plan in --output")
    add_training_flags(parser, without=_NOT_HERE)


@stoppable(NOTHING_KEPT)
def run(flags: argparse.Namespace) -> None:
    """Measure, draw the curve, write the files, say what they tell."""
    from g2netpl.base.console import Console
    from g2netpl.experiments.labelling_plan import describe
    from g2netpl.runs.ownership import begin_or_resume, check_folder

    config, console = _config(flags), Console()
    folder = Path(config.output)
    check_folder(folder, "plan", overwrite=flags.overwrite)
    plan = _measured(flags, config, console)
    text = describe(plan, config)
    about = {"config": config.model_dump()}
    with begin_or_resume(folder, "plan", about, resume=False, overwrite=flags.overwrite):
        _write(folder, plan, text)
    console.print(f"{text}\nwritten to {folder}")


def _config(flags: argparse.Namespace) -> "RunConfig":
    """The training of every point; mistakes in the flags show here."""
    from g2netpl.base.options import check_range

    check_range("--points", flags.points, 4, 100)
    check_range("--repeats", flags.repeats, 3, 100)
    if flags.features is not None:
        if flags.labels is not None:
            raise InputError("plan: give --labels or --features, not both")
        flags.labels = flags.features
    flags.mode = "linear"
    return config_of(flags)


def _measured(flags: argparse.Namespace, config: "RunConfig", console: "Console") -> "Plan":
    """Train on more and more labelled images, and put a curve through the results."""
    from g2netpl.base.progress import Cells
    from g2netpl.experiments import labelling_plan as planning

    features, table = planning.read_pool(config, flags.features is not None, console)
    planning.check_plan(table, named(config.labels))
    sizes = planning.sizes_of(table, config, flags.points, flags.repeats)
    points = []
    with Cells(console, flags.repeats * len(sizes)) as work:
        for point in planning.measure(features, table, config, flags.points, flags.repeats):
            work.finished(f"{point.labelled:,} labelled images: mAP {point.score:.1%}")
            points.append(point)
    return planning.make_plan(table, points)


def _write(folder: Path, plan: "Plan", text: str) -> None:
    """All files of the plan."""
    from g2netpl.reports.figures import plan_figure, write_figure

    write_json(folder / "plan.json", plan.to_json())
    write_text_whole(folder / "plan.txt", text + "\n")
    write_figure(folder / "curve.png", plan_figure(plan.lines(), plan.labelled))
