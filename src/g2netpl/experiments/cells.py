"""Train the cells of a sweep, and keep a line for each in cells.jsonl.

Cells of features or scenes are trained in memory, several at a time, by one thread each, so that
results do not depend on the number of processes. A cell of image files is a run folder, trained as
by `g2netpl train`: an interrupted one resumes. Test images are scored after the run is over.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from g2netpl.core import plugins
from g2netpl.core.inference import one_thread, predict_all
from g2netpl.experiments.data import ArrayData, Data, PhotoData
from g2netpl.experiments.statistics import bootstrap_map, f1_scores, watch_labels
from g2netpl.experiments.sweep import (
    CELLS,
    Cell,
    Row,
    Sweep,
    cell_of,
    choose,
    describe_row,
    diverged_row,
    read_cells,
)
from g2netpl.images.loader import Subset
from g2netpl.labels.table import LabelMatrix
from g2netpl.runs.metrics import ranked_map
from g2netpl.runs.records import is_begun
from g2netpl.runs.thresholds import Thresholds
from g2netpl.runs.thresholds import choose as choose_thresholds
from g2netpl.training import expected_positives
from g2netpl.training.datamodule import TensorDataModule
from g2netpl.training.progress import describe
from g2netpl.training.splits import ListedImages, observe_data
from g2netpl.training.train import train
from g2netpl.training.trainer import Callback, NumericalStop, Trainer
from g2netpl.utils.arrays import Scores
from g2netpl.utils.console import Console
from g2netpl.utils.files import appending
from g2netpl.utils.progress import Work
from g2netpl.utils.signals import AGAIN, leave_terminal_to_parent

_MOST_WATCHED = 2000  # images of a run folder


def run_sweep(sweep: Sweep, data: Data, folder: Path, jobs: int, work: Work) -> list[Row]:
    """Train the cells that the folder lacks; the rows of all cells."""
    path = folder / CELLS
    rows = {cell_of(row): row for row in read_cells(path)}

    def train_missing(cells: Sequence[Cell]) -> None:
        missing = [cell for cell in cells if cell not in rows]
        if not missing:
            return
        with appending(path) as file:
            file.truncate(path.read_bytes().rfind(b"\n") + 1)  # a crash may have left half a line
            for row in run_cells(sweep, data, missing, jobs, work, folder):
                if digest := plugins.digest_of(cell_of(row).options[0]):
                    row["plugin"] = digest
                rows[cell_of(row)] = row
                work.finished(describe_row(row))
                file.write(json.dumps(row).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())

    first = sweep.cells()
    for method in _changed_methods(first, rows):
        work.print_line(
            f"{method}: its plugin file has changed, and its finished runs are kept; use another "
            "--output, or --overwrite"
        )
    train_missing(first)
    chosen = choose([rows[cell] for cell in first])
    later = sweep.later_cells([cell_of(row) for row in chosen if "diverged" not in row])
    train_missing(later)
    return [rows[cell] for cell in (*first, *later)]


def _changed_methods(cells: Sequence[Cell], rows: Mapping[Cell, Row]) -> list[str]:
    """Methods with finished runs of an earlier content of their plugin file."""
    done = {(cell.options[0], rows[cell].get("plugin")) for cell in cells if cell in rows}
    changed = {name for name, digest in done if digest not in (None, plugins.digest_of(name))}
    return sorted(changed)


def run_cells(
    sweep: Sweep,
    data: Data,
    cells: Sequence[Cell],
    jobs: int = 1,
    work: Work | None = None,
    folder: Path | None = None,
) -> Iterator[Row]:
    """Train cells in `jobs` processes; on image files one after the other, below the `folder`."""
    if isinstance(data, PhotoData):
        assert folder is not None
        for cell in cells:
            yield _attempt(_train_photos, sweep, cell, data, folder, work)
    elif jobs == 1 or len(cells) == 1:
        with one_thread():
            for cell in cells:
                yield _attempt(train_cell, sweep, cell, data)
    else:
        start = (_start_worker, (list(plugins.LOADED), data))
        with get_context("spawn").Pool(min(jobs, 61), *start) as pool:  # Windows allows 61
            yield from pool.imap(partial(_train_in_worker, sweep), cells)


def _attempt(train: Callable[..., Row], sweep: Sweep, cell: Cell, *more: Any) -> Row:
    try:
        return train(sweep, cell, *more)
    except NumericalStop as stop:
        return diverged_row(cell, str(stop))


_data: ArrayData  # of a worker process


def _start_worker(own_methods: list[str], data: ArrayData) -> None:
    global _data
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # by which the main process ends this one
    leave_terminal_to_parent()
    plugins.load_plugins(own_methods)
    torch.set_num_threads(1)
    _data = data


def _train_in_worker(sweep: Sweep, cell: Cell) -> Row:
    with plugins.plugin_errors():
        return _attempt(train_cell, sweep, cell, _data)


def train_cell(sweep: Sweep, cell: Cell, arrays: ArrayData) -> Row:
    """Train one cell in memory; its settings, results, history and watched labels."""
    began = time.perf_counter()
    trainer = trainer_of(sweep, cell, arrays)
    data, inputs = trainer.data, trainer.inputs
    if sweep.watch_labels:
        trainer.callbacks.append(_WatchLabels())
    result = trainer.fit()
    soft, test, measured = trainer.pseudo_labels(), inputs.source("test", trainer.mode), Row()
    if test is not None and arrays.test is not None:
        truth, thresholds = arrays.test.values, None
        scores = trainer.predict(result.best_model, test)
        last_scores = trainer.predict(trainer.last_model, test)
        if data.validation is not None:
            held_out = trainer.predict(result.best_model, inputs.held_out(trainer.mode))
            thresholds = choose_thresholds(
                "f1", (held_out, data.validation.values), held_out, trainer.k
            )
        measured = {
            "test_map": ranked_map(scores, truth),
            "last_test_map": ranked_map(last_scores, truth),
            **_measured(scores, truth, thresholds),
        }
    return {
        **asdict(cell),
        "best_epoch": result.best_epoch,
        "validation_map": result.best_map,
        "last_test_map": None,
        "test_map": None,
        "pseudo_label_map": (
            None if soft is None else ranked_map(soft, data.table.values[data.training])
        ),
        "unresolved": result.history[-1]["unresolved"],
        "expected_positives": trainer.k,
        "seconds": round(time.perf_counter() - began, 3),
        **measured,
        **_histories(result.history),
    }


def trainer_of(sweep: Sweep, cell: Cell, arrays: ArrayData) -> Trainer:
    """The trainer of a cell."""
    config = sweep.config_of(cell, arrays.keys)
    data = observe_data(config, arrays.train)
    if arrays.test is not None:
        data = replace(data, test=ListedImages(arrays.test, []))
    tensors = (arrays.train_inputs, arrays.test_inputs)
    inputs = TensorDataModule(data, *tensors, arrays.build_backbone(config))
    # an estimate must not see the full labels of the held-out images
    k = expected_positives.find(config, replace(data, validation=None), inputs)
    return Trainer(config, data, inputs, k=k)


def _measured(scores: Scores, truth: LabelMatrix, thresholds: Thresholds | None) -> Row:
    """CF1 and OF1 on the test images at thresholds chosen on validation, and bootstrap samples."""
    row: Row = {"cf1": None, "of1": None, "test_samples": bootstrap_map(scores, truth)}
    if thresholds is not None:
        decided = thresholds.decide(thresholds.calibrate(scores))
        row["cf1"], row["of1"] = f1_scores(decided, truth)
    return row


class _WatchLabels(Callback):
    """Compares pseudo-labels with the hidden truth after each epoch."""

    def on_epoch_end(self, trainer: Trainer) -> None:
        watch(trainer)


def watch(trainer: Trainer, most: int | None = None) -> None:
    """Add how pseudo-labels and predictions of training images compare with the hidden truth to
    the history of the run, which a resumed run keeps."""
    soft, data = trainer.pseudo_labels(), trainer.data
    if soft is None:
        return
    rows = np.random.default_rng([trainer.config.seed, 0x6C62]).permutation(len(data.training))
    rows = np.sort(rows[:most])
    cast(Row, trainer.state.history[-1])["watched"] = watch_labels(
        soft[rows],
        predict_all(trainer.evaluated, Subset(trainer.source, rows)),
        data.table.values[data.training[rows]],
        data.visible.values[rows],
    )


def _histories(history: Sequence[Mapping[str, Any]]) -> Row:
    """The history of a run, and apart from it what was watched."""
    watched = [record.get("watched") for record in history]
    plain = [{key: record[key] for key in record if key != "watched"} for record in history]
    return {"history": plain, "movement": watched if any(watched) else []}


def _train_photos(
    sweep: Sweep, cell: Cell, data: PhotoData, folder: Path, work: Work | None
) -> Row:
    """Train one cell on image files, in a folder of its own."""
    output = folder / "runs" / str(cell).replace(":", "_")
    config = sweep.config_of(cell, data.keys, str(output))

    def on_epoch(trainer: Trainer) -> None:
        record = trainer.state.history[-1]
        if work is not None:
            work.say(f"{cell}: epoch {record['epoch']}: {describe(record)}")
        if sweep.watch_labels:
            watch(trainer, _MOST_WATCHED)

    resume, quiet = is_begun(output), Console(quiet=True)
    run = train(config, resume=resume, console=quiet, on_epoch=on_epoch, advice=AGAIN)
    held_out = run.held_out.get("test")
    return {
        **run.result,
        **asdict(cell),
        "expected_positives": run.expected_positives,
        **({} if held_out is None else _measured(held_out.scores, held_out.truth, run.thresholds)),
        **_histories(run.history),
    }
