"""Plots of the reports: one matplotlib function each.

On a page a plot is an SVG in the page's colours, with its numbers as a table. Names from data are
escaped text next to the drawing, never in it.
"""

import hashlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from sklearn.metrics import precision_recall_curve

from g2netpl.labels.table import POSITIVE, UNOBSERVED, LabelMatrix
from g2netpl.runs.tables import HeldOut
from g2netpl.runs.thresholds import Thresholds
from g2netpl.utils.arrays import Scores

History = Sequence[Mapping[str, Any]]

COLOURS = (  # var(--c0) … var(--c7) in templates/base.html
    *("#1f6fb2", "#c8553d", "#3f7f3e", "#a86c00"),
    *("#7b5ea7", "#1d7f86", "#a3396f", "#6b7380"),
)
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
_STROKES = ("none", "5 2", "1.5 1.5", "6 2 1.5 2")  # the same in SVG
_INK = "#1c2430"
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "g2netpl",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": _INK,
    "grid.alpha": 0.15,
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK
    ),
}
UNIT = (-0.02, 1.02)
_BINS = 10
_RECALLS = [step / 20 for step in range(21)]

DIAGNOSTICS = (  # key of history.jsonl, title, unit, scale, note
    ("unresolved", "Unresolved pseudo-labels", "%", 100, "Between 0.25 and 0.75."),
    ("soft_positives", "Sum of pseudo-labels", "per image", 1, "Should settle near k."),
    ("predicted_positives", "Sum of predictions", "per image", 1, "Before calibration."),
    ("movement", "Mean change of pseudo-labels", "per epoch", 1, "Should fall towards 0."),
    ("regret", "Distance to equilibrium", "gain per label", 1,
     "What the pseudo-labels could still gain by their best response; 0 at an equilibrium."),
)  # fmt: skip


class Plot(NamedTuple):
    """A plot for a page: drawing, key (colour, dashes, name) and numbers."""

    title: str
    svg: str
    key: Sequence[tuple[int, str, str]]
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


class Curve(NamedTuple):
    """A line; with `low` and `high` also a band."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()

    def draw(self, axes: Any, place: int) -> None:
        """Draw it in the style of this place in the key."""
        paint = COLOURS[place % len(COLOURS)]
        style: Any = {"color": paint, "ls": DASHES[_dash(place)]}
        if len(self.low):
            axes.fill_between(self.x, self.low, self.high, color=paint, alpha=0.18, lw=0)
        marker = "o" if len(self.x) < 40 else None
        axes.plot(self.x, self.y, marker=marker, ms=3, lw=1.6, **style)


def over_epochs(name: str, histories: Sequence[History], key: str, scale: float = 1) -> Curve:
    """The mean of some runs, with a band from the lowest to the highest of several."""
    records = [record for history in histories for record in history]
    frame = pd.DataFrame(records).reindex(columns=["epoch", key]).dropna()
    values = scale * frame.groupby("epoch")[key].agg(["mean", "min", "max"]).astype(float)
    mean, *band = (values[column].tolist() for column in values)
    return Curve(name, values.index.tolist(), mean, *(band if len(histories) > 1 else ()))


def quartiles(row: Mapping[str, Any], key: str, name: str) -> Curve:
    """Median and quartiles that a run recorded after some epochs."""
    points = [(epoch, *record[key]) for epoch, record in watched(row)]
    epochs, low, middle, high = zip(*points, strict=True) if points else ((), (), (), ())
    return Curve(name, epochs, middle, low, high)


def watched(row: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    """The epochs after which pseudo-labels were compared with the truth, and the results."""
    pairs = zip(row["history"], row["movement"], strict=True)
    return [(epoch["epoch"], record) for epoch, record in pairs if record is not None]


def plot_lines(
    title: str,
    curves: Sequence[Curve],
    unit: str,
    *,
    x: str = "epoch",
    k: float | None = None,
    mark: float | None = None,
    limits: tuple[float | None, float | None] = (None, None),
    note: str = "",
) -> Plot:
    """Curves over epochs or another x, with a line at k and a ring at a marked x."""
    with _axes() as (figure, axes):
        for place, curve in enumerate(curves):
            curve.draw(axes, place)
            if mark is not None and mark in curve.x:
                ring = (mark, curve.y[list(curve.x).index(mark)])
                axes.plot(*ring, "o", color=COLOURS[place], ms=8, mfc="none", mew=1.6)
        if k is not None:
            axes.axhline(k, color=_INK, lw=1.2, ls=DASHES[2])
        axes.set(xlabel=x, ylabel=unit, ylim=limits)
        axes.xaxis.get_major_locator().set_params(integer=x == "epoch", nbins=8, min_n_ticks=1)
        svg = _svg(figure, title)
    key = [_key(place, curve.name) for place, curve in enumerate(curves) if curve.x]
    key = key if len(curves) > 1 else []
    key += [] if k is None else [(-1, _STROKES[2], f"k = {k:.2f}")]
    columns = [pd.Series(curve.y, curve.x, float, curve.name) for curve in curves if curve.x]
    table = pd.concat([pd.Series(dtype=float), *columns], axis="columns").iloc[:, 1:].sort_index()
    rows = [[*map(number, line)] for line in table.reset_index().to_numpy().tolist()]
    return Plot(title, svg, key, [x, *table], rows, note)


def plot_watched(row: Mapping[str, Any], title: str, prefix: str = "") -> Plot:
    """Pseudo-labels, or predictions with that prefix, of hidden positives and negatives."""
    curves = [
        quartiles(row, prefix + truth, f"hidden {truth}s") for truth in ("positive", "negative")
    ]
    return plot_lines(f"{title}, seed {row['seed']}", curves, "median and quartiles", limits=UNIT)


def plot_diagnostics(
    runs: Mapping[str, Sequence[History]], k: float | None, where: str = ""
) -> list[Plot]:
    """How the pseudo-labels converged: a plot per quantity, a curve per method."""
    plots = []
    for key, title, unit, scale, note in DIAGNOSTICS:
        curves = [over_epochs(name, histories, key, scale) for name, histories in runs.items()]
        level = k if unit == "per image" else None
        plots.append(plot_lines(title + where, curves, unit, k=level, limits=(0, None), note=note))
    return [plot for plot in plots if plot.rows]


def plot_reliability(splits: Mapping[str, HeldOut], thresholds: Thresholds) -> Plot:
    """The fraction of positives among labels of similar probability."""
    rows, errors, title = [], [], "Reliability of the calibrated probabilities"
    edges = np.linspace(0, 1, _BINS + 1)
    with _axes() as (figure, axes):
        for place, (split, held_out) in enumerate(splits.items()):
            scores, positive = _known(thresholds.calibrate(held_out.scores), held_out.truth)
            fractions, means = calibration_curve(positive, scores, n_bins=_BINS)
            counts = np.bincount(np.searchsorted(edges[1:-1], scores), minlength=_BINS)
            filled = np.flatnonzero(counts)
            error = np.average(np.abs(means - fractions), weights=counts[filled])
            errors.append(f"{100 * error:.2f} points on {split}")
            for mean, fraction, at in zip(means, fractions, filled, strict=True):
                test = binomtest(round(fraction * counts[at]), int(counts[at]))
                interval = test.proportion_ci(method="wilson")
                axes.vlines(mean, *interval, color=COLOURS[place], lw=1.2, alpha=0.6)
                name = f"{edges[at]:.1f}–{edges[at + 1]:.1f}"
                rows.append([split, name, number(mean), number(fraction), f"{counts[at]:,}"])
            Curve(split, means, fractions).draw(axes, place)
        axes.axline((0, 0), slope=1, color=_INK, lw=1.2, ls=DASHES[2])
        axes.set(xlabel="probability", ylabel="fraction that is positive", xlim=UNIT, ylim=UNIT)
        svg = _svg(figure, title)
    key = [*map(_key, range(len(splits)), splits), (-1, _STROKES[2], "perfectly calibrated")]
    header = ("split", "probabilities", "mean", "fraction positive", "labels")
    note = f"Expected calibration error: {', '.join(errors)}. Bars are 95 % intervals."
    return Plot(title, svg, key, header, rows, note)


def plot_precision_recall(splits: Mapping[str, HeldOut], thresholds: Thresholds) -> Plot:
    """The best precision of all labels together at a recall of at least so much."""
    curves = []
    for split, held_out in splits.items():
        scores, positive = _known(thresholds.calibrate(held_out.scores), held_out.truth)
        precision, recall, _ = precision_recall_curve(positive, scores)
        best = [float(precision[:-1][recall[:-1] >= level].max()) for level in _RECALLS]
        curves.append(Curve(split, _RECALLS, best))
    note = "The best precision at each recall or above. A higher threshold finds fewer labels."
    title = "Precision and recall of all labels"
    return plot_lines(title, curves, "precision", x="recall", limits=UNIT, note=note)


def _known(scores: Scores, truth: LabelMatrix) -> tuple[Scores, npt.NDArray[np.bool_]]:
    """Scores and signs of the labels that are known, in one row."""
    known = truth != UNOBSERVED
    return scores[known], truth[known] == POSITIVE


def number(value: float | None) -> str:
    """Four significant digits, or a dash."""
    return "–" if value is None or np.isnan(value) else f"{value:.4g}"


def _dash(place: int) -> int:
    return (place + place // len(COLOURS)) % len(DASHES)


def _key(place: int, name: str) -> tuple[int, str, str]:
    return place % len(COLOURS), _STROKES[_dash(place)], name


@contextmanager
def _axes() -> Iterator[tuple[Any, Any]]:
    with rc_context(STYLE):
        figure = Figure(figsize=(4.4, 2.9), layout="constrained")
        yield figure, figure.subplots()


def _svg(figure: Any, title: str) -> str:
    """The drawing in the colours of the page, with ids of its own."""
    buffer, without = io.StringIO(), dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(buffer, format="svg", transparent=True, metadata=without)
    text = buffer.getvalue()[buffer.getvalue().index("<svg") :].replace(_INK, "currentColor")
    for place, colour in enumerate(COLOURS):
        text = text.replace(colour, f"var(--c{place})")
    prefix = "p" + hashlib.sha256((title + text).encode()).hexdigest()[:8]
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}-", text)
