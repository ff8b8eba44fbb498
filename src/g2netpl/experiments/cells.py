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

from g2netpl.base.arrays import Scores
from g2netpl.base.console import Console
from g2netpl.base.errors import InputError
from g2netpl.base.options import in_full, parse_record
from g2netpl.base.progress import EVERY, Cells
from g2netpl.base.signals import AGAIN, leave_terminal_to_parent
from g2netpl.base.system import MOST_PROCESSES
from g2netpl.experiments.data import ArrayData, Data, PhotoData, load_array_data
from g2netpl.experiments.grid import Cell, Comparison
from g2netpl.experiments.label_quality import Movement, watch_labels
from g2netpl.game import plugins
from g2netpl.game.network.predicting import predict_all
from g2netpl.game.player import LabelPlayer
from g2netpl.images.loader import Part
from g2netpl.labels.table import IndexArray, LabelMatrix
from g2netpl.runs.config import PhaseMode, RunConfig
from g2netpl.runs.folder import is_begun
from g2netpl.runs.metrics import ranked_map
from g2netpl.runs.records import CellResult, Epoch
from g2netpl.training import expected_positives as expected
from g2netpl.training.data import observe_data
from g2netpl.training.divergence import attempt
from g2netpl.training.inputs import ArrayInputs, Inputs, backbone_of
from g2netpl.training.listed import Listed
from g2netpl.training.progress import describe, write_history
from g2netpl.training.session import Session
from g2netpl.training.snapshots import Snapshot, State
from g2netpl.training.train import train

RESULT_KEYS = tuple(CellResult.__annotations__)
Row = dict[str, Any]
Runner = Callable[[Comparison, Sequence[Cell], Cells], Iterator[Row]]  # counts what it trains
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
    work: Cells | None = None,
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
    comparison: Comparison, jobs: int, cells: Sequence[Cell], work: Cells | None
) -> Iterator["Outcome"]:
    if jobs <= 1 or len(cells) == 1:
        console = None if work is None else work.inside()
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
    with get_context("spawn").Pool(min(jobs, MOST_PROCESSES), *start) as pool:
        found = pool.imap(partial(_work, comparison), cells)
        for _ in cells:
            yield _waited_for(found, work)
        pool.close()
        pool.join()


def _waited_for(found: Any, work: Cells | None) -> "Outcome":
    """The next outcome of a pool; while nothing comes, `work` may say where it is."""
    while True:
        try:
            outcome: Outcome = found.next(timeout=EVERY)
            return outcome
        except NotYet:
            if work is not None:
                work.beat()


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
        f"{row['method']} {row['setting']} seed {row['seed']} lr {in_full(row['learning_rate'])} "
        f"batch {row['batch_size']} {row['weight']}".rstrip()
        + score
    )


def train_cell(
    arrays: ArrayData, comparison: Comparison, cell: Cell, console: Console | None = None
) -> Outcome:
    """Train one cell and measure it on the test part, if any, at the best epoch and at the last."""
    began = time.perf_counter()
    session = session_of(arrays, comparison, cell)
    data, inputs, mode = session.data, session.inputs, session.mode
    known, visible = data.table.values[data.training], data.visible.values
    movement: list[Row] = []

    def watch(now: Snapshot, network: nn.Module, player: LabelPlayer, *rest: Any) -> None:
        soft = player.soft_labels() if comparison.keep_labels else None
        if soft is not None:
            predicted = predict_all(network, inputs.training(mode))
            movement.append(watch_labels(soft.numpy(), predicted, known, visible))

    result = session.play(console=console, watch=watch)
    soft = session.player.soft_labels()
    row = {
        **asdict(cell),
        "best_epoch": result.best_epoch,
        "validation_map": result.best_map,
        "last_test_map": _test_map(session, result.network),
        "test_map": _test_map(session, result.best_network),
        "pseudo_label_map": None if soft is None else ranked_map(soft.numpy(), known),
        "undecided": result.history[-1]["undecided"],
        "expected_positives": session.k,
        "seconds": round(time.perf_counter() - began, 3),
    }
    keep, best = comparison.keep_labels, result.best_network
    return Outcome(
        row,
        [{**record} for record in result.history],
        data.training,
        visible,
        soft.numpy() if keep and soft is not None else None,
        session.predict(best, inputs.training(mode)) if keep else None,
        movement,
    )


def session_of(arrays: ArrayData, comparison: Comparison, cell: Cell) -> Session:
    """The training of a cell, ready to play."""
    config = comparison.config_of(cell, arrays.keys)
    data = observe_data(config, arrays.train)
    if arrays.test is not None:
        data = replace(data, test=Listed(arrays.test, []))
    backbone = None if arrays.is_features else backbone_of(config)
    inputs = ArrayInputs(data, arrays.train_inputs, arrays.test_inputs, backbone)
    # an estimate is not to see the whole truth of the images that are held out
    k = expected.find(config, replace(data, validation=None), inputs)
    return Session(config, data, inputs, k)


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


def _test_map(session: Session, state: State) -> float | None:
    inputs, test = session.inputs.test(session.mode), session.data.test
    if inputs is None or test is None:
        return None
    return ranked_map(session.predict(state, inputs), test.table.values)


def _start_worker(own_methods: list[str]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # by which the main process ends this one
    plugins.load_plugins(own_methods)
    leave_terminal_to_parent()
    torch.set_num_threads(1)


def _work(comparison: Comparison, cell: Cell) -> Outcome:
    with plugins.own_mistakes():  # of which the main process would hear less
        return _attempt(_loaded_once(comparison.features), comparison, cell)


_loaded_once = cache(load_array_data)


def _attempt(
    arrays: ArrayData, comparison: Comparison, cell: Cell, console: Console | None = None
) -> Outcome:
    def failed(reason: str) -> Outcome:
        nothing = np.empty((0, 0), dtype=np.int8)
        row = diverged_row(cell, reason)
        return Outcome(row, [], np.empty(0, dtype=np.int64), nothing, None, None, [])

    return attempt(lambda: train_cell(arrays, comparison, cell, console), failed)


class _OnPhotos:
    """Trains cells of image files, one after the other."""

    def __init__(self, data: PhotoData, folder: Path, advice: str) -> None:
        self.data, self.folder, self.advice = data, folder, advice

    def __call__(self, comparison: Comparison, cells: Sequence[Cell], bar: Cells) -> Iterator[Row]:
        for cell in cells:
            title = _title(cell)
            output = self.folder / title.replace(":", "_")
            config = comparison.config_of(cell, self.data.keys, str(output))
            bar.say(f"{title}: begins")
            work = partial(self._train, config, cell, bar, comparison.keep_labels)
            row = attempt(work, partial(_failed, cell), output)
            bar.finished(describe_row(row))
            yield row

    def _train(self, config: RunConfig, cell: Cell, bar: Cells, watches: bool) -> Row:
        folder = Path(config.output)

        def on_epoch(now: Snapshot, *rest: Any) -> None:
            self._show(_title(cell), bar, now.history[-1], rest[2])
            if watches:
                _watch_labels(config, now, *rest)

        run = train(
            config,
            resume=is_begun(folder),
            console=bar.inside(),
            on_epoch=on_epoch,
            advice=self.advice,
        )
        seen = _records(folder / TRACK)
        movement = [seen.get(record["epoch"]) for record in run.history] if seen else []
        named = {"method": cell.method, "weight": cell.weight}
        kept = {"history": run.history, "movement": movement}
        return {**run.result, **named, "expected_positives": run.expected_positives, **kept}

    def _show(self, title: str, bar: Cells, record: Epoch, inputs: Inputs) -> None:
        """An epoch in a line, and every unreadable image once."""
        bar.say(f"{title}: epoch {record['epoch']}: {describe(record)}")
        for problem in inputs.bad_images():
            if not any(known.startswith(problem) for known in self.data.told):
                self.data.told.add(problem)
                bar.tell(f"left out: {problem}")


def _title(cell: Cell) -> str:
    parts = (cell.method, cell.weight, cell.setting, f"seed {cell.seed}")
    text = " ".join(part for part in parts if part)
    return f"{text} rate {in_full(cell.learning_rate)} batch {cell.batch_size}"


def _failed(cell: Cell, reason: str) -> Row:
    return {**diverged_row(cell, reason), "history": [], "movement": []}


def _watch_labels(
    config: RunConfig,
    now: Snapshot,
    network: nn.Module,
    player: LabelPlayer,
    inputs: Inputs,
    mode: PhaseMode,
) -> None:
    """Follow the soft labels over the epochs."""
    soft = player.soft_labels()
    if soft is None:
        return
    data, track = inputs.data, Path(config.output) / TRACK
    rows = np.random.default_rng([config.seed, 0x6C62]).permutation(len(data.training))
    rows = np.sort(rows[:_WATCHED])
    record = watch_labels(
        soft.cpu().numpy()[rows],
        predict_all(network, Part(inputs.training(mode), rows)),
        data.table.values[data.training[rows]],
        data.visible.values[rows],
    )
    seen = {**_records(track), now.history[-1]["epoch"]: record}
    write_history(track, [{"epoch": epoch, **each} for epoch, each in seen.items()])


class _Watched(Movement):
    """A line of labels.jsonl."""

    epoch: int


def _records(track: Path) -> dict[int, Row]:
    """What was seen after each epoch; the last word counts where an epoch was played again."""
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
