"""Train with several learning rates and batch sizes, and choose by validation mAP.

examples:
  g2netpl search --labels labels.csv --images photos --mode linear --output runs/search
  g2netpl search --labels labels.csv --images photos --output runs/search \\
      --learning-rates 3e-4,1e-4 --batch-sizes 16

  g2netpl search --labels labels.csv --images photos --output runs/study \\
      --learning-rates 1e-5,1e-2 --trials 20

All flags of g2netpl train; every cell is a run folder below --output. Broken off, the same command
goes on. Other rates, batch sizes or trials in the same folder are added to what was trained there,
and chosen from together. The paper's grid is the default: 1e-2, 1e-3, 1e-4, 1e-5 with batches of 8
and 16. With --trials an Optuna study looks between the smallest and the largest rate instead. A
cell whose cost is no longer a number is shown as diverged, and never chosen.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from g2netpl.base.signals import AGAIN, stoppable
from g2netpl.commands.parsing import split_list
from g2netpl.commands.training_flags import add_training_flags, config_of

if TYPE_CHECKING:
    from rich.table import Table

    from g2netpl.experiments.search import Found


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command: those of train, and the grid."""
    parser.add_argument("--learning-rates", default="1e-2,1e-3,1e-4,1e-5", help="comma-separated")
    parser.add_argument("--batch-sizes", default="8,16", help="comma-separated")
    parser.add_argument("--trials", type=int, metavar="N", help="an Optuna study of N trainings")
    add_training_flags(parser, without={"learning_rate", "batch_size"})


@stoppable(AGAIN)
def run(flags: argparse.Namespace) -> None:
    """Train all cells, show them, name the best."""
    from g2netpl.base.console import Console
    from g2netpl.base.locks import locked
    from g2netpl.base.progress import Cells
    from g2netpl.experiments.search import choose, read_found, search_grid, write_found
    from g2netpl.runs.run import load_run

    console, trials = Console(), flags.trials
    rates = split_list("--learning-rates", flags.learning_rates, float)
    batches = split_list("--batch-sizes", flags.batch_sizes, int)
    config = config_of(flags)
    total = len(rates) * len(batches) if trials is None else trials
    folder = Path(config.output)
    with locked(folder):
        # those of an earlier search of this folder are chosen from too
        trained = {Path(each.folder).name: each for each in read_found(folder)}
        with Cells(console, total, bar=False) as work:  # each cell has its own
            inside = Console(beat=work.beat)
            for cell in search_grid(config, rates, batches, inside, trials):
                work.finished(str(cell))
                trained[Path(cell.folder).name] = cell
                write_found(folder, list(trained.values()))
    found = list(trained.values())
    best = choose(found)
    console.print("validation mAP")
    console.print(_table(found))
    test = load_run(best.folder).result["test_map"]
    figure = "" if test is None else f", test mAP {test:.1%}"
    console.print(f"chosen: {best}{figure}\n{best.folder}")


def _table(found: "list[Found]") -> "Table":
    """Validation mAP by learning rate and batch size."""
    from rich.table import Table

    from g2netpl.base.options import in_full

    batches = sorted({cell.batch_size for cell in found})
    table = Table("learning rate", *(f"batch {batch}" for batch in batches), box=None)
    figures = {(cell.learning_rate, cell.batch_size): cell.figure for cell in found}
    for rate in sorted({cell.learning_rate for cell in found}, reverse=True):
        table.add_row(in_full(rate), *(figures.get((rate, batch), "") for batch in batches))
    return table
