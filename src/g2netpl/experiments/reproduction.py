"""Recipes of the paper, planned for given data and trained.

The trainings of all recipes share one cells.jsonl (on images one for each mode of training), so
nothing is trained twice, and a reproduction that was broken off goes on with the same command.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from g2netpl.core.methods import find_method
from g2netpl.experiments.cells import Row, check_some_trained, choose, runner_of
from g2netpl.experiments.compare import CELLS, cell_of, read_cells, sweep
from g2netpl.experiments.data import Data, Dataset, Kind, PhotoData, load_array_data
from g2netpl.experiments.grid import Cell, Comparison, options_of
from g2netpl.experiments.paper import Recipe
from g2netpl.labels.table import LabelTable
from g2netpl.runs.train_config import Mode
from g2netpl.training.configuration import obstacle
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError
from g2netpl.utils.progress import Work


@dataclass(frozen=True)
class Protocol:
    """How every cell is trained."""

    epochs: int | None  # none: as usual
    learning_rates: tuple[float, ...]
    batch_sizes: tuple[int, ...]
    seeds: tuple[int, ...]
    hidden: int = 0
    search_weights: bool = False
    choose_once: bool = False
    expected_positives: float | str = "truth"
    optimizer: str = "adam"
    ema: float | None = None
    photos: Mapping[str, Any] = field(default_factory=dict)  # mode, backbone, image_size, …


USUAL: dict[Kind, tuple[int, tuple[float, ...], tuple[int, ...]]] = {
    "features": (10, (1e-3, 3e-4), (64,)),
    "scenes": (12, (3e-3,), (32,)),
    "images": (10, (1e-2, 1e-3, 1e-4, 1e-5), (8, 16)),
}
"""Epochs, learning rates and batch sizes where nobody says: of images, the paper's."""
LP_FT_EPOCHS = 5  # of everything, after those of the classifier; the paper's


@dataclass(frozen=True)
class Training:
    """One cell to be trained."""

    mode: str  # of images; else empty
    comparison: Comparison
    cell: Cell

    def __str__(self) -> str:
        cell = self.cell
        named = f"{cell.method} {cell.setting} seed {cell.seed}"
        chosen = f"lr {cell.learning_rate:g} batch {cell.batch_size} {cell.weight}".rstrip()
        name, changes = self.comparison.options_of_cell(cell)
        often = getattr(find_method(name).options(changes), "rounds", 1)  # of UPS
        rounds = "" if often == 1 else f"{often} rounds of "
        how = f"{self.mode} {rounds}{self.comparison.epochs} epochs".lstrip()
        return f"{named} {chosen}: {how}"


@dataclass(frozen=True)
class Plan:
    """What will be trained, on what."""

    dataset: Dataset
    protocol: Protocol
    recipes: dict[str, Recipe]
    told: set[str] = field(default_factory=set)  # which images cannot be read

    def comparisons(self, name: str) -> list[Comparison]:
        """The blocks of a recipe."""
        recipe, features = self.recipes[name], self.dataset.features
        shared = {k: v for k, v in vars(self.protocol).items() if k not in ("epochs", "photos")}
        shared |= {"epochs": self.epochs(name), "keep_labels": recipe.watches_labels}
        return [
            Comparison(features, methods, block.settings, **shared)
            for block in recipe.blocks
            if (methods := tuple(m for m in block.methods if self._obstacle(name, m) is None))
        ]

    def left_out(self, name: str) -> list[str]:
        """Methods of a recipe that cannot be trained here, and why."""
        methods = dict.fromkeys(m for block in self.recipes[name].blocks for m in block.methods)
        reasons = ((method, self._obstacle(name, method)) for method in methods)
        return [f"{method} is left out: {why}" for method, why in reasons if why is not None]

    def trainings(self) -> list[Training]:
        """All cells, each once; with `choose_once`, one more per row and further seed."""
        found: dict[tuple[str, Cell], Training] = {}
        for name in self.recipes:
            mode = self.mode(name)
            for comparison in self.comparisons(name):
                for cell in comparison.trainings():
                    found.setdefault((mode, cell), Training(mode, comparison, cell))
        return list(found.values())

    def mode(self, name: str) -> Mode | Literal[""]:
        """How networks of a recipe are trained on images, as the paper did unless told."""
        if self.dataset.kind != "images":
            return ""
        usual: Mode = "lp-ft" if self.recipes[name].lp_ft else "full"
        return self.protocol.photos.get("mode") or usual

    def epochs(self, name: str) -> int:
        """How long, as the paper did unless told; with lp-ft, of everything."""
        usual = USUAL[self.dataset.kind][0]
        if self.mode(name) == "lp-ft":
            usual = LP_FT_EPOCHS
        return usual if self.protocol.epochs is None else self.protocol.epochs

    def training(self, name: str) -> str:
        """How and how long, for people."""
        mode, epochs = self.mode(name), self.epochs(name)
        if mode == "lp-ft":
            linear = self.protocol.photos.get("linear_epochs")
            return f"lp-ft, {linear} epochs linear + {epochs} of everything"
        how = {"features": "frozen features", "scenes": "end to end", "images": mode}
        return f"{how[self.dataset.kind]}, {epochs} epochs"

    def cells_folder(self, name: str, folder: Path) -> Path:
        """Where the cells of a recipe are: those of different modes must not be mixed up."""
        return folder / "runs" / self.mode(name) if self.dataset.kind == "images" else folder

    def data(self, name: str) -> Data:
        """What a recipe is trained on; label files and arrays are read once."""
        mode = self.mode(name)
        if mode not in self._data:
            keys = {**self.protocol.photos, "mode": mode}
            self._data[mode] = (
                PhotoData(self.dataset, keys, self.told)
                if self.dataset.kind == "images"
                else load_array_data(self.dataset.features)
            )
        return self._data[mode]

    @property
    def any_data(self) -> Data:
        """That of the first recipe; the labels and images are the same for all."""
        return self.data(next(iter(self.recipes)))

    @property
    def tables(self) -> tuple[LabelTable, LabelTable]:
        """The labels to train on and those of the test."""
        train, test = self.any_data.tables
        if test is None:
            raise InputError(
                f"{self.dataset.name}: no test images; give --test-labels, or test.npz to features"
            )
        return train, test

    @cached_property
    def _data(self) -> dict[str, Data]:
        return {}

    def _obstacle(self, name: str, method: str) -> str | None:
        """Why a method cannot be trained here."""
        images, mode = self.dataset.kind == "images", self.mode(name) or "full"
        why = obstacle(*options_of(method), full=True, mode=mode, images=images)
        if why is None:
            return None
        return f"it {why}, which --mode {mode} cannot" if images else f"it {why}: here are none"


def reproduce(plan: Plan, folder: Path, jobs: int, console: Console) -> dict[str, list[Row]]:
    """Train what is missing; the chosen rows of every recipe, with their histories."""
    found, trained = {}, list[Row]()
    before = sum(len(read_cells(path)) for path in folder.rglob(CELLS))
    with Work(console, "cells", len(plan.trainings()), before) as work:
        for name in plan.recipes:
            rows: list[Row] = []
            cells = plan.cells_folder(name, folder)
            cells.mkdir(parents=True, exist_ok=True)
            for comparison in plan.comparisons(name):
                runner = runner_of(plan.data(name), cells, jobs)
                rows += sweep(comparison, cells, runner, work)
            whole = {cell_of(row): row for row in rows}
            found[name] = [whole[cell_of(row)] for row in choose(rows)]
            trained += rows
    check_some_trained(trained)
    return found


def check(plan: Plan) -> list[str]:
    """Find what does not fit the data, before anything is trained or written.

    Gives what a person should be told about the data.
    """
    planned = [(plan.data(name), each) for name in plan.recipes for each in plan.comparisons(name)]
    for data, comparison in planned:
        comparison.check(*plan.tables, data.keys)
    photos = [data for data, _ in planned if isinstance(data, PhotoData)]
    return photos[0].look_at_files() if photos else []
