"""Recipes of the paper, planned for given data and trained.

The trainings of all recipes share one cells.jsonl (on images one for each mode of training), so
nothing is trained twice, and a reproduction that was broken off goes on with the same command.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from g2netpl.base.console import Console
from g2netpl.experiments.cells import Row, choose
from g2netpl.experiments.compare import Runner, in_memory, sweep
from g2netpl.experiments.data import ArrayData, Dataset, Kind, PhotoParts, load_array_data
from g2netpl.experiments.grid import Cell, Comparison, check_setting, check_tables
from g2netpl.experiments.paper import Recipe
from g2netpl.experiments.photo_cells import PhotoData, on_photos
from g2netpl.game.methods import needs_of, split_variant
from g2netpl.labels.table import LabelTable
from g2netpl.runs.config import Mode
from g2netpl.training.checks import obstacle
from g2netpl.training.divergence import check_some_trained


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
    photos: Mapping[str, Any] = field(default_factory=dict)  # mode, backbone, image_size, …


USUAL: dict[Kind, tuple[int, tuple[float, ...], tuple[int, ...]]] = {
    "features": (10, (1e-3, 3e-4), (64,)),
    "scenes": (12, (3e-3,), (32,)),
    "images": (10, (1e-2, 1e-3, 1e-4, 1e-5), (8, 16)),
}
"""Epochs, learning rates and batch sizes where nobody says: of images, the paper's."""
LINEAR_INIT_EPOCHS = 5  # of everything, after those of the classifier; the paper's


@dataclass(frozen=True)
class Training:
    """One cell to be trained."""

    mode: str  # of images; else empty
    comparison: Comparison
    cell: Cell

    @property
    def rounds(self) -> int:
        """How often the network is trained anew."""
        name, changes = self.comparison.options_of_cell(self.cell)
        return needs_of(name, changes).rounds

    def __str__(self) -> str:
        cell = self.cell
        named = f"{cell.method} {cell.setting} seed {cell.seed}"
        chosen = f"lr {cell.learning_rate:g} batch {cell.batch_size} {cell.weight}".rstrip()
        rounds = "" if self.rounds == 1 else f"{self.rounds} rounds of "
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
        recipe, protocol = self.recipes[name], self.protocol
        found = []
        for block in recipe.blocks:
            methods = tuple(m for m in block.methods if self._obstacle(name, m) is None)
            if methods:
                features = self.dataset.root if self.dataset.kind == "features" else None
                comparison = Comparison(
                    features,
                    methods,
                    block.settings,
                    protocol.seeds,
                    protocol.learning_rates,
                    protocol.batch_sizes,
                    self.epochs(name),
                    protocol.hidden,
                    protocol.expected_positives,
                    search_weights=protocol.search_weights,
                    choose_once=protocol.choose_once,
                    keep_labels=recipe.watches_labels,
                )
                found.append(comparison)
        return found

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
                first = comparison.cells()
                later = comparison.later_cells({(c.method, c.setting): c for c in first}.values())
                for cell in (*first, *later):
                    found.setdefault((mode, cell), Training(mode, comparison, cell))
        return list(found.values())

    def mode(self, name: str) -> Mode | Literal[""]:
        """How networks of a recipe are trained on images, as the paper did unless told."""
        if self.dataset.kind != "images":
            return ""
        usual: Mode = "linear-init" if self.recipes[name].linear_init else "end-to-end"
        return self.protocol.photos.get("mode") or usual

    def epochs(self, name: str) -> int:
        """How long, as the paper did unless told; with linear-init, of everything."""
        usual = USUAL[self.dataset.kind][0]
        if self.mode(name) == "linear-init":
            usual = LINEAR_INIT_EPOCHS
        return usual if self.protocol.epochs is None else self.protocol.epochs

    def training(self, name: str) -> str:
        """How and how long, for people."""
        mode, epochs = self.mode(name), self.epochs(name)
        if mode == "linear-init":
            linear = self.protocol.photos.get("linear_epochs")
            return f"linear-init, {linear} epochs linear + {epochs} of everything"
        how = {"features": "frozen features", "scenes": "end to end", "images": mode}
        return f"{how[self.dataset.kind]}, {epochs} epochs"

    def cells_folder(self, name: str, folder: Path) -> Path:
        """Where the cells of a recipe are: those of different modes must not be mixed up."""
        return folder / "runs" / self.mode(name) if self.dataset.kind == "images" else folder

    def photos(self, name: str) -> PhotoData:
        """The images, and what every training on them has in common."""
        mode = self.mode(name)
        if mode not in self._photos:
            keys = {**self.protocol.photos, "mode": mode}
            self._photos[mode] = PhotoData(self.dataset, keys, self.told)
        return self._photos[mode]

    @property
    def tables(self) -> tuple[LabelTable, LabelTable]:
        """The labels to train on and those of the test."""
        return self._data.tables

    @property
    def fingerprints(self) -> dict[str, str]:
        """What the data say, in short."""
        return self._data.fingerprints

    @cached_property
    def _data(self) -> ArrayData | PhotoParts:
        if self.dataset.kind == "images":
            return self.photos(next(iter(self.recipes))).parts
        return load_array_data(self.dataset.root)

    @cached_property
    def _photos(self) -> dict[str, PhotoData]:
        """Those of each mode; their label files are read once."""
        return {}

    def _obstacle(self, name: str, method: str) -> str | None:
        """Why a method cannot be trained here."""
        images, mode = self.dataset.kind == "images", self.mode(name) or "end-to-end"
        why = obstacle(*split_variant(method), full=True, mode=mode, images=images)
        if why is None:
            return None
        return f"it {why}, which --mode {mode} cannot" if images else f"it {why}: here are none"


def reproduce(plan: Plan, folder: Path, jobs: int, console: Console) -> dict[str, list[Row]]:
    """Train what is missing; the chosen rows of every recipe, with their histories."""
    found, reasons = {}, []
    for name in plan.recipes:
        rows: list[Row] = []
        cells = plan.cells_folder(name, folder)
        cells.mkdir(parents=True, exist_ok=True)
        for comparison in plan.comparisons(name):
            rows += sweep(comparison, cells, _runner(plan, name, cells, jobs), console)
        found[name] = _chosen(rows)
        reasons += [row.get("diverged") for row in rows]
    check_some_trained(reasons)
    return found


def _chosen(rows: list[Row]) -> list[Row]:
    """The rows with the best validation mAP, whole."""
    keys = ("method", "setting", "seed", "learning_rate", "batch_size", "weight")
    whole = {tuple(row[key] for key in keys): row for row in rows}
    return [whole[tuple(row[key] for key in keys)] for row in choose(rows)]


def _runner(plan: Plan, name: str, folder: Path, jobs: int) -> Runner:
    if plan.dataset.kind != "images":
        return in_memory(jobs)
    return on_photos(plan.photos(name).base, folder, told=plan.told)


def check(plan: Plan) -> list[str]:
    """Find what does not fit the data, before anything is trained or written.

    Gives what a person should be told about the data.
    """
    train, test = plan.tables
    planned = [(name, each) for name in plan.recipes for each in plan.comparisons(name)]
    if not planned:
        return []
    if plan.dataset.kind == "images":
        for name, comparison in planned:
            plan.photos(name).check_cells(comparison)
        return plan.photos(planned[0][0]).look_at_files()
    check_tables(train, test, plan.protocol.expected_positives)
    for setting in dict.fromkeys(setting for _, each in planned for setting in each.settings):
        check_setting(train, setting, plan.protocol.seeds[0])
    return []
