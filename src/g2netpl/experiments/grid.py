"""What is compared: the data in memory, and the grid of trainings over methods, settings and seeds.

The data are a features folder, or the built-in scenes, whose network is the tiny CNN.
"""

import hashlib
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from g2netpl.base.errors import InputError, counted
from g2netpl.base.options import LARGEST_BATCH, MOST_EPOCHS, WIDEST, check_range
from g2netpl.game.methods import (
    find_method,
    make_player,
    split_variant,
    weights_to_try,
)
from g2netpl.game.observed import ObservedLabels
from g2netpl.game.player import Setup
from g2netpl.images.features import read_features
from g2netpl.labels.settings import Setting
from g2netpl.labels.table import LabelTable
from g2netpl.runs.metrics import can_rank
from g2netpl.training import expected_positives as expected
from g2netpl.training.checks import check_method
from g2netpl.training.data import check_learnable, split_and_observe

VALIDATION_FRACTION = 0.2


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
class Contest:
    """The data of a comparison, in memory, and the backbone that fits them."""

    train_inputs: Tensor
    train: LabelTable
    test_inputs: Tensor
    test: LabelTable
    backbone: str = "features"

    @property
    def fingerprints(self) -> dict[str, str]:
        """What the labels and the inputs say, in short."""
        some = self.train_inputs[:: max(1, len(self.train_inputs) // 1000)]  # as it used to be
        every = hashlib.sha256()
        for inputs in (self.train_inputs, self.test_inputs):
            content: Any = inputs.contiguous().numpy()
            every.update(content)
        return {
            "training": self.train.fingerprint(),
            "test": self.test.fingerprint(),
            "inputs": hashlib.sha256(some.contiguous().numpy().tobytes()).hexdigest(),
            "all inputs": every.hexdigest(),
        }


def load_contest(features: str | None) -> Contest:
    """Read a features folder, or without one make the built-in scenes."""
    if features is not None:
        folder = read_features(features)
        return Contest(
            torch.from_numpy(folder.train_features),
            folder.train,
            torch.from_numpy(folder.test_features),
            folder.test,
        )
    return scenes_contest()


def scenes_contest(train: int = 3000, test: int = 1000, seed: int = 0) -> Contest:
    """The built-in scenes, as many as wanted."""
    from g2netpl.images.scenes import make_scenes

    scenes = make_scenes(train, test, seed)
    train_inputs, test_inputs = (
        (torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255.0 - 0.5) / 0.25
        for images in (scenes.train_images, scenes.test_images)
    )
    return Contest(train_inputs, scenes.train, test_inputs, scenes.test, "tiny")


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
    changes: tuple[tuple[str, str, str], ...] = ()  # (method, option, value), for all its rows
    search_weights: bool = False  # try three values of each method's main weight too
    choose_once: bool = False  # choose on the first seed; train the others with that alone
    keep_labels: bool = False  # give back soft labels and predictions too

    def __post_init__(self) -> None:
        kinds = [Setting.parse(setting).kind for setting in self.settings]
        for method, kind in itertools.product(self.methods, kinds):
            check_method(*self.options_of(method), full=kind == "full", mode="end-to-end")
        for what, values in (
            ("learning rate", self.learning_rates),
            ("batch size", self.batch_sizes),
        ):
            for value in values:
                if not 0 < value < math.inf:
                    raise InputError(f"{what}: must be greater than 0 and finite, got {value}")
        check_range("batch size", max(self.batch_sizes), 1, LARGEST_BATCH)
        check_range("epochs", self.epochs, 1, MOST_EPOCHS)
        check_range("hidden", self.hidden, 0, WIDEST)
        check_range("seeds", min(self.seeds), 0)
        if max(self.seeds) >= 2**31:
            raise InputError(f"seeds: must be less than 2³¹, got {max(self.seeds)}")

    def options_of(self, method: str) -> tuple[str, dict[str, str]]:
        """The plain name of a method, and the options changed for it."""
        name, own = split_variant(method)
        return name, {key: value for of, key, value in self.changes if of == name} | own

    def options_of_cell(self, cell: Cell) -> tuple[str, dict[str, str]]:
        """The plain name of a cell's method, and the options changed for it."""
        return self.options_of(f"{cell.method}:{cell.weight}" if cell.weight else cell.method)

    def check(self, train: LabelTable, test: LabelTable, *, views: bool = False) -> None:
        """Find what does not fit the data, before anything is trained or written.

        `views` tells whether there are several of each image.
        """
        check_tables(train, test, self.expected_positives)
        for setting in self.settings:
            visible = check_setting(train, setting, self.seeds[0])
            for method in self.methods:
                name, changes = self.options_of(method)
                check_method(name, changes, full=True, mode="end-to-end", images=views)
                one = ObservedLabels.of(visible.values[:1])
                make_player(name, changes, Setup(one, 1.0, 1.0))

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

    def without_grid(self) -> list[str]:
        """Methods that have no main weight to search, where those of others are searched."""
        if not self.search_weights:
            return []
        names = dict.fromkeys(self.options_of(method)[0] for method in self.methods)
        return [name for name in names if find_method(name).grid is None]

    def _weights(self, method: str) -> list[str]:
        return weights_to_try(*self.options_of(method)) if self.search_weights else [""]


def check_tables(train: LabelTable, test: LabelTable, expected_positives: float | str) -> None:
    """Refuse labels that no figure can be had from, or not the k that is asked for."""
    if not can_rank(test.held):
        raise InputError(
            f"{counted(len(test), 'test image')}: no class has both a positive and a negative "
            "there, so mAP cannot be had; more images are needed, or full labels (g2netpl convert "
            "--absent negative)"
        )
    expected.check(expected_positives, train.held)


def check_setting(train: LabelTable, setting: str, seed: int) -> LabelTable:
    """The labels that a setting leaves to train on, of which some must be positive."""
    split = split_and_observe(train, Setting.parse(setting), VALIDATION_FRACTION, seed)
    check_learnable(split.visible, f"setting {setting}")
    return split.visible
