"""Trains the cells of a sweep.

Cells of features or scenes are trained in memory, several at a time, by one thread each, so that
results do not depend on the number of processes. A cell of image files is a run folder, trained as
by `g2netpl train`: an interrupted one resumes. Test images are scored after the run is over.
"""

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from g2netpl.core import plugins
from g2netpl.core.inference import predict_all
from g2netpl.core.models import Backbone
from g2netpl.experiments.data import ArrayData, Data, PhotoData, load_array_data
from g2netpl.experiments.label_quality import watch_labels
from g2netpl.experiments.statistics import bootstrap_map, f1_scores
from g2netpl.experiments.sweep import Cell, Row, Sweep, diverged_row
from g2netpl.images.loader import Subset
from g2netpl.labels.table import LabelMatrix
from g2netpl.runs.metrics import ranked_map
from g2netpl.runs.records import is_begun
from g2netpl.runs.thresholds import Thresholds, choose
from g2netpl.training import expected_positives
from g2netpl.training.datamodule import TensorDataModule, backbone_of
from g2netpl.training.progress import describe
from g2netpl.training.splits import ListedImages, observe_data
from g2netpl.training.train import train
from g2netpl.training.trainer import Callback, NumericalStop, Trainer
from g2netpl.utils.arrays import Scores
from g2netpl.utils.console import Console
from g2netpl.utils.progress import Work
from g2netpl.utils.signals import AGAIN, leave_terminal_to_parent

_MOST_WATCHED = 2000  # images of a run folder


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
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            for cell in cells:
                yield _attempt(train_cell, sweep, cell, data)
        finally:
            torch.set_num_threads(threads)
    else:
        start = (_start_worker, (list(plugins.LOADED), sweep.features))
        with get_context("spawn").Pool(min(jobs, 61), *start) as pool:  # Windows allows 61
            yield from pool.imap(partial(_train_in_worker, sweep), cells)


def _attempt(how: Any, sweep: Sweep, cell: Cell, *more: Any) -> Row:
    try:
        row: Row = how(sweep, cell, *more)
    except NumericalStop as stop:
        return diverged_row(cell, str(stop))
    return row


_data: ArrayData  # of a worker process


def _start_worker(own_methods: list[str], features: str | None) -> None:
    global _data
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # by which the main process ends this one
    leave_terminal_to_parent()
    plugins.load_plugins(own_methods)
    torch.set_num_threads(1)
    _data = load_array_data(features)


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
    soft, test, measured = trainer.pseudo_labels(), inputs.test(trainer.mode), Row()
    last_map = best_map = None
    if test is not None and arrays.test is not None:
        last_map = ranked_map(trainer.predict(trainer.last_model, test), arrays.test.values)
        scores = trainer.predict(result.best_model, test)
        best_map = ranked_map(scores, arrays.test.values)
        thresholds = None
        if data.validation is not None:
            held_out = trainer.predict(result.best_model, inputs.held_out(trainer.mode))
            thresholds = choose("f1", (held_out, data.validation.values), held_out, trainer.k)
        measured = _measured(scores, arrays.test.values, thresholds)
    return {
        **asdict(cell),
        "best_epoch": result.best_epoch,
        "validation_map": result.best_map,
        "last_test_map": last_map,
        "test_map": best_map,
        "pseudo_label_map": (
            None if soft is None else ranked_map(soft, data.table.values[data.training])
        ),
        "undecided": result.history[-1]["undecided"],
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
    backbone = (
        Backbone(nn.Identity(), arrays.train_inputs.shape[1], classifier=arrays.classifier)
        if arrays.is_features
        else backbone_of(config)
    )
    inputs = TensorDataModule(data, arrays.train_inputs, arrays.test_inputs, backbone)
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
    record = watch_labels(
        soft[rows],
        predict_all(trainer.evaluated, Subset(trainer.source, rows)),
        data.table.values[data.training[rows]],
        data.visible.values[rows],
    )
    cast(Row, trainer.state.history[-1])["watched"] = record


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

    quiet = Console(quiet=True)
    resume = is_begun(output)
    run = train(config, resume=resume, console=quiet, on_epoch=on_epoch, advice=AGAIN)
    held_out = run.held_out.get("test")
    return {
        **run.result,
        **asdict(cell),
        "expected_positives": run.expected_positives,
        **({} if held_out is None else _measured(held_out.scores, held_out.truth, run.thresholds)),
        **_histories(run.history),
    }
