"""What `g2netpl.experiments` shows: a grid of trainings in a few lines."""

import numpy as np
import pytest
import torch

from g2netpl import LabelTable, experiments
from g2netpl.utils.errors import InputError


def test_every_public_name_is_there():
    shown = [name for name in dir(experiments) if not name.startswith("__")]
    assert shown == sorted(experiments.__all__)
    for name in experiments.__all__:
        assert callable(getattr(experiments, name))
        assert getattr(experiments, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'compared'"):
        experiments.compared  # noqa: B018


def test_a_grid_on_own_arrays():
    random = np.random.default_rng(0)
    names = tuple(f"{row}.png" for row in range(60))
    table = LabelTable(names, ("a", "b", "c"), random.integers(0, 2, (60, 3)).astype(np.int8))
    inputs = torch.from_numpy(random.normal(size=(60, 4)).astype(np.float32))
    arrays = experiments.ArrayData(inputs, table, inputs, table)
    grid = {"learning_rates": (1e-2, 1e-3), "batch_sizes": (16,), "epochs": 1}
    comparison = experiments.Comparison(None, ("an", "epr"), ("fspl",), (0, 1), **grid)
    assert arrays.check(comparison) == []
    cells = comparison.cells()
    assert len(cells) == 8
    rows = [experiments.train_cell(arrays, comparison, cell).row for cell in cells]
    chosen = experiments.choose(rows)
    assert [(row["method"], row["seed"]) for row in chosen] == [
        *(("an", 0), ("epr", 0), ("an", 1), ("epr", 1))
    ]
    odd = experiments.Comparison(None, ("an",), ("fspl",), (0,), optimizer="Adamm")
    with pytest.raises(InputError, match="unknown optimizer 'Adamm'"):
        arrays.check(odd)
