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
from g2netpl.labels.table import UNOBSERVED, LabelMatrix, LabelTable
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
    folder = Path(session.config.output)
    parts = _parts(session)
    test = parts.get("test")
    last = None if test is None else _map(session.predict(snapshot.network, test[0]), test[1])
    best = {
        name: session.predict(snapshot.best_network, source) for name, (source, _) in parts.items()
    }
    load_network(session.learner, snapshot.best_network)
    every, make = session.inputs.all(session.is_linear), partial(room, folder)
    predicted = predict_all(session.learner, every, processes=session.processes, make=make)
    if not session.processes.is_main:
        return {"test_map": None}
    session.network.eval()
    state = session.network.state_dict()
    save_state(folder / "model.safetensors", {name: value.cpu() for name, value in state.items()})
    soft = _soft_labels(session, folder)
    _write_labels(folder, CompletedLabels(session.data, predicted, soft))
    tables = {name: table for name, (_, table) in parts.items()}
    write_scores(folder, predicted, {name: Judged(tables[name], best[name]) for name in tables})
    _write_decisions(session, tables, best, predicted)
    return {
        **_figures(session, snapshot),
        "test_map": None if test is None else _map(best["test"], test[1]),
        "last_test_map": last,
        "pseudo_label_map": _pseudo_label_map(session.data, soft),
        "undecided": snapshot.history[-1]["undecided"],
    }


def _figures(session: Session, snapshot: Snapshot) -> Record:
    """What was trained, and which epoch was chosen."""
    config = session.config
    return {
        "method": config.method,
        "setting": config.setting,
        "seed": config.seed,
        "learning_rate": config.rate("linear" if session.is_linear else "end-to-end"),
        "batch_size": config.batch_size,
        "weight": "",
        "best_epoch": snapshot.best_epoch,
        "validation_map": snapshot.best_map,
    }


def _pseudo_label_map(data: TrainingData, soft: Scores | None) -> float | None:
    """How well the soft labels rank what the setting hid."""
    if soft is None or not data.hides_truth:
        return None
    return ranked_map(soft, data.table.dense(data.training))


def _map(scores: Scores, table: LabelTable) -> float | None:
    return ranked_map(scores, table.values)


def _write_decisions(
    session: Session, tables: dict[str, LabelTable], best: dict[str, Scores], predicted: Scores
) -> None:
    """Thresholds, chosen on validation where there is one, and all metrics by them."""
    folder, data, held = Path(session.config.output), session.data, tables.get("validation")
    validation = None if held is None else (best["validation"], held.values)
    some = predicted[_enough(data)]
    decisions = choose(session.config.thresholds, validation, some, session.k)
    write_json(folder / "decisions.json", decisions.to_json())
    metrics = {name: _metrics(decisions, best[name], tables[name].values) for name in tables}
    write_json(folder / "evaluation.json", {"classes": list(data.table.classes), **metrics})


def _metrics(decisions: Decisions, scores: Scores, truth: LabelMatrix) -> Record:
    """All metrics, null where they cannot be had."""
    metrics = asdict(evaluate(decisions.calibrate(scores), truth, decisions.limits))
    if not can_rank(truth):
        metrics |= dict.fromkeys(("mean_average_precision", "mean_over_present"))
    per_class = metrics["average_precision"]
    metrics["average_precision"] = [None if value != value else value for value in per_class]
    return metrics


def _parts(session: Session) -> dict[str, tuple[Source, LabelTable]]:
    """Images whose labels the training has not seen, with what is known about them."""
    parts: dict[str, tuple[Source, LabelTable]] = {}
    inputs, data, linear = session.inputs, session.data, session.is_linear
    if data.validation is not None:
        parts["validation"] = (inputs.held_out(linear), data.validation)
    test = inputs.test(linear)
    if test is not None and data.test is not None:
        parts["test"] = (test, data.test.table)
    return parts


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
