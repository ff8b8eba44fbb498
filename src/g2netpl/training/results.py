"""What a training leaves behind: the chosen network, the completed labels, the metrics."""

from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from g2netpl.base.arrays import WHOLE, Blocks, Scores, room, row_blocks, write_npy, write_npz
from g2netpl.base.disk import write_json, written_whole
from g2netpl.game.network.predicting import predict_all
from g2netpl.images.loader import Source
from g2netpl.labels.settings import IndexArray
from g2netpl.labels.table import UNOBSERVED, LabelMatrix
from g2netpl.runs.metrics import can_rank, evaluate, ranked_map
from g2netpl.runs.scores import Judged, write_scores
from g2netpl.runs.thresholds import Decisions, choose
from g2netpl.training.checkpoints import save_state
from g2netpl.training.data import TrainingData
from g2netpl.training.session import Session
from g2netpl.training.snapshots import Record, Snapshot, load_network


def finish(session: Session, snapshot: Snapshot) -> Record:
    """Write the network, the labels, the decisions and the metrics; returns the figures.

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
        return {"test_map": None}
    network.eval()
    save_state(folder / "model.safetensors", {n: v.cpu() for n, v in network.state_dict().items()})
    soft = _soft_labels(session, folder)
    _write_labels(folder, CompletedLabels(data, predicted, soft))
    write_scores(folder, predicted, _judged(data, best))
    held = parts.get("validation")
    validation = None if held is None else (best["validation"], held[1])
    decisions = choose(config.thresholds, validation, predicted[_enough(data)], session.k)
    write_json(folder / "decisions.json", decisions.to_json())
    metrics = {part: _metrics(decisions, best[part], truth) for part, (_, truth) in parts.items()}
    write_json(folder / "evaluation.json", {"classes": list(data.table.classes), **metrics})
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
    }


def _metrics(decisions: Decisions, scores: Scores, truth: LabelMatrix) -> Record:
    """All metrics, null where they cannot be had."""
    metrics = asdict(evaluate(decisions.calibrate(scores), truth, decisions.limits))
    if not can_rank(truth):
        metrics |= dict.fromkeys(("mean_average_precision", "mean_over_present"))
    per_class = metrics["average_precision"]
    metrics["average_precision"] = [None if value != value else value for value in per_class]
    return metrics


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


def _judged(data: TrainingData, scores: dict[str, Scores]) -> dict[str, Judged]:
    """The scores of each part beside the labels of its images."""
    tables = {
        "validation": data.validation,
        "test": None if data.test is None else data.test.table,
    }
    return {
        part: Judged(table, scores[part])
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


def _write_labels(folder: Path, labels: CompletedLabels) -> None:
    shape, predicted = labels.data.table.held.shape, labels.predicted
    for name, table in (
        ("soft_labels.npy", Blocks(shape, np.float32, labels.of)),
        ("predictions.npy", Blocks(shape, np.float16, lambda rows: predicted[rows])),
    ):
        with written_whole(folder / name) as file:
            write_npy(file, table)
    with written_whole(folder / "labels.npz") as file:
        write_npz(
            file,
            images=np.array(labels.data.table.images),
            observed=Blocks(shape, np.int8, labels.known),
            soft=labels.has_soft,
        )
