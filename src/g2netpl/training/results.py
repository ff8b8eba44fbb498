"""What a training leaves behind: the chosen network, the completed labels, the metrics."""

import time
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from g2netpl.base.arrays import WHOLE, Blocks, Scores, room, row_blocks
from g2netpl.base.disk import write_json
from g2netpl.game.network.predicting import predict_all
from g2netpl.images.loader import Source
from g2netpl.labels.settings import IndexArray
from g2netpl.labels.table import UNOBSERVED, LabelMatrix
from g2netpl.runs.folder import EVALUATION, MODEL, THRESHOLDS
from g2netpl.runs.metrics import can_rank, evaluate, ranked_map
from g2netpl.runs.records import Metrics, Result
from g2netpl.runs.tables import HeldOut, write_held_out, write_saved_labels
from g2netpl.runs.thresholds import Thresholds, choose
from g2netpl.training.checkpoints import save_state
from g2netpl.training.data import TrainingData
from g2netpl.training.session import Session
from g2netpl.training.snapshots import Snapshot, load_network


def finish(session: Session, snapshot: Snapshot, began: float) -> Result | None:
    """Write the network, the labels, the thresholds and the metrics; returns the figures.

    The ranks predict together, and the first one writes.
    """
    config, data, network = session.config, session.data, session.network
    folder, linear = Path(config.output), session.is_linear
    parts = _parts(session)
    last = {name: session.predict(snapshot.network, source) for name, (source, _) in parts.items()}
    best = {
        name: session.predict(snapshot.best_network, source) for name, (source, _) in parts.items()
    }
    load_network(session.learner, snapshot.best_network)
    every = session.inputs.all(linear)
    predicted = predict_all(
        session.learner, every, processes=session.processes, make=partial(room, folder)
    )
    if not session.processes.is_main:
        return None
    network.eval()
    save_state(folder / MODEL, {n: v.cpu() for n, v in network.state_dict().items()})
    soft = _soft_labels(session, folder)
    labels, shape = CompletedLabels(data, predicted, soft), predicted.shape
    write_saved_labels(
        folder,
        data.table.images,
        Blocks(shape, np.int8, labels.known),
        labels.has_soft,
        Blocks(shape, np.float32, labels.of),
        predicted,
    )
    write_held_out(folder, _held_out(data, best))
    held = parts.get("validation")
    validation = None if held is None else (best["validation"], held[1])
    thresholds = choose(config.thresholds, validation, predicted[_enough(data)], session.k)
    write_json(folder / THRESHOLDS, thresholds.to_json())
    metrics = {part: _metrics(thresholds, best[part], truth) for part, (_, truth) in parts.items()}
    write_json(folder / EVALUATION, {"classes": list(data.table.classes), **metrics})
    test = None if data.test is None else data.test.table.values
    return {
        "method": config.method,
        "setting": config.setting,
        "seed": config.seed,
        "learning_rate": config.rate("linear" if linear else "end-to-end"),
        "batch_size": config.batch_size,
        "weight": "",
        "best_epoch": snapshot.best_epoch,
        "validation_map": snapshot.best_map,
        "test_map": None if test is None else ranked_map(best["test"], test),
        "last_test_map": None if test is None else ranked_map(last["test"], test),
        "pseudo_label_map": None
        if soft is None or not data.hides_truth
        else ranked_map(soft, data.table.dense(data.training)),
        "undecided": snapshot.history[-1]["undecided"],
        "seconds": round(time.perf_counter() - began, 3),
    }


def _metrics(thresholds: Thresholds, scores: Scores, truth: LabelMatrix) -> Metrics:
    """All metrics, null where they cannot be had."""
    found, ranked = (
        evaluate(thresholds.calibrate(scores), truth, thresholds.limits),
        can_rank(truth),
    )
    return {
        "mean_average_precision": found.mean_average_precision if ranked else None,
        "mean_over_present": found.mean_over_present if ranked else None,
        "average_precision": [None if each != each else each for each in found.average_precision],
        "precision": found.precision,
        "recall": found.recall,
        "f1": found.f1,
        "known_entries": found.known_entries,
    }


def _parts(session: Session) -> dict[str, tuple[Source, LabelMatrix]]:
    """Images whose labels the training has not seen, with what is known about them."""
    parts: dict[str, tuple[Source, LabelMatrix]] = {}
    inputs, data, linear = session.inputs, session.data, session.is_linear
    validation, test = inputs.validation(linear), inputs.test(linear)
    if validation is not None:
        parts["validation"] = (validation.source, validation.truth)
    if test is not None and data.test is not None:
        parts["test"] = (test, data.test.table.values)
    return parts


def _held_out(data: TrainingData, scores: dict[str, Scores]) -> dict[str, HeldOut]:
    """The scores of each part beside the labels of its images."""
    tables = {
        "validation": data.validation,
        "test": None if data.test is None else data.test.table,
    }
    return {
        part: HeldOut(table, scores[part])
        for part, table in tables.items()
        if table is not None and part in scores
    }


def _soft_labels(session: Session, folder: Path) -> Scores | None:
    """The soft labels of all training images, if there are any."""
    labels, shape = session.player.labels_now(), session.observed.shape
    if labels is None:
        return None
    soft = room(folder, shape)
    for rows in row_blocks(*shape):
        soft[rows] = labels(torch.from_numpy(rows).to(session.device)).float().cpu().numpy()
    return soft


def _enough(data: TrainingData) -> IndexArray:
    """Training images by whose scores k can be met: all, or some of very many."""
    rows, classes = data.training, len(data.table.classes)
    if len(rows) * classes <= WHOLE:
        return rows
    return rows[:: -(-len(rows) * classes // (WHOLE // 2))]


class CompletedLabels:
    """Every label of the table: observed as observed, soft labels where there are, else ŷ."""

    def __init__(self, data: TrainingData, predicted: Scores, soft: Scores | None) -> None:
        self.data, self.predicted, self.soft = data, predicted, soft
        self.trained = np.full(len(data.table), -1)  # which of the training images it is
        self.trained[data.training] = np.arange(len(data.training))

    @property
    def has_soft(self) -> npt.NDArray[np.bool_]:
        """Which images have soft labels, (N,)."""
        return (self.trained >= 0) & (self.soft is not None)

    def known(self, rows: IndexArray) -> LabelMatrix:
        """What the training may know about some images."""
        labels, here = self.data.table.dense(rows), self.trained[rows] >= 0
        labels[here] = self.data.visible.dense(self.trained[rows[here]])
        return labels

    def of(self, rows: IndexArray) -> Scores:
        """The labels of some images."""
        labels = self.predicted[rows].astype(np.float32)
        if self.soft is not None:
            here = (self.trained[rows] >= 0) & ~np.isnan(labels).any(axis=1)
            labels[here] = self.soft[self.trained[rows[here]]]
        observed = self.known(rows)
        return np.where(observed == UNOBSERVED, labels, observed).astype(np.float32)
