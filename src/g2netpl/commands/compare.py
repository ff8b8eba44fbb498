"""Compare methods on frozen features, on images or on built-in scenes, over settings and seeds.

examples:
  g2netpl compare --features coco_features --methods an,wan,epr,role,g2netpl \\
      --settings fspl,sspl:0.6,sspl:0.2 --seeds 0,1,2 --output runs/coco
  g2netpl compare --features F --methods bce --settings full --seeds 0 --output runs/upper-bound
  g2netpl compare --features F --methods epr,epr:regulariser=0.1,g2netpl:response=fixed \\
      --settings fspl --seeds 0 --output runs/controls
  g2netpl compare --features F --methods 'gr,gr:slope=(0,4)' --settings fspl --output runs/slopes
  g2netpl compare --features F --methods g2netpl --settings fspl --seeds 0 \\
      --set g2netpl.penalty=2 --output runs/strong
  g2netpl compare --features F --methods an,epr,em,g2netpl --settings fspl,sspl:0.2 \\
      --search-weights --choose-once --output runs/fair
  g2netpl compare --labels full.csv --images photos --methods an,epr,fixmatch,g2netpl \\
      --settings fspl,sspl:0.2 --image-size 128 --seeds 0,1 --output runs/photos
  g2netpl compare --methods an,g2netpl --settings sspl:0.2 --seeds 0,1 --epochs 12 \\
      --learning-rates 3e-3 --batch-sizes 32 --output runs/scenes

With --labels networks are trained on image files as g2netpl train does, with --mode full unless
given, each in a folder of its own below OUT/runs. A file of complete tags is one of full
labels with --absent negative. Without --test-labels, and for features without test.npz, the table
has validation mAP, on which the trainings were also chosen.
Without --features and --labels the data are the built-in scenes, and the network a small CNN.
For every method, setting and seed the learning rate and batch size are chosen on validation; with
--search-weights three values of each method's main weight are tried too. Every training goes
through all its epochs; none is stopped at equilibrium, as g2netpl train may. results.json has the
chosen rows, results.csv the table, cells.jsonl every training with its history, a
line each, and report.html is a page of all of it. What was broken off goes on with
--resume, and so does what is finished, with more methods, settings or seeds behind the others. A
training whose cost is no longer a number is noted as diverged, and never chosen.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from g2netpl.commands.grid_flags import add_grid_flags, image_keys, split_numbers, to_be_kept
from g2netpl.commands.parsing import split_changes, split_list
from g2netpl.commands.training_flags import add_config_flags, checked
from g2netpl.labels.io.writing import write_rows
from g2netpl.reports.tables import result_columns, result_lines, results_tables
from g2netpl.runs.config import RunConfig
from g2netpl.runs.ownership import begin_or_resume
from g2netpl.runs.train_config import USUAL_EPOCHS
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import write_json
from g2netpl.utils.progress import Cells
from g2netpl.utils.signals import Interrupts

if TYPE_CHECKING:
    from g2netpl.experiments.data import Data
    from g2netpl.experiments.grid import Comparison


_ADVICE = "run the same command with --resume"


def add_flags(parser: argparse.ArgumentParser) -> None:
    add, data = parser.add_argument, parser.add_mutually_exclusive_group()
    data.add_argument("--features", metavar="DIR", help="folder of g2netpl features")
    add_config_flags(data, ("labels",))
    add(
        "--methods",
        required=True,
        help="names, each with changes if need be: an,epr:regulariser=0.1,gr:slope=(0,2); a value "
        "with commas goes in brackets",
    )
    add(
        "--settings",
        required=True,
        help="full fspl sspl:0.2 positives:1+1 known:0.1 biased:frequency",
    )
    add("--set", action="append", default=[], metavar="METHOD.KEY=VALUE", help="change an option")
    add_config_flags(parser, ("annotation", "prior", "names"))
    usual = {"epochs": 10, "hidden": 0, "mode": None}
    add_grid_flags(parser, usual, "1e-3,3e-4; images 3e-4,1e-4", "64; images 16")
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="go on with the comparison in OUTPUT")
    again.add_argument(
        "--overwrite", action="store_true", help="start again; rename OUTPUT to NAME.old-1"
    )


def run(flags: argparse.Namespace) -> None:
    """Train all cells, write the files, print the table."""
    with Interrupts(_ADVICE if flags.resume else None) as interrupts:
        _compare(flags, interrupts)


def _compare(flags: argparse.Namespace, interrupts: Interrupts) -> None:
    config = checked(flags)  # mistakes show before anything is written
    data = _data(flags, config)
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
        to_be_kept(flags, config, data.fingerprints),
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


def _comparison(flags: argparse.Namespace, config: RunConfig, prior: str) -> "Comparison":
    """The grid; methods say in their names if they use a prior."""
    from g2netpl.experiments.grid import Comparison

    methods, changes = split_list("--methods", flags.methods, str), split_changes(flags.set)
    suffix = {"names": ":prior=names", "scores": ":prior=file", "none": ""}[prior]
    methods = tuple(name if ":prior=" in name else name + suffix for name in methods)
    for method, key, _ in changes:
        if method is None or method not in {name.split(":")[0] for name in methods}:
            raise InputError(
                f"--set {method}.{key}: expected one of the compared methods, then .key"
            )
    deep = flags.labels is not None and flags.mode != "linear"
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
        annotation=config.annotation,
        prior=config.prior if prior == "scores" else "none",
        names=config.names,
        changes=tuple((method or "", key, value) for method, key, value in changes),
        search_weights=flags.search_weights,
        choose_once=flags.choose_once,
    )


def _data(flags: argparse.Namespace, config: RunConfig) -> "Data":
    """What is trained on."""
    from g2netpl.experiments.data import PhotoData, find_dataset, load_array_data

    given = image_keys(flags, config)
    if flags.labels is None:
        for name in given:
            raise InputError(f"--{name.replace('_', '-')}: for images, with --labels")
        return load_array_data(flags.features)
    dataset = find_dataset(flags.labels, given.pop("test_labels", None), given.pop("images", None))
    if dataset.kind != "images":
        raise InputError(f"{dataset.root}: a features folder; give it as --features")
    return PhotoData(dataset, {"mode": "full", **given})


def _train(
    comparison: "Comparison",
    data: "Data",
    folder: Path,
    jobs: int,
    console: Console,
    interrupts: Interrupts,
) -> list[dict[str, Any]]:
    """The rows of all trainings."""
    from g2netpl.experiments.cells import runner_of
    from g2netpl.experiments.compare import CELLS, read_cells, sweep
    from g2netpl.training.divergence import check_some_trained

    interrupts.begun(_ADVICE)
    runner = runner_of(data, folder / "runs", jobs, _ADVICE)
    before = len(read_cells(folder / CELLS))
    with Cells(console, len(comparison.trainings()), before) as work:
        cells = sweep(comparison, folder, runner, work, _ADVICE)
    check_some_trained(row.get("diverged") for row in cells)
    return cells


def _write(folder: Path, cells: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], Path]:
    """The chosen rows in all files; gives them and the page."""
    from g2netpl.experiments.cells import choose
    from g2netpl.reports.comparison import write_comparison_report

    results = choose(cells)
    write_json(folder / "results.json", results)
    write_rows(folder / "results.csv", result_columns(results), result_lines(results))
    return results, write_comparison_report(folder)


def _show(console: Console, cells: list[dict[str, Any]], results: list[dict[str, Any]]) -> None:
    """The tables, and a note on trainings that had not come to rest."""
    from g2netpl.experiments.compare import cell_of
    from g2netpl.training.progress import restless, restless_words

    for table in results_tables(results, console.width):
        console.print(table)
    chosen = {cell_of(row) for row in results}
    for row in cells:
        if cell_of(row) in chosen and restless(row["history"]):
            named = f"{row['method']} {row['setting']} seed {row['seed']}"
            console.print(f"note: {named}: {restless_words(row['history'])}")
