"""Many trainings: comparisons of methods, and the paper's tables.

`data` is what they run on, `grid` says which cells there are, `cells` trains them, `compare` keeps
them in a folder, `paper` has the published numbers, and `reproduction` builds on all of it.

    comparison = Comparison(None, ("an", "g2netpl"), ("fspl",), seeds=(0, 1))    # on the scenes
    rows = choose([outcome.row for outcome in run_cells(comparison, jobs=2)])
"""

from typing import TYPE_CHECKING

from g2netpl.utils.lazy import lazily

if TYPE_CHECKING:
    from g2netpl.experiments.cells import Outcome as Outcome
    from g2netpl.experiments.cells import choose as choose
    from g2netpl.experiments.cells import run_cells as run_cells
    from g2netpl.experiments.cells import runner_of as runner_of
    from g2netpl.experiments.cells import train_cell as train_cell
    from g2netpl.experiments.compare import sweep as sweep
    from g2netpl.experiments.data import ArrayData as ArrayData
    from g2netpl.experiments.data import PhotoData as PhotoData
    from g2netpl.experiments.data import find_dataset as find_dataset
    from g2netpl.experiments.data import load_array_data as load_array_data
    from g2netpl.experiments.data import scenes_data as scenes_data
    from g2netpl.experiments.grid import Cell as Cell
    from g2netpl.experiments.grid import Comparison as Comparison

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "experiments.cells": "choose Outcome run_cells runner_of train_cell",
        "experiments.compare": "sweep",
        "experiments.data": "ArrayData find_dataset load_array_data PhotoData scenes_data",
        "experiments.grid": "Cell Comparison",
    },
)
