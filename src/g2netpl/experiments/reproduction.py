"""Recipes of the paper as sweeps on given data.

All recipes share one cells.jsonl (on images one for each mode), so no run is trained twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from g2netpl.experiments.cells import run_sweep
from g2netpl.experiments.data import Data, PhotoData
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
)
from g2netpl.labels.table import LabelTable
from g2netpl.runs.train_config import USUAL_EPOCHS, Mode
from g2netpl.training.configuration import obstacle
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.progress import Work

LP_FT_EPOCHS = 5  # of full fine-tuning after the linear epochs; the paper's


@dataclass(frozen=True)
class Plan:
    """What is trained, on which data."""

    base: Data
    protocol: Sweep  # without methods and settings; epochs if given
    recipes: Mapping[str, Recipe]
    _by_mode: dict[str, Data] = field(default_factory=dict)

    @property
    def tables(self) -> tuple[LabelTable, LabelTable]:
        """The training and the test labels."""
        train, test = self.base.tables
        if test is None:
            raise InputError(
                f"{self.base.name}: no test images; use --test-labels, or add test.npz to features"
            )
        return train, test

    def mode(self, name: str) -> Mode | Literal[""]:
        """How networks of a recipe are trained on images; by default as in the paper."""
        if not isinstance(self.base, PhotoData):
            return ""
        usual: Mode = "lp-ft" if self.recipes[name].lp_ft else "full"
        return self.base.own_keys.get("mode") or usual

    def epochs(self, name: str) -> int:
        """How long; by default as in the paper, with lp-ft after the linear epochs."""
        usual = LP_FT_EPOCHS if self.mode(name) == "lp-ft" else USUAL_EPOCHS
        return self.protocol.epochs or usual

    def training(self, name: str) -> str:
        """How and how long, for people."""
        mode, epochs = self.mode(name) or "frozen features", self.epochs(name)
        if mode == "lp-ft":
            return f"lp-ft, {self.base.keys['linear_epochs']} epochs linear + {epochs} full"
        return f"{mode}, {counted(epochs, 'epoch')}"

    def data(self, name: str) -> Data:
        """What a recipe is trained on; label files are read once for each mode."""
        mode = self.mode(name)
        if isinstance(self.base, PhotoData) and mode not in self._by_mode:
            keys = {**self.base.own_keys, "mode": mode}
            self._by_mode[mode] = replace(self.base, own_keys=keys)
        return self._by_mode.get(mode, self.base)

    def sweeps(self, name: str) -> list[Sweep]:
        """The blocks of a recipe, without methods that cannot be trained on the data."""
        recipe, epochs = self.recipes[name], self.epochs(name)
        protocol = replace(self.protocol, watch_labels=recipe.watches_labels, epochs=epochs)
        return [
            replace(protocol, methods=methods, settings=block.settings)
            for block in recipe.blocks
            if (methods := tuple(m for m in block.methods if self._obstacle(name, m) is None))
        ]

    def left_out(self, name: str) -> list[str]:
        """Methods of a recipe that cannot be trained on the data, and why."""
        methods = dict.fromkeys(m for block in self.recipes[name].blocks for m in block.methods)
        reasons = {method: self._obstacle(name, method) for method in methods}
        return [f"{method} is left out: {why}" for method, why in reasons.items() if why]

    def runs(self) -> dict[tuple[str, Cell], str]:
        """All runs by mode and cell, and how each is trained."""
        planned: dict[tuple[str, Cell], str] = {}
        for name in self.recipes:
            for sweep in self.sweeps(name):
                for cell in sweep.all_cells():
                    text = f"{cell}: {self.training(name)}"
                    planned.setdefault((self.mode(name), cell), text)
        return planned

    def check(self) -> list[str]:
        """Reject what does not fit the data, before anything is trained; notes on the images."""
        for name in self.recipes:
            for sweep in self.sweeps(name):
                sweep.check(self.data(name))
        return self.base.notes()

    def _obstacle(self, name: str, method: str) -> str | None:
        """Why a method cannot be trained on the data."""
        images, mode = isinstance(self.base, PhotoData), self.mode(name) or "full"
        why = obstacle(*options_of(method), full=True, mode=mode, images=images)
        if why is None:
            return None
        return f"it {why}; here " + (f"the mode is {mode}" if images else "are no images")


def reproduce(plan: Plan, folder: Path, jobs: int, console: Console) -> dict[str, list[Row]]:
    """Train what is missing; the chosen rows of every recipe."""
    chosen, trained = {}, list[Row]()
    before = sum(len(read_cells(path)) for path in folder.rglob(CELLS))
    with Work(console, "runs", len(plan.runs()), before) as work:
        for name in plan.recipes:
            rows, cells = list[Row](), folder / plan.mode(name)
            cells.mkdir(parents=True, exist_ok=True)
            for sweep in plan.sweeps(name):
                rows += run_sweep(sweep, plan.data(name), cells, jobs, work)
            chosen[name] = choose(rows)
            trained += rows
    check_some_trained(trained)
    return chosen
