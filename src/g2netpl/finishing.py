"""What a training leaves behind: the chosen network, the completed labels, the metrics."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from g2netpl.checkpoints import save_state, write_json
from g2netpl.config import RunConfig
from g2netpl.data import Source
from g2netpl.evaluation import Scores, can_rank, evaluate, predict_all, ranked_map
from g2netpl.fitting import Record, Snapshot, load_network
from g2netpl.game import LabelPlayer
from g2netpl.labels import UNOBSERVED, LabelMatrix
from g2netpl.material import Material
from g2netpl.network import Network
from g2netpl.sources import Sources


def finish(
    config: RunConfig,
    material: Material,
    sources: Sources,
    network: Network,
    player: LabelPlayer,
    snapshot: Snapshot,
) -> Record:
    """Write the chosen network, the completed labels and the metrics; returns the figures."""
    folder = Path(config.output)
    linear = config.mode == "linear"
    judged: nn.Module = network.classifier if linear else network
    judged_on = _parts(material, sources, linear)
    load_network(judged, snapshot.network)
    last = _scores(judged, judged_on)
    load_network(judged, snapshot.best_network)
    best = _scores(judged, judged_on)
    network.eval()
    save_state(folder / "model.safetensors", {n: v.cpu() for n, v in network.state_dict().items()})
    soft = player.soft_labels()
    completed = _complete(material, predict_all(judged, sources.all(linear)), soft)
    np.save(folder / "soft_labels.npy", completed)
    metrics = {part: _metrics(best[part], truth) for part, (_, truth) in judged_on.items()}
    write_json(folder / "evaluation.json", {"classes": list(material.table.classes), **metrics})
    test = None if material.test is None else material.test.values
    truth = material.table.take(material.training).values
    return {
        "method": config.method,
        "setting": config.setting,
        "seed": config.seed,
        "learning_rate": config.rate("linear" if linear else "end-to-end"),
        "batch_size": config.batch_size,
        "best_epoch": snapshot.best_epoch,
        "validation_map": snapshot.best_map,
        "test_map": None if test is None else ranked_map(best["test"], test),
        "last_test_map": None if test is None else ranked_map(last["test"], test),
        "pseudo_label_map": None
        if soft is None or not material.hides_truth
        else ranked_map(soft.cpu().numpy(), truth),
        "undecided": snapshot.history[-1]["undecided"],
    }


def _metrics(scores: Scores, truth: LabelMatrix) -> Record:
    """All metrics, null where they cannot be had."""
    metrics = asdict(evaluate(scores, truth))
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
        parts["test"] = (test, material.test.values)
    return parts


def _scores(network: nn.Module, parts: dict[str, tuple[Source, LabelMatrix]]) -> dict[str, Scores]:
    return {name: predict_all(network, source) for name, (source, _) in parts.items()}


def _complete(material: Material, predicted: Scores, soft: Tensor | None) -> Scores:
    """Every label of the file: observed as observed, soft labels where there are, else ŷ."""
    completed = predicted.astype(np.float32)
    if soft is not None:
        completed[material.training] = soft.float().cpu().numpy()
    known = material.table.values.copy()
    known[material.training] = material.visible.values
    return np.where(known == UNOBSERVED, completed, known).astype(np.float32)
