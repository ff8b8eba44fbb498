"""Methods side by side on one data set: the same masks, splits, starts and orders for all.

A cell of features or scenes is trained in memory, several at a time. A cell of image files is a run
folder, trained as `g2netpl train` does: one that was broken off goes on where it stopped. Where the
labels are followed over the epochs, that is done on at most 2,000 images of the latter.

A cell is one training: (method, setting, seed, learning rate, batch size), through all its epochs:
no method is stopped early at an equilibrium that others do not have. For every (method,
setting, seed) the cell with the best validation mAP becomes the row of the results table; the test
part, if there is one, is looked at after a training is over, never to choose anything. A cell that
diverged has a row that says so.
"""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from multiprocessing import TimeoutError as NotYet
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from g2netpl.core import plugins
from g2netpl.core.inference import predict_all
from g2netpl.core.models import Backbone
from g2netpl.experiments.data import ArrayData, Data, PhotoData, load_array_data
from g2netpl.experiments.grid import Cell, Comparison
from g2netpl.experiments.label_quality import Movement, watch_labels
from g2netpl.images.loader import Subset
from g2netpl.labels.table import IndexArray, LabelMatrix
from g2netpl.runs.config import RunConfig
from g2netpl.runs.metrics import ranked_map
from g2netpl.runs.records import CellResult, Epoch, is_begun, write_history
from g2netpl.training import expected_positives as expected
from g2netpl.training.datamodule import DataModule, TensorDataModule, backbone_of
from g2netpl.training.progress import Progress, describe
from g2netpl.training.splits import ListedImages, observe_data
from g2netpl.training.train import train
from g2netpl.training.trainer import Callback, NumericalStop, State, Trainer
from g2netpl.utils.arrays import Scores
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError
from g2netpl.utils.options import parse_record
from g2netpl.utils.progress import EVERY, Work
from g2netpl.utils.signals import AGAIN, leave_terminal_to_parent

RESULT_KEYS = tuple(CellResult.__annotations__)
Row = dict[str, Any]
Runner = Callable[[Comparison, Sequence[Cell], Work], Iterator[Row]]  # counts what it trains
TRACK = "labels.jsonl"
_WATCHED = 2000


def runner_of(data: Data, folder: Path, jobs: int = 1, advice: str = AGAIN) -> Runner:
    """What trains cells on these data: in `jobs` processes, or on image files below `folder`.

    `advice` says how to go on after a stop.
    """
    if isinstance(data, PhotoData):
        return _OnPhotos(data, folder, advice)
    return lambda comparison, cells, work: (
        each.line for each in run_cells(comparison, jobs, cells, work)
    )


def run_cells(
    comparison: Comparison,
    jobs: int,
    cells: Sequence[Cell] | None = None,
    work: Work | None = None,
) -> Iterator["Outcome"]:
    """Train every cell (or those given) in `jobs` processes of one thread each, in their order.

    One thread per training makes the figures independent of the number of jobs. `work` is told how
    far they are.
    """
    cells = comparison.cells() if cells is None else cells
    for outcome in _outcomes(comparison, jobs, cells, work):
        if work is not None:
            work.finished(str(outcome))
        yield outcome


def _outcomes(
    comparison: Comparison, jobs: int, cells: Sequence[Cell], work: Work | None
) -> Iterator["Outcome"]:
    if jobs <= 1 or len(cells) == 1:
        console = None if work is None else Console(quiet=True)
        arrays = load_array_data(comparison.features)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            for cell in cells:
                yield _attempt(arrays, comparison, cell, console)
        finally:
            torch.set_num_threads(threads)
        return
    start = (_start_worker, (list(plugins.LOADED),))
    with get_context("spawn").Pool(min(jobs, 61), *start) as pool:
        found = pool.imap(partial(_work, comparison), cells)
        for _ in cells:
            yield _waited_for(found, work)
        pool.close()
        pool.join()


def _waited_for(found: Any, work: Work | None) -> "Outcome":
    """The next outcome of a pool; while nothing comes, `work` may say where it is."""
    while True:
        try:
            outcome: Outcome = found.next(timeout=EVERY)
            return outcome
        except NotYet:
            if work is not None:
                work.advance(0)


@dataclass(frozen=True)
class Outcome:
    """One trained cell: its figures and, on request, its labels and predictions."""

    row: Row
    history: list[dict[str, Any]]
    training: IndexArray  # rows of the training part
    visible: LabelMatrix  # its observed labels
    soft: Scores | None  # its soft labels at the end
    predicted: Scores | None  # its predictions at the best epoch
    movement: list[Row]  # per epoch: soft labels and predictions against truth

    @property
    def line(self) -> Row:
        """As in cells.jsonl."""
        return {**self.row, "history": self.history, "movement": self.movement}

    def __str__(self) -> str:
        return describe_row(self.row)


def diverged_row(cell: Cell, reason: str) -> Row:
    """A cell whose cost is no longer a number."""
    return {**dict.fromkeys(RESULT_KEYS), **asdict(cell), "diverged": reason}


def describe_row(row: Row) -> str:
    """A trained cell in one line, without its test figures."""
    found = row["validation_map"]
    score = "" if found is None else f": validation mAP {found:.1%}"
    if "diverged" in row:
        score = f": diverged ({row['diverged']})"
    return (
        f"{row['method']} {row['setting']} seed {row['seed']} lr {row['learning_rate']:g} "
        f"batch {row['batch_size']} {row['weight']}".rstrip()
        + score
    )


def train_cell(
    arrays: ArrayData, comparison: Comparison, cell: Cell, console: Console | None = None
) -> Outcome:
    """Train one cell and measure it on the test part, if any, at the best epoch and at the last."""
    began = time.perf_counter()
    trainer = trainer_of(arrays, comparison, cell)
    data = trainer.data
    known, visible = data.table.values[data.training], data.visible.values
    watched = _Watching(known, visible)
    if comparison.keep_labels:
        trainer.callbacks.append(watched)
    if console is not None:
        trainer.callbacks.append(Progress(console))
    result = trainer.fit()
    soft = trainer.pseudo_labels()
    row = {
        **asdict(cell),
        "best_epoch": result.best_epoch,
        "validation_map": result.best_map,
        "last_test_map": _test_map(trainer, trainer.last_model),
        "test_map": _test_map(trainer, result.best_model),
        "pseudo_label_map": None if soft is None else ranked_map(soft, known),
        "undecided": result.history[-1]["undecided"],
        "expected_positives": trainer.k,
        "seconds": round(time.perf_counter() - began, 3),
    }
    keep, source = comparison.keep_labels, trainer.source
    return Outcome(
        row,
        [{**record} for record in result.history],
        data.training,
        visible,
        soft if keep else None,
        trainer.predict(result.best_model, source) if keep else None,
        watched.records,
    )


class _Watching(Callback):
    """Compares pseudo-labels and predictions with the hidden labels after each epoch."""

    def __init__(self, known: LabelMatrix, visible: LabelMatrix) -> None:
        self.known, self.visible = known, visible
        self.records: list[Row] = []

    def on_epoch_end(self, trainer: Trainer) -> None:
        soft = trainer.pseudo_labels()
        if soft is not None:
            predicted = predict_all(trainer.evaluated, trainer.source)
            self.records.append(watch_labels(soft, predicted, self.known, self.visible))


def trainer_of(arrays: ArrayData, comparison: Comparison, cell: Cell) -> Trainer:
    """The trainer of a cell."""
    config = comparison.config_of(cell, arrays.keys)
    data = observe_data(config, arrays.train)
    if arrays.test is not None:
        data = replace(data, test=ListedImages(arrays.test, []))
    backbone = (
        Backbone(nn.Identity(), arrays.train_inputs.shape[1], classifier=arrays.classifier)
        if arrays.is_features
        else backbone_of(config)
    )
    inputs = TensorDataModule(data, arrays.train_inputs, arrays.test_inputs, backbone)
    # an estimate is not to see the whole truth of the images that are held out
    k = expected.find(config, replace(data, validation=None), inputs)
    return Trainer(config, data, inputs, k=k)


def choose(rows: Sequence[Row]) -> list[Row]:
    """For every (method, setting, seed) the cell with the best validation mAP.

    Where mAP cannot be had on validation, nothing can be chosen: the first cell is taken. One that
    diverged is not, unless all did: then it stands for them.
    """
    best: dict[tuple[str, str, int], Row] = {}
    for row in rows:
        key = (row["method"], row["setting"], row["seed"])
        if key not in best or _score(row) > _score(best[key]):
            best[key] = row
    keys = (*RESULT_KEYS, "diverged")
    return [{key: row[key] for key in keys if key in row} for row in best.values()]


def _score(row: Row) -> float:
    if "diverged" in row:
        return -2.0
    return -1.0 if row["validation_map"] is None else float(row["validation_map"])


def _test_map(trainer: Trainer, state: State) -> float | None:
    inputs, test = trainer.inputs.test(trainer.mode), trainer.data.test
    if inputs is None or test is None:
        return None
    return ranked_map(trainer.predict(state, inputs), test.table.values)


def _start_worker(own_methods: list[str]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # by which the main process ends this one
    plugins.load_plugins(own_methods)
    leave_terminal_to_parent()
    torch.set_num_threads(1)


def _work(comparison: Comparison, cell: Cell) -> Outcome:
    with plugins.plugin_errors():  # of which the main process would hear less
        return _attempt(_loaded_once(comparison.features), comparison, cell)


_loaded_once = cache(load_array_data)


def _attempt(
    arrays: ArrayData, comparison: Comparison, cell: Cell, console: Console | None = None
) -> Outcome:
    try:
        return train_cell(arrays, comparison, cell, console)
    except NumericalStop as stop:
        row, nothing = diverged_row(cell, str(stop)), np.empty((0, 0), dtype=np.int8)
        return Outcome(row, [], np.empty(0, dtype=np.int64), nothing, None, None, [])


class _OnPhotos:
    """Trains cells of image files, one after the other."""

    def __init__(self, data: PhotoData, folder: Path, advice: str) -> None:
        self.data, self.folder, self.advice = data, folder, advice

    def __call__(self, comparison: Comparison, cells: Sequence[Cell], bar: Work) -> Iterator[Row]:
        for cell in cells:
            title = _title(cell)
            output = self.folder / title.replace(":", "_")
            config = comparison.config_of(cell, self.data.keys, str(output))
            bar.say(f"{title}: begins")
            try:
                row = self._train(config, cell, bar, comparison.keep_labels)
            except NumericalStop as stop:
                row = {**diverged_row(cell, str(stop)), "history": [], "movement": []}
            bar.finished(describe_row(row))
            yield row

    def _train(self, config: RunConfig, cell: Cell, bar: Work, watches: bool) -> Row:
        folder = Path(config.output)

        def on_epoch(trainer: Trainer) -> None:
            self._show(_title(cell), bar, trainer.state.history[-1], trainer.inputs)
            if watches:
                _watch_labels(config, trainer)

        run = train(
            config,
            resume=is_begun(folder),
            console=Console(quiet=True),
            on_epoch=on_epoch,
            advice=self.advice,
        )
        seen = _records(folder / TRACK)
        movement = [seen.get(record["epoch"]) for record in run.history] if seen else []
        named = {"method": cell.method, "weight": cell.weight}
        kept = {"history": run.history, "movement": movement}
        return {**run.result, **named, "expected_positives": run.expected_positives, **kept}

    def _show(self, title: str, bar: Work, record: Epoch, inputs: DataModule) -> None:
        """An epoch in a line, and every unreadable image once."""
        bar.say(f"{title}: epoch {record['epoch']}: {describe(record)}")
        for problem in inputs.bad_images():
            if not any(known.startswith(problem) for known in self.data.told):
                self.data.told.add(problem)
                bar.print_line(f"left out: {problem}")


def check_some_trained(rows: Sequence[Row]) -> None:
    """Stop if every cell diverged, and so there is nothing to show."""
    reasons = [row.get("diverged") for row in rows]
    if reasons and None not in reasons:
        many = f"all {len(reasons)} trainings" if len(reasons) > 1 else "the only training"
        raise NumericalStop(f"{many} diverged; the first: {reasons[0]}")


def _title(cell: Cell) -> str:
    parts = (cell.method, cell.weight, cell.setting, f"seed {cell.seed}")
    text = " ".join(part for part in parts if part)
    return f"{text} rate {cell.learning_rate:g} batch {cell.batch_size}"


def _watch_labels(config: RunConfig, trainer: Trainer) -> None:
    """Follow the pseudo-labels over the epochs."""
    soft = trainer.pseudo_labels()
    if soft is None:
        return
    data, track = trainer.data, Path(config.output) / TRACK
    rows = np.random.default_rng([config.seed, 0x6C62]).permutation(len(data.training))
    rows = np.sort(rows[:_WATCHED])
    record = watch_labels(
        soft[rows],
        predict_all(trainer.evaluated, Subset(trainer.source, rows)),
        data.table.values[data.training[rows]],
        data.visible.values[rows],
    )
    seen = {**_records(track), trainer.state.history[-1]["epoch"]: record}
    write_history(track, [{"epoch": epoch, **each} for epoch, each in seen.items()])


class _Watched(Movement):
    """A line of labels.jsonl."""

    epoch: int


def _records(track: Path) -> dict[int, Row]:
    """What was seen after each epoch; the last line counts if an epoch was repeated."""
    if not track.is_file():
        return {}
    found: dict[int, Row] = {}
    for line in track.read_bytes().splitlines():
        try:
            record: Row = {**parse_record(_Watched, line, str(track))}
        except InputError:  # broken off while it was written
            continue
        found[record.pop("epoch")] = record
    return found
