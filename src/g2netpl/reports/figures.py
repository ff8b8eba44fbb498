"""The figures of an experiment: each a PNG, with the numbers behind it as CSV of the same name."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from g2netpl.core.equations import GaussianMap, confidence_weight
from g2netpl.experiments.cells import Row
from g2netpl.experiments.paper import SSPL
from g2netpl.game.players.soft_options import SoftOptions
from g2netpl.labels.formats.sheet import write_rows
from g2netpl.reports.charts import Chart, Series, write_png
from g2netpl.reports.run_charts import over_epochs, truth_chart, watched

Lines = list[list[Any]]
Figure = tuple[Sequence[str], Lines, list[Chart]]  # header and lines of the CSV, charts of the PNG

_SIGMAS = (0.5, 1.0, 2.0)
_PHASES = (0.0, 0.5, 1.0)
_POINTS = "test mAP × 100"


def write_figure(path: Path, figure: Figure) -> None:
    """Write the PNG, and the CSV beside it."""
    header, lines, charts = figure
    write_rows(path.with_suffix(".csv"), header, lines)
    write_png(path, charts)


def figure_of(recipe: str, rows: list[Row], table: Lines) -> Figure:
    """The figure of a recipe, of its trainings and the lines of its table."""
    if recipe == "parameters":
        return parameters()
    if recipe == "convergence":
        return convergence(rows)
    if recipe == "labels":
        return quality(rows)
    return shares(table) if recipe in ("table2", "semi-supervised") else table_rows(table)


def table_rows(table: Lines) -> Figure:
    """A point with its deviation for every row of a table; what was published as a cross."""
    lines = [[line[0], line[2], line[4], line[5] or 0, line[8]] for line in table]
    names = list(dict.fromkeys(line[0] for line in lines))
    settings = list(dict.fromkeys(line[1] for line in lines))
    series: list[Series] = []
    for number, setting in enumerate(settings):
        shift = 0.7 * ((number + 0.5) / len(settings) - 0.5)
        own = [(names.index(line[0]) + shift, *line[2:]) for line in lines if line[1] == setting]
        series += _with_published(setting, own, number, marker="x", joined=False)
    crosses = ", published as crosses" if any(line[4] for line in lines) else ""
    chart = Chart("", series, f"{_POINTS}{crosses}", "", names=names)
    return ("row", "setting", "mAP", "deviation", "published"), lines, [chart]


def shares(table: Lines) -> Figure:
    """mAP over the labelled share of the images; what was published dashed."""
    lines = [
        [line[1], line[2].partition(":")[2], line[4], line[5] or 0, line[8]]
        for line in table
        if line[2] in SSPL
    ]
    series: list[Series] = []
    for number, (method, name) in enumerate({line[1]: line[0] for line in table}.items()):
        own = [(100 * float(line[1]), *line[2:]) for line in lines if line[0] == method]
        series += _with_published(name, own, number, marker="none", dash=1)
    dashes = "\ndashed: published" if any(line[4] for line in lines) else ""
    chart = Chart("", series, f"labelled images, %{dashes}", _POINTS)
    return ("method", "share", "mAP", "deviation", "published"), lines, [chart]


def _with_published(
    name: str, lines: Sequence[tuple[Any, ...]], colour: int, *, joined: bool = True, **other: Any
) -> Iterator[Series]:
    """Points with deviations, and those that were published; lines: x, mean, deviation, those."""
    found = [(x, float(mean), float(deviation)) for x, mean, deviation, _ in lines]
    bars = [(x, mean - deviation, mean + deviation) for x, mean, deviation in found]
    points = [(x, mean) for x, mean, _ in found]
    yield Series(name, points, colour, 0, bars=bars, marker="o", joined=joined)
    published = [(line[0], float(line[3])) for line in lines if line[3]]
    yield Series("", published, colour, joined=joined, **other)


def convergence(rows: Sequence[Row]) -> Figure:
    """û and ŷ of hidden positives and negatives over the epochs, and the way to equilibrium."""
    first = rows[0]
    keys = ("undecided", "movement", "regret")
    way = [
        over_epochs(key, [first["history"]], key, place=place) for place, key in enumerate(keys, 2)
    ]
    charts = [
        truth_chart(first, "soft labels"),
        truth_chart(first, "predictions", "predicted_"),
        Chart("towards equilibrium", way, "epoch", ""),
    ]
    header = ("seed", "epoch", "what", "hidden truth", "quartile 1", "median", "quartile 3")
    return header, convergence_lines(rows), charts


def convergence_lines(rows: Sequence[Row]) -> Lines:
    """seed, epoch, what, truth, the three quartiles."""
    return [
        [row["seed"], epoch, what, truth, *(round(value, 6) for value in record[prefix + truth])]
        for row in rows
        for epoch, record in watched(row)
        for truth in ("positive", "negative")
        for what, prefix in (("soft label", ""), ("prediction", "predicted_"))
    ]


def quality(rows: Sequence[Row]) -> Figure:
    """Soft labels (solid) and predictions (dashed) against the hidden truth, mean over seeds."""
    series = []
    for colour, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
        own = [row for row in rows if row["method"] == method]
        seen = [[{**record, "epoch": epoch} for epoch, record in watched(row)] for row in own]
        for dash, (key, what) in enumerate(_QUALITY.items()):
            line = over_epochs(f"{method}, {what}", seen, key, 100)
            series.append(Series(line.name, line.points, colour, dash, line.band))
    chart = Chart("", series, "epoch", "mAP × 100 on hidden entries of training images")
    return ("method", "seed", "epoch", *_QUALITY.values()), quality_lines(rows), [chart]


_QUALITY = {"pseudo_label_map": "soft labels", "predicted_map": "predictions"}


def quality_lines(rows: Sequence[Row]) -> Lines:
    """mAP of soft labels and predictions on the hidden entries, after each epoch.

    Nothing where nothing hidden could be ranked.
    """
    return [
        [
            *(row["method"], row["seed"], epoch),
            *("" if record[key] is None else round(100 * record[key], 3) for key in _QUALITY),
        ]
        for row in rows
        for epoch, record in watched(row)
    ]


def parameters() -> Figure:
    """Densities on the left, the scheduler on the right."""
    usual = SoftOptions()
    lines = parameter_lines(usual.beta, usual.gamma)

    def curves(curve: str, symbol: str) -> list[Series]:
        values = dict.fromkeys(line[1] for line in lines if line[0] == curve)
        return [
            Series(
                f"{symbol} = {value:g}",
                [tuple(line[2:]) for line in lines if line[:2] == [curve, value]],
                place,
            )
            for place, value in enumerate(values)
        ]

    scheduler = f"scheduler ξ, β = {usual.beta:g}, γ = {usual.gamma:g}"
    charts = [
        Chart("density of F", curves("density", "σ"), "latent y", ""),
        Chart(scheduler, curves("scheduler", "φ"), "soft label û", "", limits=(0, 1.05)),
    ]
    return ("curve", "parameter", "x", "y"), lines, charts


def parameter_lines(beta: float, gamma: float) -> Lines:
    """F′ for several σ over the latent, and ξ for several φ over the soft label."""

    def density(latent: torch.Tensor, sigma: float) -> torch.Tensor:
        soft, slope = GaussianMap(sigma).soft_and_slope(latent)
        return torch.as_tensor(slope * soft * (1.0 - soft))

    def scheduler(soft: torch.Tensor, phase: float) -> torch.Tensor:
        return confidence_weight(soft, phase, beta, gamma)

    kinds: tuple[tuple[str, Callable[..., torch.Tensor], tuple[float, ...], float, float], ...] = (
        ("density", density, _SIGMAS, -2.0, 3.0),
        ("scheduler", scheduler, _PHASES, 0.0, 1.0),
    )
    return [
        [name, value, round(x, 4), round(y, 6)]
        for name, curve, values, first, last in kinds
        for value in values
        for places in [torch.linspace(first, last, 101, dtype=torch.float64)]
        for x, y in zip(places.tolist(), curve(places, value).tolist(), strict=True)
    ]
