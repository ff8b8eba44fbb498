"""Methods side by side on one data set: the same masks, splits, starts and orders for all.

The data are a features folder, or the built-in scenes (`SCENES`), whose network is the tiny CNN.

A cell is one training: (method, setting, seed, learning rate, batch size). For every (method,
setting, seed) the cell with the best validation mAP becomes the row of the results table; the test
part is looked at after a training is over, never to choose anything.
"""

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from torch import Tensor

from g2netpl import expected
from g2netpl.data import ArraySource
from g2netpl.errors import InputError
from g2netpl.evaluation import Scores, mean_average_precision, predict_all
from g2netpl.features import read_features
from g2netpl.fitting import Schedule, Snapshot, State, Validation, fit, load_network
from g2netpl.game import Setup
from g2netpl.labels import NEGATIVE, POSITIVE, UNOBSERVED, LabelMatrix, LabelTable
from g2netpl.methods import find_method, make_player, split_variant
from g2netpl.network import build_network
from g2netpl.settings import SPML_SEED, IndexArray, Setting, observe, split_indices

SCENES = "scenes"
VALIDATION_FRACTION = 0.2
RESULT_KEYS = (
    "method",
    "setting",
    "seed",
    "learning_rate",
    "batch_size",
    "best_epoch",
    "validation_map",
    "test_map",
    "last_test_map",
    "pseudo_label_map",
    "undecided",
    "seconds",
)

Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One training of a comparison."""

    method: str  # a name of METHODS, with changed options as in `epr:regulariser=0.3`
    setting: str
    seed: int
    learning_rate: float
    batch_size: int


@dataclass(frozen=True)
class Contest:
    """The data of a comparison, in memory, and the backbone that fits them."""

    train_inputs: Tensor
    train: LabelTable
    test_inputs: Tensor
    test: LabelTable
    backbone: str = "features"


def load_contest(data: str) -> Contest:
    """Read a features folder, or make the built-in scenes."""
    if data != SCENES:
        folder = read_features(data)
        return Contest(
            torch.from_numpy(folder.train_features),
            folder.train,
            torch.from_numpy(folder.test_features),
            folder.test,
        )
    from g2netpl.scenes import make_scenes

    scenes = make_scenes()
    train, test = (
        (torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255.0 - 0.5) / 0.25
        for images in (scenes.train_images, scenes.test_images)
    )
    return Contest(train, scenes.train, test, scenes.test, "tiny")


@dataclass(frozen=True)
class Comparison:
    """What is compared, on which data, for how long."""

    data: str
    methods: tuple[str, ...]
    settings: tuple[str, ...]
    seeds: tuple[int, ...]
    learning_rates: tuple[float, ...] = (1e-3, 3e-4)
    batch_sizes: tuple[int, ...] = (64,)
    epochs: int = 10
    hidden: int = 0
    expected_positives: float | str = "truth"  # the truth's mean as in the protocol, or estimate
    keep_labels: bool = False  # give back soft labels and predictions too

    def __post_init__(self) -> None:
        for method, setting in itertools.product(self.methods, self.settings):
            name, _ = split_variant(method)
            if find_method(name).full_labels_only and Setting.parse(setting).kind != "full":
                raise InputError(
                    f"method {name} needs full labels: use it with the setting 'full', "
                    f"got {setting!r}"
                )
        for what, values in (
            ("learning rate", self.learning_rates),
            ("batch size", self.batch_sizes),
        ):
            for value in values:
                if not value > 0:
                    raise InputError(f"{what}: must be greater than 0, got {value}")
        if self.epochs < 1:
            raise InputError(f"epochs: must be 1 or more, got {self.epochs}")

    def cells(self) -> list[Cell]:
        """All trainings, those of one (setting, seed) next to each other."""
        return [
            Cell(method, setting, seed, learning_rate, batch_size)
            for setting in self.settings
            for seed in self.seeds
            for method in self.methods
            for learning_rate in self.learning_rates
            for batch_size in self.batch_sizes
        ]


def run_cells(
    comparison: Comparison, jobs: int, cells: Sequence[Cell] | None = None
) -> Iterator["Outcome"]:
    """Train every cell (or those given) in `jobs` processes of one thread each, in their order.

    One thread per training makes the figures independent of the number of jobs.
    """
    cells = comparison.cells() if cells is None else cells
    if jobs <= 1 or len(cells) == 1:
        contest = load_contest(comparison.data)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            for cell in cells:
                yield train_cell(contest, comparison, cell)
        finally:
            torch.set_num_threads(threads)
        return
    context = get_context("spawn")
    with context.Pool(jobs, _start_worker, (comparison,)) as pool:
        yield from pool.imap(_work, cells)


@dataclass(frozen=True)
class Outcome:
    """One trained cell: its figures and, on request, its labels and predictions."""

    row: Row
    history: list[dict[str, Any]]
    training: IndexArray  # rows of the training part
    visible: LabelMatrix  # its observed labels
    soft: Scores | None  # its soft labels at the end
    predicted: Scores | None  # its predictions at the best epoch
    movement: list[dict[str, list[float]]]  # per epoch: quartiles of û of hidden entries, by truth

    def __str__(self) -> str:
        row = self.row
        return (
            f"{row['method']} {row['setting']} seed {row['seed']} lr {row['learning_rate']:g} "
            f"batch {row['batch_size']}: validation mAP {row['validation_map']:.1%}"
        )


def train_cell(contest: Contest, comparison: Comparison, cell: Cell) -> Outcome:
    """Train one cell and measure it on the test part, at the best epoch and at the last."""
    began = time.perf_counter()
    name, changes = split_variant(cell.method)
    training, held_out, visible = _split_and_observe(contest.train, cell)
    known = contest.train.values[training]
    k = _expected_positives(contest, comparison, training, visible)
    observed = torch.from_numpy(np.array(visible))
    network = build_network(
        contest.backbone,
        len(contest.train.classes),
        hidden=comparison.hidden,
        width=contest.train_inputs.shape[1],
        seed=cell.seed,
    )
    player = make_player(name, changes, Setup(observed, k, cell.learning_rate, cell.seed))
    inputs = ArraySource(contest.train_inputs[torch.from_numpy(training)])
    movement: list[dict[str, list[float]]] = []

    def watch(now: Snapshot) -> None:
        soft = player.soft_labels() if comparison.keep_labels else None
        if soft is not None:
            movement.append(_quartiles(soft.numpy(), known, visible))

    result = fit(
        network,
        player,
        inputs,
        observed,
        k,
        torch.optim.Adam(network.parameters(), lr=cell.learning_rate),
        Schedule(comparison.epochs, cell.batch_size, cell.seed),
        Validation(
            ArraySource(contest.train_inputs[torch.from_numpy(held_out)]),
            contest.train.values[held_out],
        ),
        on_epoch=watch,
    )
    soft = player.soft_labels()
    row = {
        **asdict(cell),
        "best_epoch": result.best_epoch,
        "validation_map": result.best_map,
        "last_test_map": _test_map(network, result.network, contest),
        "test_map": _test_map(network, result.best_network, contest),
        **_soft_label_quality(soft, known, visible),
        "undecided": result.history[-1]["undecided"],
        "expected_positives": k,
        "seconds": round(time.perf_counter() - began, 3),
    }
    return Outcome(
        row,
        result.history,
        training,
        visible,
        soft.numpy() if comparison.keep_labels and soft is not None else None,
        predict_all(network, inputs) if comparison.keep_labels else None,
        movement,
    )


def _expected_positives(
    contest: Contest, comparison: Comparison, training: IndexArray, visible: LabelMatrix
) -> float:
    if comparison.expected_positives == "truth":
        return float((contest.train.values[training] == POSITIVE).sum(axis=1).mean())
    if comparison.expected_positives != "estimate":
        return float(comparison.expected_positives)
    k = expected.from_both_signs(visible)
    if k is None:
        vectors = contest.train_inputs[torch.from_numpy(training)].flatten(1).numpy()
        k = expected.from_positives(vectors, visible)
    return k


def _split_and_observe(truth: LabelTable, cell: Cell) -> tuple[IndexArray, IndexArray, LabelMatrix]:
    setting = Setting.parse(cell.setting)
    if setting.spml_compatible:  # as the benchmark does it: mask first, then split
        training, held_out = split_indices(len(truth), VALIDATION_FRACTION, SPML_SEED, True)
        return training, held_out, observe(truth, setting, SPML_SEED).values[training]
    training, held_out = split_indices(len(truth), VALIDATION_FRACTION, cell.seed)
    return training, held_out, observe(truth.take(training), setting, cell.seed).values


def choose(rows: Sequence[Row]) -> list[Row]:
    """For every (method, setting, seed) the cell with the best validation mAP."""
    best: dict[tuple[str, str, int], Row] = {}
    for row in rows:
        key = (row["method"], row["setting"], row["seed"])
        if key not in best or row["validation_map"] > best[key]["validation_map"]:
            best[key] = row
    return [{key: row[key] for key in RESULT_KEYS} for row in best.values()]


def _test_map(network: torch.nn.Module, state: State, contest: Contest) -> float:
    load_network(network, state)
    scores = predict_all(network, ArraySource(contest.test_inputs), 512)
    return mean_average_precision(scores, contest.test.values)


def _quartiles(soft: Scores, known: LabelMatrix, visible: LabelMatrix) -> dict[str, list[float]]:
    """û at 25, 50 and 75 % of the hidden positives and of the hidden negatives."""
    hidden = visible == UNOBSERVED
    bands = {}
    for name, value in (("positive", POSITIVE), ("negative", NEGATIVE)):
        chosen = soft[hidden & (known == value)]
        bands[name] = np.quantile(chosen, (0.25, 0.5, 0.75)).tolist() if len(chosen) else [0.0] * 3
    return bands


def _soft_label_quality(soft: Tensor | None, known: LabelMatrix, visible: LabelMatrix) -> Row:
    """mAP of the final soft labels against truth: over all entries, and over the unobserved."""
    if soft is None:
        return {"pseudo_label_map": None, "pseudo_label_map_unobserved": None}
    hidden = np.where(visible == UNOBSERVED, known, UNOBSERVED)
    return {
        "pseudo_label_map": mean_average_precision(soft.numpy(), known),
        "pseudo_label_map_unobserved": mean_average_precision(soft.numpy(), hidden),
    }


_worker: tuple[Contest, Comparison] | None = None


def _start_worker(comparison: Comparison) -> None:
    global _worker
    torch.set_num_threads(1)
    _worker = (load_contest(comparison.data), comparison)


def _work(cell: Cell) -> Outcome:
    assert _worker is not None
    return train_cell(*_worker, cell)
