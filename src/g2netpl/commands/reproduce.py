"""Run an experiment of the paper on your data and show our numbers beside the published ones.

examples:
  g2netpl reproduce table1 --data VOCdevkit --output runs/voc --dry-run
  g2netpl reproduce table2 --data coco_features --output runs/coco --choose-once
  g2netpl reproduce ablation --data photos.csv --test-labels test.csv --images photos \\
      --mode linear --backbone lite0 --image-size 224 --learning-rates 1e-3,3e-4 \\
      --batch-sizes 64 --output runs/ablation
  g2netpl reproduce table2 --data F --methods em,g2netpl:penalty=0.5 --output runs/more
  g2netpl reproduce all --output runs/scenes --seeds 0
  g2netpl reproduce parameters --output runs/parameters

WHAT is table1, table2, ablation, convergence, semi-supervised, parameters, labels or all. --data is
a folder of VOC 2012, COCO or NUS-WIDE in its official layout, a features folder, or a label file
with full labels, next to --test-labels; without it, the built-in scenes. On images the paper's
protocol is the default: ResNet-50, 448 px, 10 epochs, 8 cells for each method; --dry-run lists the
trainings. Broken off, the same command goes on; more --seeds and --methods may be added behind the
others. The folder gets index.html, and each table and figure as CSV and PNG.
"""

import argparse
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from g2netpl.commands.grid_flags import add_grid_flags, image_keys, split_numbers, to_be_kept
from g2netpl.commands.parsing import split_list
from g2netpl.commands.training_flags import OneMore, checked
from g2netpl.experiments.paper import DATA_SETS, data_set_of, find_recipes, with_methods
from g2netpl.runs.config import RunConfig
from g2netpl.runs.folder import is_begun
from g2netpl.runs.ownership import begin_or_resume, is_empty
from g2netpl.runs.records import read_run
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError, did_you_mean
from g2netpl.utils.signals import AGAIN, stoppable

if TYPE_CHECKING:
    from g2netpl.experiments.reproduction import Plan, Protocol


_OF_THE_PAPER = {"backbone": "resnet50", "image_size": 448, "linear_epochs": 25}


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("what", metavar="WHAT", help="a table or figure of the paper, or all")
    add(
        "--data",
        action=OneMore,
        metavar="ROOT",
        help="data set, features folder or label files, which are joined; without: scenes",
    )
    add("--published", metavar="NAME", help="VOC, COCO or NUS-WIDE (by the classes)")
    add("--methods", metavar="LIST", help="more rows for table1, table2 and semi-supervised: em,gr")
    add("--dry-run", action="store_true", help="list what would be trained")
    usual = {"hidden": 0, "mode": None, "epochs": None, **_OF_THE_PAPER}
    add_grid_flags(parser, usual, "images: the paper's; features: 1e-3,3e-4", "8,16; features 64")


@stoppable(AGAIN)
def run(flags: argparse.Namespace) -> None:
    """Train what is missing, write the page."""
    from g2netpl.experiments.reproduction import check, reproduce
    from g2netpl.reports.reproduction import write_page

    config, console, folder = checked(flags), Console(), Path(flags.output)
    plan = _plan(flags, config)
    trainings = plan.trainings()
    for line in check(plan):
        console.print(line)
    for name in plan.recipes:
        for note in plan.left_out(name):
            console.print(f"{name}: {note}")
    if flags.dry_run:
        for training in trainings:
            console.print(str(training))
        console.print(f"{len(trainings):,} trainings")
        return
    with _begun(folder, to_be_kept(flags, config, plan.any_data.fingerprints)):
        found = reproduce(plan, folder, flags.jobs, console)
        data = flags.published or data_set_of(plan.tables[0].classes)
        page = write_page(plan, found, data, folder)
    console.print(f"{len(trainings):,} trainings; open {page}")


def _begun(folder: Path, kept: dict[str, Any]) -> AbstractContextManager[None]:
    """Claim the folder, or go on with what is there; where nothing was trained yet, anew."""
    there = is_begun(folder)
    if not there and not is_empty(folder):
        raise InputError(
            f"{folder}: is not empty and holds no reproduction; choose another --output"
        )
    trained = (folder / "index.html").is_file() or any(folder.glob("runs/*/*/run.json"))
    trained = trained or any(path.stat().st_size for path in folder.rglob("cells.jsonl"))
    anew = there and not trained and read_run(folder).get("command") == "reproduce"
    resume = there and not anew
    lists = ("seeds", "methods")
    return begin_or_resume(folder, "reproduce", kept, resume=resume, overwrite=anew, lists=lists)


def _plan(flags: argparse.Namespace, config: RunConfig) -> "Plan":
    """Which recipes, on what, and how."""
    from g2netpl.experiments.data import find_dataset
    from g2netpl.experiments.reproduction import Plan

    if flags.published is not None and flags.published not in DATA_SETS:
        raise InputError(f"--published: {did_you_mean(flags.published, DATA_SETS)}")
    recipes = find_recipes(flags.what)
    if flags.methods is not None:
        recipes = with_methods(recipes, split_list("--methods", flags.methods, str))
    dataset, photos = find_dataset(flags.data, flags.test_labels, flags.images), {}
    for name, value in image_keys(flags, config).items():
        if dataset.kind != "images" and name not in _OF_THE_PAPER:
            flag = name.replace("_", "-")
            raise InputError(f"--{flag}: for images with a label file; here are {dataset.kind}")
        if dataset.kind == "images" and name not in ("test_labels", "images"):
            photos[name] = value
    return Plan(dataset, _protocol(flags, config, dataset.kind, photos), recipes)


def _protocol(
    flags: argparse.Namespace, config: RunConfig, kind: Any, photos: dict[str, Any]
) -> "Protocol":
    """How every cell is trained: as the paper did on images, unless told."""
    from g2netpl.experiments.reproduction import USUAL, Protocol

    _, rates, batches = USUAL[kind]
    grid = {"learning_rates": rates, "batch_sizes": batches, **split_numbers(flags)}
    return Protocol(
        None if flags.epochs is None else config.epochs,
        **grid,
        hidden=config.hidden,
        search_weights=flags.search_weights,
        choose_once=flags.choose_once,
        expected_positives=config.expected_positives,
        optimizer=config.optimizer,
        ema=config.ema,
        photos=photos,
    )
