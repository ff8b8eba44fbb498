"""The figures of the paper, from the runs of a reproduction."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd
import torch

from g2netpl.core.equations import GaussianMap, confidence_weight
from g2netpl.core.methods.g2netpl import G2NetPLOptions
from g2netpl.experiments.sweep import Row
from g2netpl.reports.plots import Curve, Plot, over_epochs, plot_lines, plot_watched, watched

_POINTS = "test mAP × 100"
_QUALITY = {"pseudo_label_map": "pseudo-labels", "predicted_map": "predictions"}


def paper_figures(recipe: str, rows: Sequence[Row], table: pd.DataFrame) -> list[Plot]:
    """The figures of a recipe; the tables of the paper have none."""
    if recipe == "parameters":
        return plot_parameters(G2NetPLOptions())
    if recipe == "convergence":
        return [
            plot_watched(rows[0], "Pseudo-labels by hidden truth"),
            plot_watched(rows[0], "Predictions by hidden truth", "predicted_"),
        ]
    if recipe == "labels":
        return plot_quality(rows)
    return plot_fractions(table) if recipe == "semi-supervised" else []


def plot_quality(rows: Sequence[Row]) -> list[Plot]:
    """mAP of pseudo-labels and predictions on hidden labels, mean over seeds."""
    curves = []
    for method in dict.fromkeys(row["method"] for row in rows):
        runs = [watched(row) for row in rows if row["method"] == method]
        histories = [[{**record, "epoch": epoch} for epoch, record in run] for run in runs]
        for key, what in _QUALITY.items():
            curves.append(over_epochs(f"{method}, {what}", histories, key, 100))
    return [plot_lines("mAP on hidden labels of training images", curves, "mAP × 100")]


def plot_fractions(table: pd.DataFrame) -> list[Plot]:
    """mAP over the labelled fraction of the images, next to the published results."""
    curves = []
    for name, points in table.groupby("row", sort=False):
        x = 100 * points["setting"].str.partition(":")[2].astype(float)
        mean, deviation = points["best epoch"], points["± best"].fillna(0)
        curves.append(Curve(name, *map(list, (x, mean, mean - deviation, mean + deviation))))
        if points["published"].notna().all():
            curves.append(Curve(f"{name}, published", list(x), list(points["published"])))
    return [plot_lines("Over the labelled fraction", curves, _POINTS, x="labelled images, %")]


def plot_parameters(options: G2NetPLOptions) -> list[Plot]:
    """The density of F for some σ, and the scheduler ξ for some φ."""
    latent = torch.linspace(-2, 3, 101, dtype=torch.float64)
    pseudo = torch.linspace(0, 1, 101, dtype=torch.float64)

    def density(sigma: float) -> Any:
        soft, slope = GaussianMap(sigma).soft_and_slope(latent)
        return slope * soft * (1 - soft)

    weight = partial(confidence_weight, pseudo, beta=options.beta, gamma=options.gamma)
    densities = [Curve(f"σ = {at:g}", latent.tolist(), density(at).tolist()) for at in (0.5, 1, 2)]
    weights = [Curve(f"φ = {at:g}", pseudo.tolist(), weight(at).tolist()) for at in (0, 0.5, 1)]
    return [
        plot_lines("Density of F", densities, "density", x="latent y"),
        plot_lines("Scheduler ξ", weights, "weight ξ", x="pseudo-label û", limits=(0, 1.05)),
    ]
