"""Figures of a reproduction: each a PNG, with the numbers behind it as CSV of the same name."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib import rc_context
from matplotlib.figure import Figure

from g2netpl.core.equations import GaussianMap, confidence_weight
from g2netpl.core.methods.g2netpl import G2NetPLOptions
from g2netpl.experiments.paper import SSPL
from g2netpl.experiments.sweep import Row
from g2netpl.labels.io.writing import write_rows
from g2netpl.reports.plots import COLOURS, STYLE, Curve, over_epochs, quartiles, set_epochs, watched

Lines = list[list[Any]]
Draw = Callable[[Any], None]  # into axes of matplotlib

_POINTS = "test mAP × 100"
_QUALITY = {"pseudo_label_map": "pseudo-labels", "predicted_map": "predictions"}


def write_figure(path: Path, recipe: str, rows: Sequence[Row], table: Lines) -> None:
    """The figure of a recipe, from its runs and the lines of its table, as PNG and CSV."""
    height = 0.0
    if recipe == "parameters":
        header: Sequence[str] = ("curve", "parameter", "x", "y")
        options = G2NetPLOptions()
        lines = parameter_lines(options.beta, options.gamma)
        draws = [draw_curves(lines, "density", "σ"), draw_curves(lines, "scheduler", "φ")]
    elif recipe == "convergence":
        header = ("seed", "epoch", "what", "hidden truth", "quartile 1", "median", "quartile 3")
        lines = convergence_lines(rows)
        draws = [draw_truth(rows[0], "pseudo-labels"), draw_truth(rows[0], "predictions"),
                 draw_convergence(rows[0])]  # fmt: skip
    elif recipe == "labels":
        header, lines = ("method", "seed", "epoch", *_QUALITY.values()), quality_lines(rows)
        draws = [draw_quality(rows)]
    elif recipe in ("table2", "semi-supervised"):
        header = ("method", "labelled fraction", "mAP", "deviation", "published")
        lines = [
            [line[1], line[2].partition(":")[2], line[4], line[5] or 0, line[8]]
            for line in table
            if line[2] in SSPL
        ]
        draws = [draw_fractions(lines, {line[1]: line[0] for line in table})]
    else:
        header = ("row", "setting", "mAP", "deviation", "published")
        lines = [[line[0], line[2], line[4], line[5] or 0, line[8]] for line in table]
        draws = [draw_rows(lines)]
        names, settings = ({line[at] for line in lines} for at in (0, 1))
        height = 1.2 + 0.085 * len(names) * (3 + len(settings))
    write_rows(path.with_suffix(".csv"), header, lines)
    write_png(path, draws, height)


def write_png(path: Path, draws: Sequence[Draw], height: float = 0) -> None:
    """Draw axes next to each other into a file; `height` in inches of one with rows."""
    size = (4.0 * len(draws), 3.6) if len(draws) > 1 else (7.0, 4.2)
    with rc_context(STYLE):
        figure = Figure(figsize=(9.0, height) if height else size, layout="constrained")
        for axes, draw in zip(figure.subplots(1, len(draws), squeeze=False)[0], draws, strict=True):
            draw(axes)
            if axes.get_legend_handles_labels()[1]:
                axes.legend()
        figure.savefig(path, dpi=150, facecolor="white", metadata={"Software": None})


def draw_rows(lines: Lines) -> Draw:
    """A point with its deviation for every row of a table; published results as crosses."""

    def draw(axes: Any) -> None:
        names = list(dict.fromkeys(line[0] for line in lines))
        settings = list(dict.fromkeys(line[1] for line in lines))
        for colour, setting in enumerate(settings):
            shift = 0.7 * ((colour + 0.5) / len(settings) - 0.5)
            shown = [line for line in lines if line[1] == setting]
            points = [(names.index(line[0]) + shift, *line[2:]) for line in shown]
            style = {"color": COLOURS[colour % len(COLOURS)], "ls": "none"}
            y, x, deviation = ([float(line[at]) for line in points] for at in range(3))
            axes.errorbar(x, y, xerr=deviation, marker="o", ms=5, label=setting, **style)
            published = [(float(line[3]), line[0]) for line in points if line[3]]
            axes.plot(*zip(*published, strict=True) if published else ((), ()), marker="x", **style)
        crosses = ", published results as crosses" if any(line[4] for line in lines) else ""
        axes.set(xlabel=_POINTS + crosses)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()

    return draw


def draw_fractions(lines: Lines, names: dict[str, str]) -> Draw:
    """mAP over the labelled fraction of the images; published results dashed."""

    def draw(axes: Any) -> None:
        for colour, (method, name) in enumerate(names.items()):
            points = [(100 * float(line[1]), *line[2:]) for line in lines if line[0] == method]
            style = {"color": COLOURS[colour % len(COLOURS)], "lw": 1.6}
            x, y, deviation = ([float(line[at]) for line in points] for at in range(3))
            axes.errorbar(x, y, yerr=deviation, marker="o", ms=3, label=name, **style)
            published = [(line[0], float(line[3])) for line in points if line[3]]
            axes.plot(*zip(*published, strict=True) if published else ((), ()), ls="--", **style)
        dashes = "\ndashed: published" if any(line[4] for line in lines) else ""
        axes.set(xlabel=f"labelled images, %{dashes}", ylabel=_POINTS)

    return draw


def draw_truth(row: Row, title: str) -> Draw:
    """Pseudo-labels or predictions of hidden positives and negatives over the epochs."""

    def draw(axes: Any) -> None:
        prefix = "predicted_" if title == "predictions" else ""
        for colour, truth in enumerate(("positive", "negative")):
            quartiles(row, prefix + truth, f"hidden {truth}s").draw(axes, colour)
        set_epochs(axes, title=title, ylabel="median and quartiles", ylim=(-0.02, 1.02))

    return draw


def draw_convergence(row: Row) -> Draw:
    """How the pseudo-labels approach the equilibrium."""
    names = {"undecided": "unresolved", "movement": "mean change", "regret": "possible gain"}

    def draw(axes: Any) -> None:
        for colour, (key, name) in enumerate(names.items(), 2):
            over_epochs(name, [row["history"]], key).draw(axes, colour)
        set_epochs(axes, title="towards the equilibrium")

    return draw


def draw_quality(rows: Sequence[Row]) -> Draw:
    """mAP of pseudo-labels (solid) and predictions (dashed) on hidden labels, mean over seeds."""

    def draw(axes: Any) -> None:
        for colour, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
            runs = [row for row in rows if row["method"] == method]
            seen = [[{**record, "epoch": epoch} for epoch, record in watched(row)] for row in runs]
            for dash, (key, what) in enumerate(_QUALITY.items()):
                over_epochs(f"{method}, {what}", seen, key, 100).draw(axes, colour, dash)
        set_epochs(axes, ylabel="mAP × 100 on hidden labels of training images")

    return draw


def draw_curves(lines: Lines, curve: str, symbol: str) -> Draw:
    """The density of F for some σ, or the scheduler ξ for some φ."""
    texts: dict[str, dict[str, Any]] = {
        "density": {"title": "density of F", "xlabel": "latent y"},
        "scheduler": {"title": "scheduler ξ", "xlabel": "pseudo-label û", "ylim": (0, 1.05)},
    }

    def draw(axes: Any) -> None:
        values = dict.fromkeys(line[1] for line in lines if line[0] == curve)
        for colour, value in enumerate(values):
            _, _, x, y = zip(*(line for line in lines if line[:2] == [curve, value]), strict=True)
            Curve(f"{symbol} = {value:g}", x, y).draw(axes, colour)
        axes.set(**texts[curve])

    return draw


def convergence_lines(rows: Sequence[Row]) -> Lines:
    """seed, epoch, what, truth, the three quartiles."""
    return [
        [row["seed"], epoch, what, truth, *(round(value, 6) for value in record[prefix + truth])]
        for row in rows
        for epoch, record in watched(row)
        for truth in ("positive", "negative")
        for what, prefix in (("pseudo-label", ""), ("prediction", "predicted_"))
    ]


def quality_lines(rows: Sequence[Row]) -> Lines:
    """mAP of pseudo-labels and predictions on the hidden labels, after each epoch."""
    return [
        [
            *(row["method"], row["seed"], epoch),
            *("" if record[key] is None else round(100 * record[key], 3) for key in _QUALITY),
        ]
        for row in rows
        for epoch, record in watched(row)
    ]


def parameter_lines(beta: float, gamma: float) -> Lines:
    """F′ for some σ over the latent, and ξ for some φ over the pseudo-label."""

    def density(latent: torch.Tensor, sigma: float) -> torch.Tensor:
        soft, slope = GaussianMap(sigma).soft_and_slope(latent)
        return torch.as_tensor(slope * soft * (1.0 - soft))

    def scheduler(soft: torch.Tensor, phase: float) -> torch.Tensor:
        return confidence_weight(soft, phase, beta, gamma)

    kinds: tuple[tuple[str, Callable[..., torch.Tensor], tuple[float, ...], float, float], ...] = (
        ("density", density, (0.5, 1.0, 2.0), -2.0, 3.0),
        ("scheduler", scheduler, (0.0, 0.5, 1.0), 0.0, 1.0),
    )
    return [
        [name, value, round(x, 4), round(y, 6)]
        for name, curve, values, first, last in kinds
        for value in values
        for places in [torch.linspace(first, last, 101, dtype=torch.float64)]
        for x, y in zip(places.tolist(), curve(places, value).tolist(), strict=True)
    ]
