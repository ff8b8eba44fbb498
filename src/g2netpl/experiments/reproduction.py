"""Recipes of the paper as sweeps on given data.

All recipes share one cells.jsonl (on images one for each mode), so no run is trained twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from g2netpl.core.methods import find_method
from g2netpl.experiments.cells import run_cells
from g2netpl.experiments.data import Data, Dataset, Kind, PhotoData, load_array_data
from g2netpl.experiments.paper import Recipe
from g2netpl.experiments.sweep import (
    CELLS,
    Cell,
    Row,
    Sweep,
    check_some_trained,
    choose,
    options_of,
    read_cells,
    run_sweep,
)
from g2netpl.labels.table import LabelTable
from g2netpl.runs.train_config import Mode
from g2netpl.training.configuration import obstacle
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError
from g2netpl.utils.progress import Work

USUAL: dict[Kind, tuple[int, tuple[float, ...], tuple[int, ...]]] = {
    "features": (10, (1e-3, 3e-4), (64,)),
    "scenes": (12, (3e-3,), (32,)),
    "images": (10, (1e-2, 1e-3, 1e-4, 1e-5), (8, 16)),
}
"""Default epochs, learning rates and batch sizes; on images, the paper's."""
LP_FT_EPOCHS = 5  # of full fine-tuning after the linear epochs; the paper's


@dataclass(frozen=True)
class Plan:
    """What is trained, on which data."""

    dataset: Dataset
    protocol: Sweep  # without methods and settings; epochs if given
    recipes: dict[str, Recipe]
    photos: Mapping[str, Any] = field(default_factory=dict)  # mode, backbone, image_size, …

    def sweeps(self, name: str) -> list[Sweep]:
        """The blocks of a recipe."""
        recipe = self.recipes[name]
        shared: dict[str, Any] = {"watch_labels": recipe.watches_labels}
        shared["epochs"] = self.epochs(name)
        return [
            replace(self.protocol, methods=methods, settings=block.settings, **shared)
            for block in recipe.blocks
            if (methods := tuple(m for m in block.methods if self._obstacle(name, m) is None))
        ]

    def left_out(self, name: str) -> list[str]:
        """Methods of a recipe that cannot be trained on the data, and why."""
        methods = dict.fromkeys(m for block in self.recipes[name].blocks for m in block.methods)
        reasons = ((method, self._obstacle(name, method)) for method in methods)
        return [f"{method} is left out: {why}" for method, why in reasons if why is not None]

    def runs(self) -> dict[tuple[str, Cell], str]:
        """All runs by mode and cell, and how long they train."""
        planned: dict[tuple[str, Cell], str] = {}
        for name in self.recipes:
            mode = self.mode(name)
            for sweep in self.sweeps(name):
                for cell in sweep.all_cells():
                    method, changes = cell.options
                    rounds = getattr(find_method(method).options(changes), "rounds", 1)  # of UPS
                    often = "" if rounds == 1 else f"{rounds} rounds of "
                    text = f"{mode} {often}{sweep.epochs} epochs".lstrip()
                    planned.setdefault((mode, cell), f"{cell}: {text}")
        return planned

    def mode(self, name: str) -> Mode | Literal[""]:
        """How networks of a recipe are trained on images; by default as in the paper."""
        if self.dataset.kind != "images":
            return ""
        usual: Mode = "lp-ft" if self.recipes[name].lp_ft else "full"
        return self.photos.get("mode") or usual

    def epochs(self, name: str) -> int:
        """How long; by default as in the paper, with lp-ft after the linear epochs."""
        usual = LP_FT_EPOCHS if self.mode(name) == "lp-ft" else USUAL[self.dataset.kind][0]
        return self.protocol.epochs or usual

    def training(self, name: str) -> str:
        """How and how long, for people."""
        mode, epochs = self.mode(name), self.epochs(name)
        if mode == "lp-ft":
            return f"lp-ft, {self.photos.get('linear_epochs')} epochs linear + {epochs} full"
        how = {"features": "frozen features", "scenes": "end to end", "images": mode}
        return f"{how[self.dataset.kind]}, {epochs} epochs"

    def data(self, name: str) -> Data:
        """What a recipe is trained on; label files and arrays are read once."""
        mode = self.mode(name)
        if mode not in self._data:
            self._data[mode] = (
                PhotoData(self.dataset, {**self.photos, "mode": mode})
                if self.dataset.kind == "images"
                else load_array_data(self.dataset.features)
            )
        return self._data[mode]

    @property
    def any_data(self) -> Data:
        """That of the first recipe; labels and images are the same for all."""
        return self.data(next(iter(self.recipes)))

    @property
    def tables(self) -> tuple[LabelTable, LabelTable]:
        """The training and the test labels."""
        train, test = self.any_data.tables
        if test is None:
            raise InputError(
                f"{self.dataset.name}: no test images; give --test-labels, or test.npz to features"
            )
        return train, test

    def check(self) -> list[str]:
        """Reject what does not fit the data, before anything is trained; notes on the images."""
        for name in self.recipes:
            for sweep in self.sweeps(name):
                sweep.check(*self.tables, self.data(name).keys)
        data = self.any_data
        return data.notes() if isinstance(data, PhotoData) else []

    @cached_property
    def _data(self) -> dict[str, Data]:
        return {}

    def _obstacle(self, name: str, method: str) -> str | None:
        """Why a method cannot be trained on the data."""
        images, mode = self.dataset.kind == "images", self.mode(name) or "full"
        why = obstacle(*options_of(method), full=True, mode=mode, images=images)
        if why is None:
            return None
        return f"it {why}, which --mode {mode} cannot" if images else f"it {why}: here are none"


def reproduce(plan: Plan, folder: Path, jobs: int, console: Console) -> dict[str, list[Row]]:
    """Train what is missing; the chosen rows of every recipe."""
    chosen, trained = {}, list[Row]()
    before = sum(len(read_cells(path)) for path in folder.rglob(CELLS))
    with Work(console, "runs", len(plan.runs()), before) as work:
        for name in plan.recipes:
            rows, data, cells = list[Row](), plan.data(name), folder / plan.mode(name)
            cells.mkdir(parents=True, exist_ok=True)
            for sweep in plan.sweeps(name):
                train = partial(run_cells, sweep, data, jobs=jobs, work=work, folder=cells)
                rows += run_sweep(sweep, cells, train, work)
            chosen[name] = choose(rows)
            trained += rows
    check_some_trained(trained)
    return chosen
