"""What a training leaves behind: the chosen network, the completed labels, the metrics."""

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from torch import Tensor, nn

from g2netpl.checkpoints import save_state
from g2netpl.config import RunConfig
from g2netpl.data import Source
from g2netpl.decisions import Decisions, choose
from g2netpl.disk import write_json, written_whole
from g2netpl.evaluation import Scores, can_rank, evaluate, ranked_map
from g2netpl.game import LabelPlayer
from g2netpl.labels import UNOBSERVED, LabelMatrix
from g2netpl.material import Material
from g2netpl.network import Network
from g2netpl.predicting import predict_all
from g2netpl.score_file import Judged, write_scores
from g2netpl.snapshots import Record, Snapshot, load_network
from g2netpl.sources import Sources
from g2netpl.teams import ALONE, Team


def finish(
    config: RunConfig,
    material: Material,
    sources: Sources,
    network: Network,
    player: LabelPlayer,
    snapshot: Snapshot,
    k: float,
    team: Team = ALONE,
) -> Record:
    """Write the network, the labels, the decisions and the metrics; returns the figures.

    The ranks of a team predict together, and the first one writes.
    """
    folder = Path(config.output)
    linear = config.mode == "linear"
    judged: nn.Module = network.head() if linear else network
    judged_on = _parts(material, sources, linear)
    load_network(judged, snapshot.network)
    last = _scores(judged, judged_on, team)
    load_network(judged, snapshot.best_network)
    best = _scores(judged, judged_on, team)
    predicted = predict_all(judged, sources.all(linear), team=team)
    soft = player.soft_labels()
    if not team.leads:
        return {"test_map": None}
    network.eval()
    save_state(folder / "model.safetensors", {n: v.cpu() for n, v in network.state_dict().items()})
    _write_labels(folder, material, predicted, soft)
    write_scores(folder, predicted, _judged(material, best))
    judgement = judged_on.get("validation")
    validation = None if judgement is None else (best["validation"], judgement[1])
    decisions = choose(config.thresholds, validation, predicted[material.training], k)
    write_json(folder / "decisions.json", decisions.to_json())
    metrics = {
        part: _metrics(decisions, best[part], truth) for part, (_, truth) in judged_on.items()
    }
    write_json(folder / "evaluation.json", {"classes": list(material.table.classes), **metrics})
    test = None if material.test is None else material.test.table.values
    truth = material.table.take(material.training).values
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
        else ranked_map(soft.cpu().numpy(), truth),
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
    network: nn.Module, parts: dict[str, tuple[Source, LabelMatrix]], team: Team
) -> dict[str, Scores]:
    return {name: predict_all(network, source, team=team) for name, (source, _) in parts.items()}


def _write_labels(folder: Path, material: Material, predicted: Scores, soft: Tensor | None) -> None:
    """Every label of the file: observed as observed, soft labels where there are, else ŷ."""
    completed = predicted.astype(np.float32)
    if soft is not None:
        readable = ~np.isnan(predicted[material.training]).any(axis=1)
        completed[material.training[readable]] = soft.float().cpu().numpy()[readable]
    known = material.table.values.copy()
    known[material.training] = material.visible.values
    completed = np.where(known == UNOBSERVED, completed, known).astype(np.float32)
    for name, values in (
        ("soft_labels.npy", completed),
        ("predictions.npy", predicted.astype(np.float16)),
    ):
        with written_whole(folder / name) as file:
            # numpy alone knows how to say nothing about a full disk
            np.save(SimpleNamespace(write=file.write), values)
    has_soft = np.zeros(len(known), dtype=bool)
    has_soft[material.training] = soft is not None
    with written_whole(folder / "labels.npz") as file:
        np.savez_compressed(
            file, images=np.array(material.table.images), observed=known, soft=has_soft
        )
