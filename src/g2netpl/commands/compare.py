"""Compare methods on frozen features, on images or on built-in scenes, over settings and seeds.

examples:
  g2netpl compare --features coco_features --methods an,epr,g2netpl --settings fspl,sspl:0.2 \\
      --search-weights --output runs/fair
  g2netpl compare --labels full.csv --images photos --methods an,g2netpl:penalty=2 \\
      --settings fspl --seeds 0,1 --set image_size=128 --output runs/photos
  g2netpl compare --methods an,g2netpl --settings sspl:0.2 --epochs 12 --output runs/scenes

With --labels networks are trained on image files as by g2netpl train, with --mode full unless
given, each in a folder below OUTPUT/runs. Without --test-labels, and for features without
test.npz, the table shows validation mAP, on which the runs were also chosen. Without --features
and --labels the data are the built-in scenes, and the network is a small CNN.

For every method, setting and seed the learning rate and batch size are chosen on validation; with
--search-weights three values of each method's main weight are tried too. All runs train for all
their epochs. results.json has the chosen rows, results.csv the table, cells.jsonl every run with
its history, and report.html shows all of it. --resume continues, also with more methods, settings
or seeds added behind the others. A diverged run is noted and never chosen.
"""

import argparse
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
from g2netpl.experiments.cells import check_some_trained, choose, runner_of
from g2netpl.experiments.compare import CELLS, cell_of, read_cells, sweep
from g2netpl.experiments.data import Data, PhotoData, find_dataset, load_array_data
from g2netpl.experiments.grid import Comparison
from g2netpl.labels.io.writing import write_rows
from g2netpl.reports.comparison import write_comparison_report
from g2netpl.reports.tables import result_columns, result_lines, results_tables
from g2netpl.runs.config import RunConfig
from g2netpl.runs.output_dir import begin_or_resume
from g2netpl.runs.train_config import USUAL_EPOCHS
from g2netpl.training.progress import restless, restless_words
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import write_json
from g2netpl.utils.progress import Work
from g2netpl.utils.signals import Interrupts

_ADVICE = "run the same command with --resume"


def add_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("data")
    data = group.add_mutually_exclusive_group()
    data.add_argument("--features", metavar="FOLDER", help="folder of g2netpl features")
    add_config_flags(data, ("labels",))
    add_config_flags(group, ("images", "test_labels"))
    group = parser.add_argument_group("grid")
    group.add_argument(
        "--methods",
        required=True,
        help="names, with changed options if needed: an,epr:regulariser=0.1,gr:slope=(0,2)",
    )
    group.add_argument(
        "--settings",
        required=True,
        help="labels to hide: full,fspl,sspl:0.2,positives:1+1,known:0.1,biased:frequency",
    )
    usual = {"epochs": USUAL_EPOCHS, "mode": "full"}
    add_grid_flags(group, usual, "1e-3,3e-4; images 3e-4,1e-4", "64; images 16")
    add_config_flags(group, ("prior",))
    add_plugin_flag(group)
    group = parser.add_argument_group("run")
    add_config_flags(group, ("output",), required=("output",))
    add_settings_flags(group)
    again = group.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="resume the comparison in OUTPUT")
    again.add_argument(
        "--overwrite", action="store_true", help="start again; rename OUTPUT to NAME.old-1"
    )


def run(flags: argparse.Namespace) -> None:
    """Train all cells, write the files, print the table."""
    with Interrupts(_ADVICE if flags.resume else None) as interrupts:
        _compare(flags, interrupts)


def _compare(flags: argparse.Namespace, interrupts: Interrupts) -> None:
    given, config = grid_settings(flags, {"epochs": USUAL_EPOCHS})
    data = _data(flags, given, config)
    prior = data.prior(config)
    comparison = _comparison(flags, config, prior.kind)
    lines = [
        f"note: {method} gets one weight, others three: its row in METHODS has no grid"
        for method in comparison.without_grid()
    ]
    lines += [*data.check(comparison), f"prior: {prior.kind} ({prior.reason})"]
    folder, console = Path(flags.output), Console()
    with begin_or_resume(
        folder,
        "compare",
        to_be_kept(flags, given, config, data.fingerprints),
        resume=flags.resume,
        overwrite=flags.overwrite,
        lists=("methods", "settings", "seeds"),
    ):
        for line in lines:
            console.print(line)
        cells = _train(comparison, data, folder, flags.jobs, console, interrupts)
        results, page = _write(folder, cells)
    _show(console, cells, results)
    console.print(f"written to {folder}; open {page}")


def _comparison(flags: argparse.Namespace, config: RunConfig, prior: str) -> Comparison:
    """The grid; methods say in their names if they use a prior."""
    methods = split_list("--methods", flags.methods, str)
    suffix = {"names": ":prior=names", "scores": ":prior=file", "none": ""}[prior]
    methods = tuple(name if ":prior=" in name else name + suffix for name in methods)
    deep = flags.labels is not None and config.mode != "linear"
    if flags.learning_rates is None:
        flags.learning_rates = "3e-4,1e-4" if deep else "1e-3,3e-4"
    if flags.batch_sizes is None:
        flags.batch_sizes = "16" if deep else "64"
    return Comparison(
        features=flags.features,
        methods=methods,
        settings=split_list("--settings", flags.settings, str),
        **split_numbers(flags),
        epochs=config.epochs or USUAL_EPOCHS,
        hidden=config.hidden,
        expected_positives=config.expected_positives,
        optimizer=config.optimizer,
        ema=config.ema,
        prior=config.prior if prior == "scores" else "none",
        names=config.names,
        search_weights=flags.search_weights,
        choose_once=flags.choose_once,
    )


def _data(flags: argparse.Namespace, given: dict[str, Any], config: RunConfig) -> Data:
    """The data of all runs."""
    keys = image_keys(given, config)
    if flags.labels is None:
        for name in keys:
            raise InputError(f"{name.replace('_', '-')}: only for images, with --labels")
        return load_array_data(flags.features)
    dataset = find_dataset(config.labels, keys.pop("test_labels", None), keys.pop("images", None))
    if dataset.kind != "images":
        raise InputError(f"{dataset.root}: a features folder; give it as --features")
    return PhotoData(dataset, {"mode": "full", **keys})


def _train(
    comparison: Comparison,
    data: Data,
    folder: Path,
    jobs: int,
    console: Console,
    interrupts: Interrupts,
) -> list[dict[str, Any]]:
    """The rows of all trainings."""
    interrupts.begun(_ADVICE)
    runner = runner_of(data, folder / "runs", jobs, _ADVICE)
    before = len(read_cells(folder / CELLS))
    with Work(console, "cells", len(comparison.trainings()), before) as work:
        cells = sweep(comparison, folder, runner, work, _ADVICE)
    check_some_trained(cells)
    return cells


def _write(folder: Path, cells: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], Path]:
    """The chosen rows in all files; gives them and the page."""
    results = choose(cells)
    write_json(folder / "results.json", results)
    write_rows(folder / "results.csv", result_columns(results), result_lines(results))
    return results, write_comparison_report(folder)


def _show(console: Console, cells: list[dict[str, Any]], results: list[dict[str, Any]]) -> None:
    """The tables, and a note on trainings that had not come to rest."""
    for table in results_tables(results, console.width):
        console.print(table)
    chosen = {cell_of(row) for row in results}
    for row in cells:
        if cell_of(row) in chosen and restless(row["history"]):
            named = f"{row['method']} {row['setting']} seed {row['seed']}"
            console.print(f"note: {named}: {restless_words(row['history'])}")
