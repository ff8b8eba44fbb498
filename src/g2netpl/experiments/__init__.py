"""Many trainings: comparisons, searches, the paper's tables, and how much labelling is enough.

`data` is what they run on, `grid` says which cells there are, `cells` and `photo_cells` train them,
`compare` keeps them in a folder, `paper` has the published numbers, `reproduction` and
`labelling_plan` build on all of it.
"""

from typing import TYPE_CHECKING

from g2netpl.base.lazy import lazily

if TYPE_CHECKING:
    from g2netpl.experiments.cells import run_cells as run_cells
    from g2netpl.experiments.cells import train_cell as train_cell
    from g2netpl.experiments.data import scenes_data as scenes_data
    from g2netpl.experiments.grid import Cell as Cell
    from g2netpl.experiments.grid import Comparison as Comparison

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "experiments.cells": "run_cells train_cell",
        "experiments.data": "scenes_data",
        "experiments.grid": "Cell Comparison",
    },
)
