"""The pictures of an experiment: each a PNG, with the numbers behind it as CSV of the same name."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from g2netpl.base.disk import text_written_whole
from g2netpl.experiments.cells import Row
from g2netpl.game.equations import GaussianMap, confidence_weight
from g2netpl.labels.formats.text import CsvWriter

Lines = list[list[Any]]

COLOURS = ("#1f6fb2", "#c8553d", "#5b8e5a", "#d99a2b", "#7b5ea7", "#7a7a7a", "#2b9aa0", "#a0522d")
_SIGMAS = (0.5, 1.0, 2.0)
_PHASES = (0.0, 0.5, 1.0)


def write_csv(path: Path, header: Sequence[str], lines: Lines) -> None:
    """Numbers as text, one row per line."""
    with text_written_whole(path) as file:
        writer = CsvWriter(file)
        for line in (header, *lines):
            writer.write(line)


def _figure(width: float = 9.0, height: float = 3.6) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=150, metadata={"Software": None})


def _plain(panel: Any, **labels: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    panel.set(**labels)
    if labels.get("xlabel") == "epoch":
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)


def _colour(name: str, number: int) -> str:
    """The first colour is the game's."""
    return COLOURS[0] if name == "g2netpl" else COLOURS[1 + number % (len(COLOURS) - 1)]


def draw_rows(path: Path, lines: Lines) -> None:
    """A point with its deviation for every row of a table; what was published as a cross.

    `lines`: name, setting, mean, deviation, published (or "").
    """
    settings = list(dict.fromkeys(line[1] for line in lines))
    names = list(dict.fromkeys(line[0] for line in lines))
    figure = _figure(9.0, 1.2 + 0.34 * len(names) * (1 + 0.25 * (len(settings) - 1)))
    panel = figure.subplots()
    for number, setting in enumerate(settings):
        own = [line for line in lines if line[1] == setting]
        places = [
            names.index(line[0]) + 0.7 * ((number + 0.5) / len(settings) - 0.5) for line in own
        ]
        means, spans = ([float(line[column]) for line in own] for column in (2, 3))
        colour = COLOURS[number % len(COLOURS)]
        panel.errorbar(means, places, xerr=spans, fmt="o", color=colour, label=setting, capsize=3)
        seen = [(float(line[4]), place) for line, place in zip(own, places, strict=True) if line[4]]
        if seen:
            panel.scatter(*zip(*seen, strict=True), marker="x", color=colour, alpha=0.6)
    panel.set_yticks(range(len(names)), names)
    panel.invert_yaxis()
    crosses = ", published as crosses" if any(line[4] for line in lines) else ""
    _plain(panel, xlabel=f"test mAP × 100{crosses}")
    panel.legend(frameon=False, fontsize=8, loc="best")
    _save(figure, path)


def draw_shares(path: Path, lines: Lines) -> None:
    """mAP over the labelled share of the images; what was published dashed.

    `lines`: name, share, mean, deviation, published (or "").
    """
    figure = _figure(7.0, 4.2)
    panel = figure.subplots()
    for number, name in enumerate(dict.fromkeys(line[0] for line in lines)):
        own = [line for line in lines if line[0] == name]
        shares = [100 * float(line[1]) for line in own]
        means, spans = ([float(line[column]) for line in own] for column in (2, 3))
        colour = _colour(name, number)
        width = 2.4 if name == "g2netpl" else 1.4
        panel.errorbar(
            shares, means, spans, fmt="o-", color=colour, label=name, capsize=3, lw=width
        )
        seen = [(100 * float(line[1]), float(line[4])) for line in own if line[4]]
        if seen:
            panel.plot(*zip(*seen, strict=True), "--", color=colour, alpha=0.5, lw=1)
    dashes = "\ndashed: published" if any(line[4] for line in lines) else ""
    _plain(panel, xlabel=f"labelled images, %{dashes}", ylabel="test mAP × 100")
    if lines:
        panel.legend(frameon=False, fontsize=8)
    _save(figure, path)


def _watched(row: Row) -> Iterator[tuple[Row, Row]]:
    """What was seen of the labels after an epoch, with its history; an epoch may lack the first."""
    pairs = zip(row["movement"], row["history"], strict=True)
    return ((record, epoch) for record, epoch in pairs if record is not None)


def convergence_lines(rows: Sequence[Row]) -> Lines:
    """seed, epoch, what, truth, the three quartiles."""
    lines: Lines = []
    for row in rows:
        for record, epoch in _watched(row):
            for truth in ("positive", "negative"):
                for what, key in (("soft label", truth), ("prediction", f"predicted_{truth}")):
                    bands = [round(value, 6) for value in record[key]]
                    lines.append([row["seed"], epoch["epoch"], what, truth, *bands])
    return lines


CONVERGENCE = ("seed", "epoch", "what", "hidden truth", "quartile 1", "median", "quartile 3")


def draw_convergence(path: Path, rows: Sequence[Row]) -> None:
    """û and ŷ of hidden positives and negatives over the epochs, and the way to equilibrium."""
    row = rows[0]
    lines = convergence_lines([row])
    figure = _figure(11.0, 3.6)
    panels = figure.subplots(1, 3)
    for panel, what in zip(panels, ("soft label", "prediction"), strict=False):
        for truth, colour in (("positive", COLOURS[0]), ("negative", COLOURS[1])):
            own = [line for line in lines if line[2] == what and line[3] == truth]
            epochs, low, middle, high = (
                np.array([line[column] for line in own]) for column in (1, 4, 5, 6)
            )
            panel.fill_between(epochs, low, high, color=colour, alpha=0.2, lw=0)
            panel.plot(epochs, middle, "o-", ms=3, color=colour, label=f"hidden {truth}s")
        _plain(panel, title=f"{what}s", xlabel="epoch", ylim=(-0.02, 1.02))
    panels[0].legend(frameon=False, fontsize=8)
    numbers = [record["epoch"] for record in row["history"]]
    for key, colour in (("undecided", "#444444"), ("movement", COLOURS[3]), ("regret", COLOURS[4])):
        panels[2].plot(numbers, [record[key] for record in row["history"]], label=key, color=colour)
    _plain(panels[2], title="towards equilibrium", xlabel="epoch")
    panels[2].legend(frameon=False, fontsize=8)
    _save(figure, path)


QUALITY = ("method", "seed", "epoch", "soft labels", "predictions")


def quality_lines(rows: Sequence[Row]) -> Lines:
    """mAP of soft labels and predictions on the hidden entries, after each epoch."""
    return [
        [
            row["method"],
            row["seed"],
            epoch["epoch"],
            _percent(record["pseudo_label_map"]),
            _percent(record["predicted_map"]),
        ]
        for row in rows
        for record, epoch in _watched(row)
    ]


def _percent(value: float | None) -> float | str:
    """Nothing where nothing hidden could be ranked."""
    return "" if value is None else round(100 * value, 3)


def draw_quality(path: Path, rows: Sequence[Row]) -> None:
    """Soft labels (solid) and predictions (dashed) against the hidden truth, mean over seeds."""
    figure = _figure(7.0, 4.0)
    panel = figure.subplots()
    lines = quality_lines(rows)
    for number, name in enumerate(dict.fromkeys(line[0] for line in lines)):
        own = [line for line in lines if line[0] == name]
        epochs = sorted({line[2] for line in own})
        for column, style, what in ((3, "o-", "soft labels"), (4, "--", "predictions")):
            means = [
                np.mean([float(line[column] or "nan") for line in own if line[2] == e])
                for e in epochs
            ]
            panel.plot(
                epochs, means, style, ms=3, color=_colour(name, number), label=f"{name}, {what}"
            )
    _plain(panel, xlabel="epoch", ylabel="mAP × 100 on hidden entries of training images")
    panel.legend(frameon=False, fontsize=8)
    _save(figure, path)


PARAMETERS = ("curve", "parameter", "x", "y")


def parameter_lines(beta: float, gamma: float) -> Lines:
    """F′ for several σ over the latent, and ξ for several φ over the soft label."""
    lines: Lines = []
    latent = torch.linspace(-2.0, 3.0, 101, dtype=torch.float64)
    for sigma in _SIGMAS:
        soft, slope = GaussianMap(sigma).soft_and_slope(latent)
        density = slope * soft * (1.0 - soft)
        pairs = zip(latent.tolist(), torch.as_tensor(density).tolist(), strict=True)
        lines += [["density", sigma, round(x, 4), round(y, 6)] for x, y in pairs]
    soft = torch.linspace(0.0, 1.0, 101, dtype=torch.float64)
    for phase in _PHASES:
        weight = confidence_weight(soft, phase, beta, gamma).tolist()
        pairs = zip(soft.tolist(), weight, strict=True)
        lines += [["scheduler", phase, round(x, 4), round(y, 6)] for x, y in pairs]
    return lines


def draw_parameters(path: Path, lines: Lines, title: str) -> None:
    """Densities on the left, the scheduler on the right."""
    figure = _figure(9.0, 3.6)
    panels = figure.subplots(1, 2)
    for panel, curve, symbol in zip(panels, ("density", "scheduler"), ("σ", "φ"), strict=True):
        own = [line for line in lines if line[0] == curve]
        for number, value in enumerate(dict.fromkeys(line[1] for line in own)):
            points = [(line[2], line[3]) for line in own if line[1] == value]
            name = f"{symbol} = {value:g}"
            panel.plot(*zip(*points, strict=True), color=COLOURS[number], label=name)
        panel.legend(frameon=False, fontsize=8)
    _plain(panels[0], title="density of F", xlabel="latent y")
    _plain(panels[1], title=title, xlabel="soft label û", ylim=(0, 1.05))
    _save(figure, path)


PLAN = ("labelled images", "what", "mAP x 100", "low", "high")


def draw_plan(path: Path, lines: Lines, today: int) -> None:
    """Measured points, and the curve with its band beyond them; `lines` as in PLAN."""
    figure = _figure(7.0, 4.2)
    panel = figure.subplots()
    for what, style in (("repeat", "."), ("measured", "o")):
        own = [line for line in lines if line[1] == what]
        colour = COLOURS[0] if what == "measured" else COLOURS[5]
        sizes, values = [line[0] for line in own], [line[2] for line in own]
        panel.plot(sizes, values, style, color=colour, alpha=0.9 if what == "measured" else 0.35)
    own = [line for line in lines if line[1] == "curve"]
    sizes, values, low, high = ([line[column] for line in own] for column in (0, 2, 3, 4))
    panel.fill_between(sizes, low, high, color=COLOURS[0], alpha=0.18, lw=0, label="90 % band")
    panel.plot(sizes, values, color=COLOURS[0], label="curve through the measured points")
    panel.axvline(today, color=COLOURS[1], ls="--", lw=1, label="labelled today")
    panel.set_xscale("log")
    ticks = [min(sizes), today, 2 * today, 4 * today]
    panel.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    panel.set_xticks([], minor=True)
    _plain(panel, xlabel="labelled images", ylabel="mAP × 100")
    panel.legend(frameon=False, fontsize=8, loc="lower right")
    _save(figure, path)
