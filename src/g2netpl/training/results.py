"""The results of a run: the best model, the completed labels, thresholds and metrics."""

import time
from pathlib import Path

import numpy as np
from safetensors.torch import save

from g2netpl.core.inference import predict_all
from g2netpl.images.loader import Source
from g2netpl.labels.missingness import informative_rows
from g2netpl.labels.table import POSITIVE, UNOBSERVED, LabelMatrix, LabelTable
from g2netpl.runs.metrics import can_rank, evaluate, ranked_map
from g2netpl.runs.records import EVALUATION, MODEL, THRESHOLDS, Metrics, Result
from g2netpl.runs.tables import HeldOut, write_classes, write_held_out, write_saved_labels
from g2netpl.runs.thresholds import Thresholds, choose, choose_sampled, choose_single_label
from g2netpl.training.calibration import calibrate
from g2netpl.training.splits import TrainingData
from g2netpl.training.trainer import Trainer, copy_state
from g2netpl.utils import distributed
from g2netpl.utils.arrays import Scores
from g2netpl.utils.console import Console
from g2netpl.utils.files import write_bytes, write_json
from g2netpl.utils.progress import Work


def write_results(trainer: Trainer, folder: Path, began: float, console: Console) -> Result | None:
    """Write model, labels, thresholds and metrics; returns the result, on rank 0 only."""
    config, state, data, mode = trainer.config, trainer.state, trainer.data, trainer.mode
    calibrate(trainer)
    splits: dict[str, tuple[Source, LabelTable]] = {}  # whose labels the run has not seen
    if data.validation is not None:
        splits["validation"] = trainer.inputs.held_out(mode), data.validation
    test, last = trainer.inputs.source("test", mode), None
    if test is not None and data.test is not None:
        splits["test"] = test, data.test.table
        last = ranked_map(trainer.predict(trainer.last_model, test), data.test.table.values)
    trainer.load_model(state.best_model)
    held_out = {
        name: HeldOut(table, predict_all(trainer.model, source))
        for name, (source, table) in splits.items()
    }
    every = trainer.inputs.all(mode)
    with Work(console, "completing labels", len(every)) as work:
        predicted = predict_all(trainer.model, every, None, work.advance)
    soft = trainer.pseudo_labels()
    if not distributed.is_main():
        return None
    write_bytes(folder / MODEL, save(copy_state(trainer.full_model.eval())))
    has_soft = np.zeros(len(data.table), dtype=bool)
    has_soft[data.training] = soft is not None
    completed = completed_labels(data, predicted, soft)
    write_saved_labels(folder, data.table, _observed(data), has_soft, completed, predicted)
    write_held_out(folder, held_out)
    _write_thresholds(trainer, folder, held_out, predicted)
    tested, pseudo_label_map = held_out.get("test"), None
    if soft is not None and data.hides_truth:
        pseudo_label_map = ranked_map(soft, data.table.values[data.training])
    return {
        "method": config.method,
        "setting": config.setting,
        "seed": config.seed,
        "learning_rate": config.lr(mode),
        "batch_size": config.batch_size,
        "weight": "",
        "best_epoch": state.best_epoch,
        "validation_map": state.best_map,
        "test_map": None if tested is None else ranked_map(tested.scores, tested.table.values),
        "last_test_map": last,
        "pseudo_label_map": pseudo_label_map,
        "unresolved": state.history[-1]["unresolved"],
        "seconds": round(time.perf_counter() - began, 3),
    }


def _write_thresholds(
    trainer: Trainer, folder: Path, held_out: dict[str, HeldOut], predicted: Scores
) -> None:
    """Thresholds, chosen on validation images if there are any, and all metrics by them."""
    data, part = trainer.data, held_out.get("validation")
    held, validation = None, None
    if part is not None:
        held, validation = part.table, (part.scores, part.table.values)
        rows = informative_rows(held.values, trainer.k, part.scores)
        held = held.take(rows) if len(rows) else held
    thresholds = thresholds_of(trainer, validation, predicted[data.training])
    write_json(folder / THRESHOLDS, thresholds.to_json())
    write_classes(folder, data.table.classes, thresholds, held)
    metrics = {name: _metrics(thresholds, each, trainer.k) for name, each in held_out.items()}
    write_json(folder / EVALUATION, {"classes": list(data.table.classes), **metrics})


def thresholds_of(
    trainer: Trainer, validation: tuple[Scores, LabelMatrix] | None, scores: Scores
) -> Thresholds:
    """Thresholds for a model, given its scores of the training images."""
    if trainer.config.single_label:
        return choose_single_label(validation, scores.shape[1])
    rule, k = trainer.config.thresholds, trainer.k
    is_informed = validation is not None and len(informative_rows(validation[1], k, validation[0]))
    if trainer.annotation == "sampled" and not is_informed and rule != "expected":
        expected = float(np.nansum(scores, axis=1).mean()) if len(scores) else trainer.k
        return choose_sampled(rule, scores.shape[1], k, expected)
    thresholds = choose(rule, validation, scores, trainer.k)
    if is_informed or (trainer.data.visible.values == POSITIVE).any():
        return thresholds
    basis = f"the prior only, and k = {k:.2f} expected positives per image"
    even = (0.5,) * scores.shape[1]
    return thresholds.replace(per_class=even, rule="probability ≥ 0.5", basis=basis)


def _metrics(thresholds: Thresholds, part: HeldOut, k: float) -> Metrics:
    """All metrics, null if undefined."""
    how, truth = (thresholds.limits, thresholds.single_label), part.table.values
    every = evaluate(thresholds.calibrate(part.scores), truth, *how)
    judged = part.judged(k)
    decided = None
    if judged is not None:
        decided = evaluate(thresholds.calibrate(judged.scores), judged.table.values, *how)
    ranked = can_rank(truth)
    metrics: Metrics = {
        "mean_average_precision": every.mean_average_precision if ranked else None,
        "mean_over_present": every.mean_over_present if ranked else None,
        "average_precision": [None if each != each else each for each in every.average_precision],
        "precision": None if decided is None else decided.precision,
        "recall": None if decided is None else decided.recall,
        "f1": None if decided is None else decided.f1,
    }
    if thresholds.single_label:
        metrics["accuracy"] = every.accuracy
    return metrics


def completed_labels(data: TrainingData, predicted: Scores, soft: Scores | None) -> Scores:
    """Every label of the table: the observed one, else the pseudo-label, else ŷ."""
    observed, completed = _observed(data), predicted.copy()
    if soft is not None:
        is_read = ~np.isnan(predicted[data.training]).any(axis=1)
        completed[data.training[is_read]] = soft[is_read]
    return np.where(observed == UNOBSERVED, completed, observed).astype(np.float32)


def _observed(data: TrainingData) -> LabelMatrix:
    """What the run may know about every image."""
    observed = data.table.values.copy()
    observed[data.training] = data.visible.values
    return observed
