"""Reproduce an experiment of the paper on your data, next to the published numbers.

examples:
  g2netpl reproduce table1 --data VOCdevkit --output runs/voc --dry-run
  g2netpl reproduce table2 --data coco_features --choose-once --output runs/coco
  g2netpl reproduce all --data coco_features --seeds 0 --output runs/all

WHAT is table1, table2, ablation, convergence, semi-supervised, parameters, labels or all. --data is
a folder of VOC 2012, COCO or NUS-WIDE in its official layout, a features folder, or a label file
with full labels and --test-labels. On images the paper's protocol is the default: ResNet-50,
448 px, 10 epochs, 8 runs for each method, setting and seed; --dry-run lists the runs. The same
command again resumes, also with more --seeds added at the end. OUTPUT gets index.html, and each
table and figure as CSV. To compare other methods in the same settings: g2netpl compare.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from g2netpl.commands.flags import add_config_flags
from g2netpl.commands.grid import add_grid_flags, begun, grid_settings, image_keys, sweep_of
from g2netpl.experiments.data import ArrayData, find_dataset
from g2netpl.experiments.paper import data_set_of, find_recipes
from g2netpl.experiments.reproduction import Plan, reproduce
from g2netpl.reports.reproduction import write_page
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError
from g2netpl.utils.signals import AGAIN, stoppable

_OF_THE_PAPER = {"backbone": "resnet50", "image_size": 448, "linear_epochs": 25}


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="WHAT", help="a table or figure of the paper, or all")
    group = parser.add_argument_group("data")
    text = "folder of the data set, features folder or label file"
    group.add_argument("--data", metavar="DATA", required=True, help=text)
    add_config_flags(group, ("images", "test_labels"))
    usual = {
        "epochs": "epochs (default: 10; lp-ft 5)",
        "mode": "trained layers: linear, partial, lp-ft or full (default: that of the paper)",
        "backbone": "network of images (default: resnet50)",
    }
    add_grid_flags(parser, "1e-3,3e-4; images 1e-2,1e-3,1e-4,1e-5", "64; images 8,16", **usual)
    text = "list the runs, train nothing"
    parser.add_argument("--dry-run", action="store_true", help=text)


@stoppable(AGAIN)
def run(flags: argparse.Namespace) -> None:
    """Train what is missing, write the page."""
    console, folder = Console(), Path(flags.output)
    given, config = grid_settings(flags, _OF_THE_PAPER)
    for name in {"prior", "names"} & given.keys():
        raise InputError(f"{name}: reproduce uses no prior, as the paper")
    recipes, keys = find_recipes(flags.what), image_keys(given, config)
    how = (config.test_labels, config.images, {**_OF_THE_PAPER, **keys})
    data = find_dataset(flags.data, *how)
    usual: tuple[Sequence[float], Sequence[int]] = (1e-2, 1e-3, 1e-4, 1e-5), (8, 16)
    if isinstance(data, ArrayData):
        for name in keys:
            raise InputError(f"{name}: only for images; {data.name} has features")
        usual = (1e-3, 3e-4), (64,)
    protocol = sweep_of(flags, config, *usual, methods=(), settings=())
    plan = Plan(data, protocol, recipes)
    notes, runs = plan.check(), plan.runs()
    known = data_set_of(plan.tables[0].classes)
    notes += [f"{name}: {note}" for name in recipes for note in plan.left_out(name)]
    if flags.dry_run:
        console.print("\n".join([*notes, *runs.values(), f"{len(runs):,} runs"]))
        return
    for note in notes:
        console.print(note)
    with begun(flags, given, config, data.fingerprints):
        page = write_page(plan, reproduce(plan, folder, flags.jobs, console), known, folder)
    console.print(f"{len(runs):,} runs; open {page}")
