"""What is measured: F1, bootstrap samples, differences between methods, pseudo-labels by truth."""

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from typing_extensions import TypedDict

from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelMatrix
from g2netpl.runs.metrics import can_rank, ranked_map
from g2netpl.utils.arrays import Scores

SAMPLES = 200


def f1_scores(decided: npt.NDArray[np.bool_], truth: LabelMatrix) -> tuple[float, float]:
    """CF1, from the means of precision and recall over classes, and OF1, over all labels."""
    positive, proposed = truth == POSITIVE, decided & (truth != UNOBSERVED)
    hits, proposals, positives = (
        mask.sum(axis=0) for mask in (positive & proposed, proposed, positive)
    )

    def f1(precision: float, recall: float) -> float:
        return float(2 * precision * recall / max(precision + recall, 1e-12))

    by_class = [np.mean(hits / np.maximum(count, 1)) for count in (proposals, positives)]
    overall = [hits.sum() / max(count.sum(), 1) for count in (proposals, positives)]
    return f1(*by_class), f1(*overall)


def bootstrap_map(scores: Scores, truth: LabelMatrix) -> list[float] | None:
    """mAP on bootstrap samples of the images; all methods get the same samples."""
    if not can_rank(truth):
        return None
    random, images = np.random.default_rng(0), len(truth)
    drawn = (random.integers(0, images, images) for _ in range(SAMPLES))
    counts = np.stack([np.bincount(rows, minlength=images) for rows in drawn]).astype(np.int32)
    total, ranked = np.zeros(SAMPLES), np.zeros(SAMPLES)
    for values, labels in zip(scores.T, truth.T, strict=True):
        known = np.flatnonzero((labels != UNOBSERVED) & ~np.isnan(values))
        order = known[np.argsort(-values[known])]
        # tied scores are one threshold: all read the precision at the last of them
        last = np.searchsorted(-values[order], -values[order], side="right") - 1
        weights = counts[:, order]
        positives = weights * (labels[order] == POSITIVE)
        above, hits = (each.cumsum(axis=1)[:, last] for each in (weights, positives))
        positive_count = positives.sum(axis=1)
        precisions = (positives * hits / np.maximum(above, 1)).sum(axis=1)
        total += precisions / np.maximum(positive_count, 1)
        ranked += positive_count < weights.sum(axis=1)  # a class without a negative is left out
    return [round(float(value), 6) for value in total / np.maximum(ranked, 1)]


def differences(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Differences in test mAP × 100 of ordered pairs of methods, with 95 % bootstrap
    intervals.

    Methods are paired by seed and by bootstrap sample of the test images. Each sample also draws
    seeds with replacement, so the interval covers both.
    """
    lines = []
    frame = pd.DataFrame([row for row in rows if row.get("test_samples")])
    for setting, part in frame.groupby("setting", sort=False) if len(frame) else ():
        runs = {method: of.set_index("seed") for method, of in part.groupby("method", sort=False)}
        for (first, a), (second, b) in permutations(runs.items(), 2):
            seeds = a.index.intersection(b.index)
            if seeds.empty:
                continue
            of_a, of_b = (np.stack(list(each.loc[seeds, "test_samples"])) for each in (a, b))
            drawn = np.random.default_rng(0).integers(0, len(seeds), (len(seeds), SAMPLES))
            means = np.take_along_axis(of_a - of_b, drawn, axis=0).mean(axis=0)
            gain = (a.loc[seeds, "test_map"] - b.loc[seeds, "test_map"]).mean()
            numbers = (100 * value for value in (gain, *np.quantile(means, (0.025, 0.975))))
            lines.append((setting, first, second, len(seeds), *numbers))
    columns = ("setting", "method", "minus", "seeds", "difference", "low", "high")
    return pd.DataFrame(lines, columns=columns).round(2)


class Movement(TypedDict):
    """Pseudo-labels and predictions of hidden labels after an epoch: quartiles and mAP."""

    positive: list[float]
    negative: list[float]
    predicted_positive: list[float]
    predicted_negative: list[float]
    pseudo_label_map: float | None
    predicted_map: float | None


def watch_labels(
    soft: Scores, predicted: Scores, known: LabelMatrix, visible: LabelMatrix
) -> Movement:
    """Compare pseudo-labels and predictions with the hidden truth, which methods never see."""
    hidden = np.where(visible == UNOBSERVED, known, UNOBSERVED).astype(np.int8)

    def quartiles(scores: Scores, value: int) -> list[float]:
        values = scores[hidden == value]
        return np.quantile(values, (0.25, 0.5, 0.75)).tolist() if len(values) else [0.0] * 3

    return {
        "positive": quartiles(soft, POSITIVE),
        "negative": quartiles(soft, NEGATIVE),
        "predicted_positive": quartiles(predicted, POSITIVE),
        "predicted_negative": quartiles(predicted, NEGATIVE),
        "pseudo_label_map": ranked_map(soft, hidden),
        "predicted_map": ranked_map(predicted, hidden),
    }
