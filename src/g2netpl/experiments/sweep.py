"""A sweep: methods × settings × seeds × learning rates × batch sizes × weights, in a folder.

All methods get the same masks, splits, starts and orders, which depend on the seed only, and all
train for all their epochs. For every (method, setting, seed) the run with the best validation mAP
is chosen; the test images are never used to choose. Each finished run is a line of cells.jsonl, so
a sweep resumes with the runs that are missing.
"""

import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NotRequired

import torch
from pydantic import FiniteFloat

from g2netpl.core.methods import build_method, find_method, parse_method, weights_to_try
from g2netpl.experiments.label_quality import Movement
from g2netpl.labels.settings import Setting
from g2netpl.labels.table import LabelTable
from g2netpl.runs.config import RunConfig
from g2netpl.runs.metrics import can_rank
from g2netpl.runs.records import Epoch, Result
from g2netpl.training import expected_positives
from g2netpl.training.configuration import check_config, check_method
from g2netpl.training.splits import check_learnable, split_and_observe
from g2netpl.training.trainer import NumericalStop
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.files import appending
from g2netpl.utils.options import parse_record
from g2netpl.utils.progress import Work

CELLS = "cells.jsonl"
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
    def options(self) -> tuple[str, dict[str, str]]:
        """The name of the method and its changed options."""
        return options_of(f"{self.method}:{self.weight}" if self.weight else self.method)


def options_of(method: str) -> tuple[str, dict[str, str]]:
    """The name of a row's method and its options, without other keys of the run."""
    name, changes = parse_method(method)
    return name, {key: value for key, value in changes.items() if key not in OWN_KEYS}


@dataclass(frozen=True)
class Sweep:
    """What is compared, on which data, for how long."""

    features: str | None  # a features folder; None: the built-in scenes, or images
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

    def __post_init__(self) -> None:
        for method, setting in itertools.product(self.methods, self.settings):
            full = Setting.parse(setting).kind == "full"
            check_method(*options_of(method), full=full, mode="full")
        first = self.methods[:1], self.settings[:1]
        shared = (*first, self.seeds, self.learning_rates, self.batch_sizes)
        for values in itertools.product(*shared):  # are checked as those of a run
            self.config_of(Cell(*values))

    def config_of(
        self, cell: Cell, keys: Mapping[str, Any] | None = None, output: str = "none"
    ) -> RunConfig:
        """The configuration of a cell, with the keys that its data need."""
        method, options = cell.options
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
            "patience": 0,
            "output": output,
            **{
                name: getattr(self, name)
                for name in ("epochs", "hidden", "optimizer", "ema", "expected_positives")
            },
        }
        return RunConfig.read(values, "a cell")

    def check(
        self, train: LabelTable, test: LabelTable | None, keys: Mapping[str, Any] | None = None
    ) -> RunConfig:
        """Reject what does not fit the data, before anything is trained; the first configuration.

        `keys` are those that the data need.
        """
        if test is not None and not can_rank(test.values):
            raise InputError(
                f"{counted(len(test), 'test image')}: no class has both positives and negatives, "
                "so mAP is undefined; add images or full labels (g2netpl convert --absent negative)"
            )
        if self.expected_positives != "estimate":
            expected_positives.given(self.expected_positives, train.values)
        images = keys is not None and "images" in keys and keys["mode"] == "full"
        for setting in self.settings:
            data = split_and_observe(
                train, Setting.parse(setting), VALIDATION_FRACTION, self.seeds[0]
            )
            if test is None and data.validation is None:
                raise InputError(
                    f"setting {setting}: no test images, and no held-out class has both positives "
                    "and negatives, so mAP is undefined; give --test-labels"
                )
            check_learnable(data.visible, f"setting {setting}")
            for method in self.methods:
                name, changes = options_of(method)
                check_method(name, changes, full=True, mode="full", images=images)
                options: dict[str, Any] = {**changes}
                build_method(name, torch.tensor(data.visible.values[:1]), k=1.0, **options)
        configs = [check_config(self.config_of(cell, keys)) for cell in self.cells()]
        return configs[0]

    def cells(self) -> list[Cell]:
        """The runs to choose from, those of one (setting, seed) next to each other."""
        seeds = self.seeds[:1] if self.choose_once else self.seeds
        grid = itertools.product(
            self.settings, seeds, self.methods, self.learning_rates, self.batch_sizes
        )
        return [
            Cell(method, setting, seed, rate, batch, weight)
            for setting, seed, method, rate, batch in grid
            for weight in self._weights(method)
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

    def without_weights(self) -> list[str]:
        """Methods without a main weight to search, if those of others are searched."""
        names = dict.fromkeys(options_of(method)[0] for method in self.methods)
        return [name for name in names if self.search_weights and find_method(name).grid is None]

    def _weights(self, method: str) -> list[str]:
        return weights_to_try(*options_of(method)) if self.search_weights else [""]


def run_sweep(
    sweep: Sweep,
    folder: Path,
    train: Callable[[Sequence[Cell]], Iterator[Row]],
    work: Work,
) -> list[Row]:
    """Train the cells that the folder lacks, by `train`; the rows of all cells."""
    path = folder / CELLS
    rows = {cell_of(row): row for row in read_cells(path)}

    def train_missing(cells: Sequence[Cell]) -> None:
        missing = [cell for cell in cells if not _has(rows.get(cell), sweep)]
        if not missing:
            return
        with appending(path) as file:
            content = path.read_bytes()
            file.truncate(content.rfind(b"\n") + 1)  # a crash may have left half a line
            for row in train(missing):
                rows[cell_of(row)] = row
                work.finished(describe_row(row))
                file.write(json.dumps(row).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())

    first = sweep.cells()
    train_missing(first)
    chosen = [row for row in choose([rows[cell] for cell in first]) if "diverged" not in row]
    later = sweep.later_cells(map(cell_of, chosen))
    train_missing(later)
    return [rows[cell] for cell in (*first, *later)]


def _has(row: Row | None, sweep: Sweep) -> bool:
    """Whether a cell is trained, and its pseudo-labels were watched if that is wanted."""
    if row is None or not sweep.watch_labels:
        return row is not None
    return bool(row["movement"]) or row["undecided"] is None


def read_cells(path: Path) -> list[Row]:
    """The finished runs; half a last line, which a crash left or another process writes, is not."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    return [_row(line, f"{path}: line {number}") for number, line in enumerate(lines, start=1)]


def _row(line: bytes, where: str) -> Row:
    where = f"{where}: not a run of a comparison"
    row: Row = {**parse_record(Line, line, where)}
    if row["movement"] and len(row["movement"]) != len(row["history"]):
        raise InputError(f"{where}: movement: expected as many epochs as in its history")
    return row


def cell_of(row: Mapping[str, Any]) -> Cell:
    """Which run a row is of."""
    return Cell(**{field.name: row[field.name] for field in fields(Cell)})


def choose(rows: Sequence[Row]) -> list[Row]:
    """For every (method, setting, seed) the run with the best validation mAP.

    Without validation mAP the first run is taken; a diverged run only if all diverged.
    """
    best: dict[tuple[str, str, int], Row] = {}
    for row in rows:
        key = (row["method"], row["setting"], row["seed"])
        if key not in best or _score(row) > _score(best[key]):
            best[key] = row
    return list(best.values())


def _score(row: Row) -> float:
    if "diverged" in row:
        return -2.0
    return -1.0 if row["validation_map"] is None else float(row["validation_map"])


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
