"""A sweep: methods × settings × seeds × learning rates × batch sizes × weights, in a folder.

All methods get the same masks, splits, starts and orders, which depend on the seed only, and all
train for all their epochs. For every (method, setting, seed) the run with the best validation mAP
is chosen; the test images are never used to choose. Each finished run is a line of cells.jsonl, so
a sweep resumes with the runs that are missing.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NotRequired

import torch
from pydantic import FiniteFloat

from g2netpl.core.methods import build_method, parse_method, weights_to_try
from g2netpl.experiments.data import Data
from g2netpl.experiments.statistics import Movement
from g2netpl.labels.settings import Setting
from g2netpl.runs.config import RunConfig
from g2netpl.runs.metrics import can_rank
from g2netpl.runs.records import Epoch, Result
from g2netpl.training import expected_positives
from g2netpl.training.configuration import check_config, check_method
from g2netpl.training.splits import check_learnable, split_and_observe
from g2netpl.training.trainer import NumericalStop
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.options import parse_record

CELLS = "cells.jsonl"
SHARED = ("epochs", "hidden", "optimizer", "ema", "expected_positives")  # keys of all runs
# keys of the run that a row may set for itself: epr:annotation=sampled, an:prior=none
OWN_KEYS = ("annotation", "prior", "solver", "weight_decay")
VALIDATION_FRACTION = 0.2
Row = dict[str, Any]


class Line(Result):
    """A line of cells.jsonl."""

    cf1: NotRequired[FiniteFloat | None]
    of1: NotRequired[FiniteFloat | None]
    test_samples: NotRequired[list[FiniteFloat] | None]
    history: list[Epoch]
    movement: list[Movement | None]
    expected_positives: NotRequired[FiniteFloat | None]
    diverged: NotRequired[str]
    plugin: NotRequired[str]  # SHA-256 of the file that the method comes from


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    method: str  # with changed options as in `epr:regulariser=0.3`
    setting: str
    seed: int
    learning_rate: float
    batch_size: int
    weight: str = ""  # one value of its main weight, as in `regulariser=0.3`

    def __str__(self) -> str:
        rate = f"lr {self.learning_rate:g} batch {self.batch_size}"
        return f"{self.method} {self.setting} seed {self.seed} {rate} {self.weight}".rstrip()

    @property
    def options(self) -> tuple[str, dict[str, Any]]:
        """The name of the method and its changed options."""
        return options_of(f"{self.method}:{self.weight}" if self.weight else self.method)


def options_of(method: str) -> tuple[str, dict[str, Any]]:
    """The name of a row's method and its options, without other keys of the run."""
    name, changes = parse_method(method)
    return name, {key: value for key, value in changes.items() if key not in OWN_KEYS}


@dataclass(frozen=True)
class Sweep:
    """What is compared, and for how long."""

    methods: tuple[str, ...]
    settings: tuple[str, ...]
    seeds: tuple[int, ...]
    learning_rates: tuple[float, ...] = (1e-3, 3e-4)
    batch_sizes: tuple[int, ...] = (64,)
    epochs: int | None = 10
    hidden: int = 0
    expected_positives: float | str = "truth"  # the truth's mean as in the protocol, or estimate
    optimizer: str = "adam"
    ema: float | None = None
    prior: str = "none"  # a file of scores is that of rows with prior=file
    names: str | None = None  # the corrected table of names
    search_weights: bool = False  # also try three values of each method's main weight
    choose_once: bool = False  # choose on the first seed; train the others with that only
    watch_labels: bool = False  # compare pseudo-labels with the hidden truth after each epoch

    def config_of(self, cell: Cell, keys: Mapping[str, Any], output: str = "none") -> RunConfig:
        """The configuration of a cell, with the keys that its data need."""
        method, options = cell.options
        changes = parse_method(cell.method)[1]
        of_row = {key: changes[key] for key in OWN_KEYS if key in changes}
        if of_row.get("prior", "file") == "file":
            of_row["prior"] = self.prior
        values = {
            **{"solver": "epochs", **keys, **of_row},
            **{name: getattr(self, name) for name in SHARED},
            "names": None if of_row["prior"] == "none" else self.names,
            "method": method,
            "options": options,
            "setting": cell.setting,
            "seed": cell.seed,
            "learning_rate": cell.learning_rate,
            "batch_size": cell.batch_size,
            "patience": 0,
            "output": output,
        }
        return RunConfig.read(values, "a cell")

    def check(self, data: Data) -> None:
        """Reject what does not fit the data, before anything is trained."""
        (train, test), keys = data.tables, data.keys
        configs = [self.config_of(cell, keys) for cell in self.all_cells()]
        if test is not None and not can_rank(test.values):
            raise InputError(
                f"{counted(len(test), 'test image')}: no class has both positives and negatives, "
                "so mAP is undefined; add images or full labels (g2netpl convert --absent negative)"
            )
        if self.expected_positives != "estimate":
            expected_positives.given(self.expected_positives, train.values)
        for text in self.settings:
            setting = Setting.parse(text)
            split = split_and_observe(train, setting, VALIDATION_FRACTION, self.seeds[0])
            if test is None and split.validation is None:
                raise InputError(
                    f"setting {setting}: no test images, and no held-out class has both positives "
                    "and negatives, so mAP is undefined; give --test-labels"
                )
            check_learnable(split.visible, f"setting {setting}")
            how: dict[str, Any] = {"full": setting.kind == "full", "mode": keys["mode"]}
            for method in self.methods:
                name, options = options_of(method)
                check_method(name, options, **how, images="images" in keys)
                build_method(name, torch.tensor(split.visible.values[:1]), k=1.0, **options)
        for config in configs:
            check_config(config)

    def cells(self) -> list[Cell]:
        """The runs to choose from, those of one (setting, seed) next to each other."""
        seeds = self.seeds[:1] if self.choose_once else self.seeds
        grid = itertools.product(
            self.settings, seeds, self.methods, self.learning_rates, self.batch_sizes
        )
        return [
            Cell(method, setting, seed, rate, batch, weight)
            for setting, seed, method, rate, batch in grid
            for weight in (weights_to_try(*options_of(method)) if self.search_weights else [""])
        ]

    def later_cells(self, chosen: Iterable[Cell]) -> list[Cell]:
        """With `choose_once`: what was chosen on the first seed, for all the others."""
        seeds, chosen = self.seeds[1:] if self.choose_once else (), tuple(chosen)
        return [replace(cell, seed=seed) for seed in seeds for cell in chosen]

    def all_cells(self) -> list[Cell]:
        """All runs; with `choose_once`, one per method, setting and further seed."""
        first = self.cells()
        last = {(cell.method, cell.setting): cell for cell in first}
        return [*first, *self.later_cells(last.values())]


def read_cells(path: Path) -> list[Row]:
    """The finished runs; half a last line, which a crash left or another process writes, is not."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    return [
        {**parse_record(Line, line, f"{path}: line {number}: not a run of a comparison")}
        for number, line in enumerate(lines, start=1)
    ]


def cell_of(row: Mapping[str, Any]) -> Cell:
    """Which run a row is of."""
    return Cell(**{field.name: row[field.name] for field in fields(Cell)})


def choose(rows: Sequence[Row]) -> list[Row]:
    """For every (method, setting, seed) the first run with the best validation mAP.

    Without validation mAP the first run is taken; a diverged run only if all diverged.
    """

    def score(row: Row) -> float:
        if "diverged" in row:
            return -2.0
        return -1.0 if row["validation_map"] is None else float(row["validation_map"])

    groups: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["method"], row["setting"], row["seed"]), []).append(row)
    return [max(group, key=score) for group in groups.values()]


def check_some_trained(rows: Sequence[Row]) -> None:
    """Stop if every run diverged, so there is nothing to show."""
    reasons = [row.get("diverged") for row in rows]
    if reasons and None not in reasons:
        raise NumericalStop(f"all {len(reasons)} runs diverged; the first: {reasons[0]}")


def describe_row(row: Row) -> str:
    """A trained cell in one line, without its test results."""
    score = "" if row["validation_map"] is None else f": validation mAP {row['validation_map']:.1%}"
    return f"{cell_of(row)}" + (f": diverged ({row['diverged']})" if "diverged" in row else score)


def diverged_row(cell: Cell, reason: str) -> Row:
    """The row of a run whose loss is no longer a number."""
    nothing = dict.fromkeys(Result.__annotations__)
    return {**nothing, **asdict(cell), "diverged": reason, "history": [], "movement": []}
