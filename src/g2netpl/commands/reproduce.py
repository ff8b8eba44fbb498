"""Reproduce an experiment of the paper on your data, next to the published numbers.

examples:
  g2netpl reproduce table1 --data VOCdevkit --output runs/voc --dry-run
  g2netpl reproduce table2 --data coco_features --methods em --choose-once --output runs/coco
  g2netpl reproduce all --seeds 0 --output runs/scenes

WHAT is table1, table2, ablation, convergence, semi-supervised, parameters, labels or all. --data is
a folder of VOC 2012, COCO or NUS-WIDE in its official layout, a features folder, or a label file
with full labels and --test-labels; without it, the built-in scenes. On images the paper's
protocol is the default: ResNet-50, 448 px, 10 epochs, 8 cells for each method; --dry-run lists the
runs. The same command again resumes, also with more --seeds and --methods added behind the others.
OUTPUT gets index.html with the tables and figures, and their numbers as CSV.
"""

import argparse
from pathlib import Path

from g2netpl.commands.flags import (
    add_config_flags,
    add_overwrite_flag,
    add_plugin_flag,
    add_settings_flags,
    split_list,
)
from g2netpl.commands.grid import add_grid_flags, begun, grid_of, grid_settings, image_keys
from g2netpl.experiments.data import find_dataset
from g2netpl.experiments.paper import data_set_of, find_recipes, with_methods
from g2netpl.experiments.reproduction import USUAL, Plan, reproduce
from g2netpl.experiments.sweep import Sweep
from g2netpl.reports.reproduction import write_page
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
    rows = "more rows for table1, table2 and semi-supervised, such as em,gr"
    group.add_argument("--methods", help=rows)
    usual = {"mode": "that of the paper", "epochs": "10 on images", "backbone": "resnet50"}
    add_grid_flags(group, usual, "images: the paper's; features: 1e-3,3e-4", "8,16; features 64")
    add_plugin_flag(group)
    group = parser.add_argument_group("run")
    add_config_flags(group, ("output",), required=("output",))
    add_settings_flags(group)
    group.add_argument("--dry-run", action="store_true", help="list the runs, train nothing")
    add_overwrite_flag(group, is_folder=True)


@stoppable(AGAIN)
def run(flags: argparse.Namespace) -> None:
    """Train what is missing, write the page."""
    console, folder = Console(), Path(flags.output)
    given, config = grid_settings(flags, _OF_THE_PAPER)
    for name in {"prior", "names"} & given.keys():
        raise InputError(f"{name}: reproduce uses no prior, as the paper")
    recipes = find_recipes(flags.what)
    if flags.methods is not None:
        recipes = with_methods(recipes, split_list("--methods", flags.methods, str))
    dataset = find_dataset(flags.data, flags.test_labels, flags.images)
    keys = image_keys(given, config)
    for name in keys if dataset.kind != "images" else ():
        raise InputError(f"{name}: only for images with a label file; here are {dataset.kind}")
    photos = {**_OF_THE_PAPER, **keys} if dataset.kind == "images" else {}
    photos = {key: photos[key] for key in photos if key not in ("test_labels", "images")}
    _, rates, batches = USUAL[dataset.kind]
    grid = grid_of(flags, config, rates, batches)
    protocol = Sweep(dataset.features, (), (), epochs=config.epochs, **grid)
    plan = Plan(dataset, protocol, recipes, photos)
    for line in plan.check():
        console.print(line)
    for name in recipes:
        for note in plan.left_out(name):
            console.print(f"{name}: {note}")
    runs = plan.runs()
    if flags.dry_run:
        console.print("\n".join([*runs.values(), f"{len(runs):,} runs"]))
        return
    with begun(flags, given, config, plan.any_data.fingerprints):
        rows = reproduce(plan, folder, flags.jobs, console)
        page = write_page(plan, rows, data_set_of(plan.tables[0].classes), folder)
    console.print(f"{len(runs):,} runs; open {page}")
