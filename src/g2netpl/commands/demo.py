"""Compare methods on built-in data: scenes of handwritten digits, most labels hidden.

examples:
  g2netpl demo --output runs/demo
  g2netpl demo --output runs/demo --overwrite

Trains BCE with full labels, and AN, WAN, EPR, ROLE and G²NetPL on one positive label per image
(fspl) and on one positive label on 20 % of the images (sspl:0.2). Takes a few minutes on a CPU.
"""

import argparse
import os
from pathlib import Path
from typing import Any

from g2netpl.commands.flags import add_config_flags, at_least_one, checked
from g2netpl.experiments.cells import choose, run_cells
from g2netpl.experiments.compare import CELLS
from g2netpl.experiments.data import scenes_data
from g2netpl.experiments.grid import Comparison
from g2netpl.reports.comparison import write_comparison_report
from g2netpl.reports.tables import results_tables
from g2netpl.runs.output_dir import prepare_output_dir
from g2netpl.runs.records import REPORT, RESULT, RUN, RUN_FORMAT, write_history
from g2netpl.utils.console import Console
from g2netpl.utils.files import write_json
from g2netpl.utils.progress import Work
from g2netpl.utils.signals import NOTHING_KEPT, stoppable

_DEFAULTS: dict[str, Any] = {"output": "runs/demo", "epochs": 12}


def add_flags(parser: argparse.ArgumentParser) -> None:
    add_config_flags(parser, ("output", "epochs"), _DEFAULTS)
    parser.add_argument(
        "--overwrite", action="store_true", help="start again; rename the old one to NAME.old-1"
    )
    parser.add_argument(
        "--jobs",
        type=at_least_one,
        default=os.cpu_count() or 1,
        help="training processes (default: the number of cores)",
    )


@stoppable(NOTHING_KEPT)
def run(flags: argparse.Namespace) -> None:
    """Train, print the table, write result.json and report.html."""
    config, console = checked(flags, _DEFAULTS), Console()
    folder, epochs = Path(config.output), config.epochs
    common: dict[str, Any] = {
        "features": None,
        "seeds": (0,),
        "learning_rates": (3e-3,),
        "batch_sizes": (32,),
        "epochs": epochs,
        "keep_labels": True,
    }
    full = Comparison(methods=("bce",), settings=("full",), **common)
    partial = Comparison(
        methods=("an", "wan", "epr", "role", "g2netpl"), settings=("fspl", "sspl:0.2"), **common
    )
    arrays = scenes_data()
    assert arrays.test is not None
    cells = [*full.cells(), *partial.cells()]
    with prepare_output_dir(folder, "demo", overwrite=flags.overwrite):
        console.print(
            f"{len(arrays.train):,} training scenes (a fifth held out to choose the epoch), "
            f"{len(arrays.test):,} test scenes, {len(arrays.train.classes)} classes; "
            f"{len(cells)} trainings"
        )
        with Work(console, "cells", len(cells)) as work:
            outcomes = list(run_cells(partial, flags.jobs, cells, work))
        about = {"format": RUN_FORMAT, "command": "demo", "epochs": epochs}
        write_json(folder / RUN, about)
        write_history(folder / CELLS, [outcome.line for outcome in outcomes])
        results = choose([outcome.row for outcome in outcomes])
        write_json(folder / RESULT, results)
        write_comparison_report(folder, folder / REPORT, outcomes)
    for table in results_tables(results, console.width):
        console.print(table)
    console.print(f"open {folder / REPORT} to see more")
