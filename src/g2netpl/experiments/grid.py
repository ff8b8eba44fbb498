"""The grid of trainings over methods, settings and seeds, and what is refused beforehand."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from g2netpl.core.methods import build_method, find_method, parse_method, weights_to_try
from g2netpl.labels.settings import Setting
from g2netpl.labels.table import LabelTable
from g2netpl.runs.config import RunConfig
from g2netpl.runs.metrics import can_rank
from g2netpl.training import expected_positives as expected
from g2netpl.training.configuration import check_config, check_method
from g2netpl.training.splits import check_learnable, split_and_observe
from g2netpl.utils.errors import InputError, counted

# keys of the training that a row may have of its own: epr:annotation=sampled, an:prior=none
OWN_KEYS = ("annotation", "prior", "solver", "weight_decay")
VALIDATION_FRACTION = 0.2


def options_of(method: str) -> tuple[str, dict[str, str]]:
    """The name of a row's method and its options, without other keys of the training."""
    name, changes = parse_method(method)
    return name, {key: value for key, value in changes.items() if key not in OWN_KEYS}


@dataclass(frozen=True)
class Cell:
    """One training of a comparison."""

    method: str  # a name of METHODS, with changed options as in `epr:regulariser=0.3`
    setting: str
    seed: int
    learning_rate: float
    batch_size: int
    weight: str = ""  # one value of its main weight, as in `regulariser=0.3`


@dataclass(frozen=True)
class Comparison:
    """What is compared, on which data, for how long."""

    features: str | None  # a features folder; None: the built-in scenes
    methods: tuple[str, ...]
    settings: tuple[str, ...]
    seeds: tuple[int, ...]
    learning_rates: tuple[float, ...] = (1e-3, 3e-4)
    batch_sizes: tuple[int, ...] = (64,)
    epochs: int = 10
    hidden: int = 0
    expected_positives: float | str = "truth"  # the truth's mean as in the protocol, or estimate
    optimizer: str = "adam"
    ema: float | None = None
    prior: str = "none"  # a file of scores is that of rows with prior=file
    names: str | None = None  # the corrected table of names
    search_weights: bool = False  # try three values of each method's main weight too
    choose_once: bool = False  # choose on the first seed; train the others with that alone
    keep_labels: bool = False  # give back soft labels and predictions too

    def __post_init__(self) -> None:
        kinds = [Setting.parse(setting).kind for setting in self.settings]
        for method, kind in itertools.product(self.methods, kinds):
            check_method(*self.options_of(method), full=kind == "full", mode="full")
        shared = itertools.product(self.seeds, self.learning_rates, self.batch_sizes)
        for seed, rate, batch in shared:  # each is what a training may have
            self.config_of(Cell(self.methods[0], self.settings[0], seed, rate, batch))

    def options_of(self, method: str) -> tuple[str, dict[str, str]]:
        """The plain name of a method, and the options changed for it."""
        return options_of(method)

    def options_of_cell(self, cell: Cell) -> tuple[str, dict[str, str]]:
        """The plain name of a cell's method, and the options changed for it."""
        return self.options_of(f"{cell.method}:{cell.weight}" if cell.weight else cell.method)

    def config_of(
        self, cell: Cell, keys: Mapping[str, Any] | None = None, output: str = "none"
    ) -> RunConfig:
        """The training of a cell, with the keys that its data need."""
        method, options = self.options_of_cell(cell)
        own = parse_method(cell.method)[1]
        prior = own.get("prior", self.prior)
        prior = self.prior if prior == "file" else prior
        values = {
            **(keys or {"labels": "none"}),
            "method": method,
            "options": options,
            "annotation": own.get("annotation"),
            "prior": prior,
            "solver": own.get("solver", "epochs"),
            "weight_decay": own.get("weight_decay", 0.0),
            "names": None if prior == "none" else self.names,
            "setting": cell.setting,
            "seed": cell.seed,
            "learning_rate": cell.learning_rate,
            "batch_size": cell.batch_size,
            "epochs": self.epochs,
            "patience": 0,
            "hidden": self.hidden,
            "optimizer": self.optimizer,
            "ema": self.ema,
            "expected_positives": self.expected_positives,
            "output": output,
        }
        return RunConfig.read(values, "a cell")

    def check(
        self, train: LabelTable, test: LabelTable | None, keys: Mapping[str, Any] | None = None
    ) -> RunConfig:
        """Find what does not fit the data, before anything is trained or written.

        Without a test, validation mAP is all there is. `keys` are those that the data need; gives
        the first training.
        """
        if test is not None and not can_rank(test.values):
            raise InputError(
                f"{counted(len(test), 'test image')}: no class has both a positive and a negative "
                "there, so mAP cannot be had; more images are needed, or full labels (g2netpl "
                "convert --absent negative)"
            )
        expected.check(self.expected_positives, train.values)
        views = keys is not None and "images" in keys and keys["mode"] == "full"
        for setting in self.settings:
            share, seed = VALIDATION_FRACTION, self.seeds[0]
            data = split_and_observe(train, Setting.parse(setting), share, seed)
            visible = data.visible
            if test is None and data.validation is None:
                raise InputError(
                    f"setting {setting}: no test images, and no class has both a positive and a "
                    "negative among the held-out ones, so there is no mAP; give --test-labels"
                )
            check_learnable(visible, f"setting {setting}")
            for method in self.methods:
                name, changes = self.options_of(method)
                check_method(name, changes, full=True, mode="full", images=views)
                options: dict[str, Any] = {**changes}
                build_method(name, torch.tensor(visible.values[:1]), k=1.0, **options)
        configs = [check_config(self.config_of(cell, keys)) for cell in self.cells()]
        return configs[0]

    def cells(self) -> list[Cell]:
        """The trainings to choose from, those of one (setting, seed) next to each other."""
        return [
            Cell(method, setting, seed, learning_rate, batch_size, weight)
            for setting in self.settings
            for seed in (self.seeds[:1] if self.choose_once else self.seeds)
            for method in self.methods
            for learning_rate in self.learning_rates
            for batch_size in self.batch_sizes
            for weight in self._weights(method)
        ]

    def later_cells(self, chosen: Iterable[Cell]) -> list[Cell]:
        """With `choose_once`: what was chosen on the first seed, for all the others."""
        seeds, chosen = self.seeds[1:] if self.choose_once else (), tuple(chosen)
        return [replace(cell, seed=seed) for seed in seeds for cell in chosen]

    def trainings(self) -> list[Cell]:
        """All of them; with `choose_once`, one more per method, setting and further seed."""
        first = self.cells()
        last = {(cell.method, cell.setting): cell for cell in first}
        return [*first, *self.later_cells(last.values())]

    def without_grid(self) -> list[str]:
        """Methods that have no main weight to search, where those of others are searched."""
        if not self.search_weights:
            return []
        names = dict.fromkeys(self.options_of(method)[0] for method in self.methods)
        return [name for name in names if find_method(name).grid is None]

    def _weights(self, method: str) -> list[str]:
        return weights_to_try(*self.options_of(method)) if self.search_weights else [""]
