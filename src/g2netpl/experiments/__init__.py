"""Many training runs: comparisons of methods, and the paper's tables.

`data` is what they run on, `grid` says which cells there are, `cells` trains them, `compare` keeps
them in a folder, `paper` has the published numbers, and `reproduction` builds on all of it.

    comparison = Comparison(None, ("an", "g2netpl"), ("fspl",), seeds=(0, 1))    # on the scenes
    rows = choose([outcome.row for outcome in run_cells(comparison, jobs=2)])
"""

from g2netpl.experiments.cells import Outcome, choose, run_cells, runner_of, train_cell
from g2netpl.experiments.compare import sweep
from g2netpl.experiments.data import (
    ArrayData,
    PhotoData,
    find_dataset,
    load_array_data,
    scenes_data,
)
from g2netpl.experiments.grid import Cell, Comparison

__all__ = [
    "ArrayData",
    "Cell",
    "Comparison",
    "Outcome",
    "PhotoData",
    "choose",
    "find_dataset",
    "load_array_data",
    "run_cells",
    "runner_of",
    "scenes_data",
    "sweep",
    "train_cell",
]
