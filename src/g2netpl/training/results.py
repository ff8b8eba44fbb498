"""What a training leaves behind: the chosen network, the completed labels, the metrics."""

import time
from pathlib import Path

import numpy as np

from g2netpl.base.arrays import Scores
from g2netpl.base.console import Console
from g2netpl.base.disk import write_json
from g2netpl.base.progress import Work
from g2netpl.game.network.predicting import predict_all
from g2netpl.images.loader import Source
from g2netpl.labels.observation import telling
from g2netpl.labels.table import UNOBSERVED, LabelMatrix, LabelTable
from g2netpl.runs.chances import thresholds_of_presence
from g2netpl.runs.folder import EVALUATION, MODEL, THRESHOLDS
from g2netpl.runs.metrics import can_rank, evaluate, ranked_map
from g2netpl.runs.records import Metrics, Result
from g2netpl.runs.tables import HeldOut, write_classes, write_held_out, write_saved_labels
from g2netpl.runs.thresholds import Thresholds, choose, choose_one
from g2netpl.training.checkpoints import save_state
from g2netpl.training.data import TrainingData
from g2netpl.training.session import Session
from g2netpl.training.settling import settle
from g2netpl.training.snapshots import Snapshot, load_network


def finish(session: Session, snapshot: Snapshot, began: float, console: Console) -> Result | None:
    """Write the network, the labels, the thresholds and the metrics; returns the figures.

    The ranks predict together, and the first one writes.
    """
    config, folder = session.config, Path(session.config.output)
    settle(session, snapshot)
    parts = _parts(session)
    test = parts.get("test")
    last = None if test is None else _map(session.predict(snapshot.network, test[0]), test[1])
    best = {
        name: session.predict(snapshot.best_network, source) for name, (source, _) in parts.items()
    }
    load_network(session.learner, snapshot.best_network)
    every = session.inputs.all(session.mode)
    with Work(console, "completing labels", len(every)) as work:
        predicted = predict_all(session.learner, every, None, work.advance, session.processes)
    if not session.processes.is_main:
        return None
    session.network.eval()
    state = session.network.state_dict()
    save_state(folder / MODEL, {name: value.cpu() for name, value in state.items()})
    labels = session.player.soft_labels()
    soft = None if labels is None else labels.float().cpu().numpy()
    _write_labels(folder, session.data, predicted, soft)
    tables = {name: table for name, (_, table) in parts.items()}
    held_out = {name: HeldOut(tables[name], best[name]) for name in tables}
    write_held_out(folder, held_out)
    _write_thresholds(session, held_out, predicted)
    return {
        "method": config.method,
        "setting": config.setting,
        "seed": config.seed,
        "learning_rate": session.rate(session.mode),
        "batch_size": config.batch_size,
        "weight": "",
        "best_epoch": snapshot.best_epoch,
        "validation_map": snapshot.best_map,
        "test_map": None if test is None else _map(best["test"], test[1]),
        "last_test_map": last,
        "pseudo_label_map": _pseudo_label_map(session.data, soft),
        "undecided": snapshot.history[-1]["undecided"],
        "seconds": round(time.perf_counter() - began, 3),
    }


def _pseudo_label_map(data: TrainingData, soft: Scores | None) -> float | None:
    """How well the soft labels rank what the setting hid."""
    if soft is None or not data.hides_truth:
        return None
    return ranked_map(soft, data.table.values[data.training])


def _map(scores: Scores, table: LabelTable) -> float | None:
    return ranked_map(scores, table.values)


def _write_thresholds(session: Session, held_out: dict[str, HeldOut], predicted: Scores) -> None:
    """Thresholds, chosen on validation where there is one, and all metrics by them."""
    folder, data = Path(session.config.output), session.data
    part = held_out.get("validation")
    held, validation = None, None
    if part is not None:
        held, validation = part.table, (part.scores, part.table.values)
        rows = telling(held.values, session.k, part.scores)
        held = held.take(rows) if len(rows) else held
    thresholds = thresholds_of(session, validation, predicted[data.training])
    write_json(folder / THRESHOLDS, thresholds.to_json())
    write_classes(folder, data.table.classes, thresholds, held)
    metrics = {name: _metrics(thresholds, each, session.k) for name, each in held_out.items()}
    write_json(folder / EVALUATION, {"classes": list(data.table.classes), **metrics})


def thresholds_of(
    session: Session, validation: tuple[Scores, LabelMatrix] | None, scores: Scores
) -> Thresholds:
    """Thresholds for what a session's network says, in `scores` of its training images."""
    if session.config.one_of:
        return choose_one(validation, scores.shape[1])
    rule, k = session.config.thresholds, session.k
    told = validation is not None and len(telling(validation[1], k, validation[0]))
    if session.network.draws and not told and rule != "expected":
        expected = float(np.nansum(scores, axis=1).mean()) if len(scores) else session.k
        return thresholds_of_presence(rule, scores.shape[1], k, expected)
    return choose(rule, validation, scores, session.k)


def _metrics(thresholds: Thresholds, part: HeldOut, k: float) -> Metrics:
    """All metrics, null where they cannot be had."""
    how, truth = (thresholds.limits, thresholds.one_of), part.table.values
    found = evaluate(thresholds.calibrate(part.scores), truth, *how)
    judged = part.judged(k)
    decided = None
    if judged is not None:
        decided = evaluate(thresholds.calibrate(judged.scores), judged.table.values, *how)
    ranked = can_rank(truth)
    metrics: Metrics = {
        "mean_average_precision": found.mean_average_precision if ranked else None,
        "mean_over_present": found.mean_over_present if ranked else None,
        "average_precision": [None if each != each else each for each in found.average_precision],
        "precision": None if decided is None else decided.precision,
        "recall": None if decided is None else decided.recall,
        "f1": None if decided is None else decided.f1,
    }
    if thresholds.one_of:
        metrics["accuracy"] = found.accuracy
    return metrics


def _parts(session: Session) -> dict[str, tuple[Source, LabelTable]]:
    """Images whose labels the training has not seen, with what is known about them."""
    parts: dict[str, tuple[Source, LabelTable]] = {}
    inputs, data, mode = session.inputs, session.data, session.mode
    if data.validation is not None:
        parts["validation"] = (inputs.held_out(mode), data.validation)
    test = inputs.test(mode)
    if test is not None and data.test is not None:
        parts["test"] = (test, data.test.table)
    return parts


def _write_labels(folder: Path, data: TrainingData, predicted: Scores, soft: Scores | None) -> None:
    has_soft = np.zeros(len(data.table), dtype=bool)
    has_soft[data.training] = soft is not None
    completed = completed_labels(data, predicted, soft)
    write_saved_labels(folder, data.table, _observed(data), has_soft, completed, predicted)


def completed_labels(data: TrainingData, predicted: Scores, soft: Scores | None) -> Scores:
    """Every label of the table: observed as observed, soft labels where there are, else ŷ."""
    observed, completed = _observed(data), predicted.copy()
    if soft is not None:
        read = ~np.isnan(predicted[data.training]).any(axis=1)
        completed[data.training[read]] = soft[read]
    return np.where(observed == UNOBSERVED, completed, observed).astype(np.float32)


def _observed(data: TrainingData) -> LabelMatrix:
    """What the training may know about every image."""
    observed = data.table.values.copy()
    observed[data.training] = data.visible.values
    return observed
