"""Reproduce an experiment of the paper on your data, next to the published numbers.

examples:
  g2netpl reproduce table1 --data VOCdevkit --output runs/voc --dry-run
  g2netpl reproduce table2 --data coco_features --methods em --choose-once --output runs/coco
  g2netpl reproduce all --seeds 0 --output runs/scenes

WHAT is table1, table2, ablation, convergence, semi-supervised, parameters, labels or all. --data is
a folder of VOC 2012, COCO or NUS-WIDE in its official layout, a features folder, or a label file
with full labels and --test-labels; without it, the built-in scenes. On images the paper's
protocol is the default: ResNet-50, 448 px, 10 epochs, 8 cells for each method; --dry-run lists the
runs. An interrupted command resumes when it is given again; more --seeds and --methods may be
added behind the others. OUTPUT gets index.html, and each table and figure as CSV and PNG.
"""

import argparse
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from g2netpl.commands.flags import (
    add_config_flags,
    add_plugin_flag,
    add_settings_flags,
    split_list,
)
from g2netpl.commands.grid import (
    add_grid_flags,
    grid_settings,
    image_keys,
    split_numbers,
    to_be_kept,
)
from g2netpl.experiments.data import find_dataset
from g2netpl.experiments.paper import data_set_of, find_recipes, with_methods
from g2netpl.experiments.reproduction import USUAL, Plan, Protocol, check, reproduce
from g2netpl.reports.reproduction import write_page
from g2netpl.runs.config import RunConfig
from g2netpl.runs.output_dir import begin_or_resume, is_empty
from g2netpl.runs.records import is_begun, read_run
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError
from g2netpl.utils.signals import AGAIN, stoppable

_OF_THE_PAPER = {"backbone": "resnet50", "image_size": 448, "linear_epochs": 25}


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="WHAT", help="a table or figure of the paper, or all")
    group = parser.add_argument_group("data")
    group.add_argument("--data", help="data set, features folder or label file (default: scenes)")
    add_config_flags(group, ("images", "test_labels"))
    group = parser.add_argument_group("grid")
    group.add_argument(
        "--methods", help="more rows for table1, table2 and semi-supervised, such as em,gr"
    )
    usual = {"mode": "that of the paper", "epochs": "10 on images", **_OF_THE_PAPER}
    add_grid_flags(group, usual, "images: the paper's; features: 1e-3,3e-4", "8,16; features 64")
    add_plugin_flag(group)
    group = parser.add_argument_group("run")
    add_config_flags(group, ("output",), required=("output",))
    add_settings_flags(group)
    group.add_argument("--dry-run", action="store_true", help="list the runs, train nothing")


@stoppable(AGAIN)
def run(flags: argparse.Namespace) -> None:
    """Train what is missing, write the page."""
    console, folder = Console(), Path(flags.output)
    given, config = grid_settings(flags, _OF_THE_PAPER)
    plan = _plan(flags, given, config)
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
    with _begun(folder, to_be_kept(flags, given, config, plan.any_data.fingerprints)):
        found = reproduce(plan, folder, flags.jobs, console)
        data = data_set_of(plan.tables[0].classes)
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


def _plan(flags: argparse.Namespace, given: dict[str, Any], config: RunConfig) -> Plan:
    """Which recipes, on what, and how."""
    recipes = find_recipes(flags.what)
    if flags.methods is not None:
        recipes = with_methods(recipes, split_list("--methods", flags.methods, str))
    dataset = find_dataset(flags.data, flags.test_labels, flags.images)
    keys = image_keys(given, config)
    for name in keys if dataset.kind != "images" else ():
        raise InputError(f"{name}: only for images with a label file; here are {dataset.kind}")
    photos = {**_OF_THE_PAPER, **keys} if dataset.kind == "images" else {}
    for name in ("test_labels", "images"):
        photos.pop(name, None)
    return Plan(dataset, _protocol(flags, config, dataset.kind, photos), recipes)


def _protocol(
    flags: argparse.Namespace, config: RunConfig, kind: Any, photos: dict[str, Any]
) -> Protocol:
    """How every cell is trained: on images as in the paper, unless changed."""
    _, rates, batches = USUAL[kind]
    grid = {"learning_rates": rates, "batch_sizes": batches, **split_numbers(flags)}
    return Protocol(
        config.epochs,
        **grid,
        hidden=config.hidden,
        search_weights=flags.search_weights,
        choose_once=flags.choose_once,
        expected_positives=config.expected_positives,
        optimizer=config.optimizer,
        ema=config.ema,
        photos=photos,
    )
