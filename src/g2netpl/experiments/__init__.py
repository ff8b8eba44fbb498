"""Many runs: sweeps over methods, settings and seeds, and the paper's tables.

`data` is what they run on, `sweep` says which runs there are and chooses on validation, `cells`
trains them, `statistics` measures, and `paper` and `reproduction` are the paper's tables.

    sweep = Sweep(("an", "g2netpl"), ("fspl",), seeds=(0, 1))    # on the built-in scenes
    rows = choose(list(run_cells(sweep, scenes_data(), sweep.cells(), jobs=2)))
"""

from g2netpl.experiments.cells import run_cells, run_sweep, train_cell
from g2netpl.experiments.data import (
    ArrayData,
    PhotoData,
    find_dataset,
    load_array_data,
    scenes_data,
)
from g2netpl.experiments.statistics import differences
from g2netpl.experiments.sweep import Cell, Sweep, choose

__all__ = [
    "ArrayData",
    "Cell",
    "PhotoData",
    "Sweep",
    "choose",
    "differences",
    "find_dataset",
    "load_array_data",
    "run_cells",
    "run_sweep",
    "scenes_data",
    "train_cell",
]
