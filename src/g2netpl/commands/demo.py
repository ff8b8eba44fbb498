"""Compare methods on built-in data: scenes of handwritten digits, most labels hidden.

examples:
  g2netpl demo
  g2netpl demo --output runs/demo
  g2netpl demo --output runs/demo --overwrite

Trains BCE with full labels, and AN, WAN, EPR, ROLE and G²NetPL on one positive label per image
(fspl) and on one positive label on 20 % of the images (sspl:0.2). Takes a few minutes on a CPU.
The folder has the files of g2netpl compare.
"""

import argparse
import os
from pathlib import Path
from typing import Any

from g2netpl.commands.compare import compare
from g2netpl.commands.flags import add_overwrite_flag
from g2netpl.experiments.data import scenes_data
from g2netpl.experiments.sweep import Sweep
from g2netpl.runs.output_dir import begin_or_resume
from g2netpl.runs.records import is_begun
from g2netpl.utils.console import Console
from g2netpl.utils.signals import AGAIN, stoppable


def add_flags(parser: argparse.ArgumentParser) -> None:
    text = "folder to write (default: runs/demo)"
    parser.add_argument("--output", metavar="FOLDER", default="runs/demo", help=text)
    add_overwrite_flag(parser, is_folder=True)


@stoppable(AGAIN)
def run(flags: argparse.Namespace) -> None:
    """Train, print the table, write the report."""
    common: dict[str, Any] = {"seeds": (0,), "learning_rates": (3e-3,)}
    common |= {"batch_sizes": (32,), "epochs": 12, "watch_labels": True}
    methods, settings = ("an", "wan", "epr", "role", "g2netpl"), ("fspl", "sspl:0.2")
    sweeps = [
        Sweep(methods=("bce",), settings=("full",), **common),
        Sweep(methods=methods, settings=settings, **common),
    ]
    data, console, folder = scenes_data(), Console(), Path(flags.output)
    assert data.test is not None
    how = {"resume": is_begun(folder) and not flags.overwrite, "overwrite": flags.overwrite}
    with begin_or_resume(folder, "compare", {"fingerprints": data.fingerprints}, **how):
        console.print(
            f"{len(data.train):,} training scenes (a fifth held out to choose the epoch), "
            f"{len(data.test):,} test scenes, {len(data.train.classes)} classes"
        )
        compare(sweeps, data, folder, os.cpu_count() or 1, console)
