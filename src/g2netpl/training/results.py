"""What a training leaves behind: the chosen network, the completed labels, the metrics."""

from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from g2netpl.base.arrays import WHOLE, Blocks, Scores, room, row_blocks, write_npy, write_npz
from g2netpl.base.disk import write_json, written_whole
from g2netpl.base.processes import ALONE, Processes
from g2netpl.game.network.network import Network
from g2netpl.game.network.predicting import predict_all
from g2netpl.game.player import LabelPlayer
from g2netpl.images.loader import Source
from g2netpl.labels.settings import IndexArray
from g2netpl.labels.table import UNOBSERVED, LabelMatrix
from g2netpl.runs.config import RunConfig
from g2netpl.runs.metrics import can_rank, evaluate, ranked_map
from g2netpl.runs.scores import Judged, write_scores
from g2netpl.runs.thresholds import Decisions, choose
from g2netpl.training.checkpoints import save_state
from g2netpl.training.data import Material
from g2netpl.training.inputs import Sources
from g2netpl.training.snapshots import Record, Snapshot, load_network


def finish(
    config: RunConfig,
    material: Material,
    sources: Sources,
    network: Network,
    player: LabelPlayer,
    snapshot: Snapshot,
    k: float,
    processes: Processes = ALONE,
) -> Record:
    """Write the network, the labels, the decisions and the metrics; returns the figures.

    The ranks predict together, and the first one writes.
    """
    folder = Path(config.output)
    linear = config.mode == "linear"
    judged: nn.Module = network.head() if linear else network
    judged_on = _parts(material, sources, linear)
    load_network(judged, snapshot.network)
    last = _scores(judged, judged_on, processes)
    load_network(judged, snapshot.best_network)
    best = _scores(judged, judged_on, processes)
    predicted = predict_all(
        judged, sources.all(linear), processes=processes, make=partial(room, folder)
    )
    if not processes.is_main:
        return {"test_map": None}
    network.eval()
    save_state(folder / "model.safetensors", {n: v.cpu() for n, v in network.state_dict().items()})
    device = next(network.parameters()).device
    soft = _soft_labels(player, folder, material.visible.held.shape, device)
    _write_labels(folder, material, predicted, soft)
    write_scores(folder, predicted, _judged(material, best))
    judgement = judged_on.get("validation")
    validation = None if judgement is None else (best["validation"], judgement[1])
    decisions = choose(config.thresholds, validation, predicted[_enough(material)], k)
    write_json(folder / "decisions.json", decisions.to_json())
    metrics = {
        part: _metrics(decisions, best[part], truth) for part, (_, truth) in judged_on.items()
    }
    write_json(folder / "evaluation.json", {"classes": list(material.table.classes), **metrics})
    test = None if material.test is None else material.test.table.values
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
        if soft is None or not material.hides_truth
        else ranked_map(soft, material.table.dense(material.training)),
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


def _parts(
    material: Material, sources: Sources, linear: bool
) -> dict[str, tuple[Source, LabelMatrix]]:
    """Images whose labels the training has not seen, with what is known about them."""
    parts: dict[str, tuple[Source, LabelMatrix]] = {}
    validation, test = sources.validation(linear), sources.test(linear)
    if validation is not None:
        parts["validation"] = (validation.source, validation.truth)
    if test is not None and material.test is not None:
        parts["test"] = (test, material.test.table.values)
    return parts


def _judged(material: Material, scores: dict[str, Scores]) -> dict[str, Judged]:
    """The scores of each part beside the labels of its images."""
    tables = {
        "validation": material.validation,
        "test": None if material.test is None else material.test.table,
    }
    return {
        part: Judged(table, scores[part])
        for part, table in tables.items()
        if table is not None and part in scores
    }


def _scores(
    network: nn.Module, parts: dict[str, tuple[Source, LabelMatrix]], processes: Processes
) -> dict[str, Scores]:
    return {
        name: predict_all(network, source, processes=processes)
        for name, (source, _) in parts.items()
    }


def _soft_labels(
    player: LabelPlayer, folder: Path, shape: tuple[int, int], device: torch.device
) -> Scores | None:
    """The soft labels of all training images, if there are any."""
    labels = player.labels_now()
    if labels is None:
        return None
    soft = room(folder, shape)
    for rows in row_blocks(*shape):
        soft[rows] = labels(torch.from_numpy(rows).to(device)).float().cpu().numpy()
    return soft


def _enough(material: Material) -> IndexArray:
    """Training images by whose scores k can be met: all, or some of very many."""
    rows, classes = material.training, len(material.table.classes)
    if len(rows) * classes <= WHOLE:
        return rows
    return rows[:: -(-len(rows) * classes // (WHOLE // 2))]


def _write_labels(folder: Path, material: Material, predicted: Scores, soft: Scores | None) -> None:
    """Every label of the file: observed as observed, soft labels where there are, else ŷ."""
    trained = np.full(len(material.table), -1)  # which of the training images it is
    trained[material.training] = np.arange(len(material.training))
    shape = material.table.held.shape

    def known(rows: IndexArray) -> LabelMatrix:
        labels, here = material.table.dense(rows), trained[rows] >= 0
        labels[here] = material.visible.dense(trained[rows[here]])
        return labels

    def completed(rows: IndexArray) -> Scores:
        labels = predicted[rows].astype(np.float32)
        if soft is not None:
            here = (trained[rows] >= 0) & ~np.isnan(labels).any(axis=1)
            labels[here] = soft[trained[rows[here]]]
        observed = known(rows)
        return np.where(observed == UNOBSERVED, labels, observed).astype(np.float32)

    for name, table in (
        ("soft_labels.npy", Blocks(shape, np.float32, completed)),
        ("predictions.npy", Blocks(shape, np.float16, lambda rows: predicted[rows])),
    ):
        with written_whole(folder / name) as file:
            write_npy(file, table)
    with written_whole(folder / "labels.npz") as file:
        write_npz(
            file,
            images=np.array(material.table.images),
            observed=Blocks(shape, np.int8, known),
            soft=(trained >= 0) & (soft is not None),
        )
