"""Plots of the reports: one matplotlib function each.

On a page a plot is an SVG in the page's colours, with its numbers as a table. Names from data stand
beside the drawing as escaped text, never in it.
"""

import hashlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure

from g2netpl.reports.curves import calibration_error, known_entries, precision_recall, reliability
from g2netpl.runs.metrics import average_precision
from g2netpl.runs.tables import HeldOut
from g2netpl.runs.thresholds import Thresholds

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
    "legend.frameon": False,
    "legend.fontsize": 8,
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK
    ),
}
_UNIT = (-0.02, 1.02)
_LEVELS = tuple(step / 10 for step in range(11))
_SHOWN_CLASSES = 6
_ENOUGH = 5  # positives of a class with a precision-recall curve
_COLUMNS = 40  # epochs in a heatmap, at most

DIAGNOSTICS = (  # key of history.jsonl, title, unit, scale, note
    ("undecided", "Unresolved pseudo-labels", "%", 100, "Between 0.25 and 0.75."),
    ("soft_positives", "Sum of pseudo-labels", "per image", 1, "Should settle near k."),
    ("predicted_positives", "Sum of predictions", "per image", 1, "Before calibration."),
    ("movement", "Mean change of pseudo-labels", "per epoch", 1, ""),
    ("flips", "Pseudo-labels that crossed 0.5", "% per epoch", 100, ""),
    (
        *("regret", "Distance to equilibrium", "possible gain per label", 1),
        "What the pseudo-labels could still gain by their best response; 0 at an equilibrium.",
    ),
    ("gradient_norm", "Gradient norm", "norm", 1, "0 at an equilibrium."),
)


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

    def draw(self, axes: Any, colour: int, dash: int | None = None) -> None:
        """Draw it with a label for a legend."""
        paint = COLOURS[colour % len(COLOURS)]
        style: Any = {"color": paint, "ls": DASHES[_dash(colour) if dash is None else dash]}
        if len(self.low):
            axes.fill_between(self.x, self.low, self.high, color=paint, alpha=0.18, lw=0)
        marker = "o" if len(self.x) < 40 else None
        axes.plot(self.x, self.y, marker=marker, ms=3, lw=1.6, label=self.name, **style)


def over_epochs(name: str, histories: Sequence[History], key: str, scale: float = 1) -> Curve:
    """The mean of some runs, with a band from the lowest to the highest of several."""
    seen: dict[int, list[float]] = {}
    for record in (record for history in histories for record in history):
        if record.get(key) is not None:
            seen.setdefault(record["epoch"], []).append(scale * record[key])
    epochs = sorted(seen)
    several = epochs if len(histories) > 1 else []
    low, high = ([edge(seen[epoch]) for epoch in several] for edge in (min, max))
    return Curve(name, epochs, [float(np.mean(seen[epoch])) for epoch in epochs], low, high)


def quartiles(row: Mapping[str, Any], key: str, name: str) -> Curve:
    """Median and quartiles that a run recorded after some epochs."""
    points = [(epoch, *record[key]) for epoch, record in watched(row)]
    epochs, low, middle, high = zip(*points, strict=True) if points else ((), (), (), ())
    return Curve(name, epochs, middle, low, high)


def watched(row: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    """The epochs after which pseudo-labels were compared with the truth, and the results."""
    pairs = zip(row["history"], row["movement"], strict=True)
    return [(epoch["epoch"], record) for epoch, record in pairs if record is not None]


def plot_epochs(
    title: str,
    curves: Sequence[Curve],
    unit: str,
    *,
    k: float | None = None,
    mark: float | None = None,
    limits: tuple[float | None, float | None] = (None, None),
    note: str = "",
) -> Plot | None:
    """Curves over epochs, with a line at k and a ring at an epoch; None without values."""
    shown = [(place, curve) for place, curve in enumerate(curves) if len(curve.x)]
    if not shown:
        return None
    with _axes() as (figure, axes):
        for place, curve in shown:
            curve.draw(axes, place)
            if mark is not None and mark in curve.x:
                ring = (mark, curve.y[list(curve.x).index(mark)])
                axes.plot(*ring, "o", color=COLOURS[place], ms=8, mfc="none", mew=1.6)
        if k is not None:
            axes.axhline(k, color=_INK, lw=1.2, ls=DASHES[2])
        set_epochs(axes, ylabel=unit, ylim=limits)
        svg = _svg(figure, title)
    key = [_key(place, curve.name) for place, curve in shown] if len(curves) > 1 else []
    epochs = sorted({epoch for _, curve in shown for epoch in curve.x})
    columns = [dict(zip(curve.x, curve.y, strict=True)) for _, curve in shown]
    rows = [[f"{at:g}", *(number(column.get(at)) for column in columns)] for at in epochs]
    key += [] if k is None else [(-1, _STROKES[2], f"k = {k:.2f}")]
    return Plot(title, svg, key, ["epoch", *(curve.name for _, curve in shown)], rows, note)


def plot_diagnostics(
    runs: Mapping[str, Sequence[History]], k: float | None, where: str = ""
) -> list[Plot]:
    """How the pseudo-labels converged: a plot per quantity, a curve per method."""
    plots = []
    for key, title, unit, scale, note in DIAGNOSTICS:
        curves = [over_epochs(name, histories, key, scale) for name, histories in runs.items()]
        level = k if unit == "per image" else None
        plots.append(plot_epochs(title + where, curves, unit, k=level, limits=(0, None), note=note))
    return [plot for plot in plots if plot is not None]


def plot_histogram(history: History, title: str) -> Plot | None:
    """Pseudo-labels of unobserved labels, an epoch per column; None if none were recorded."""
    kept = [record for record in history if sum(record.get("soft_histogram") or ())]
    if not kept:
        return None
    places = np.linspace(0, len(kept) - 1, min(len(kept), _COLUMNS)).round().astype(int)
    counts = np.array([kept[place]["soft_histogram"] for place in places], dtype=float)
    fractions, bins = counts / counts.sum(axis=1, keepdims=True), counts.shape[1]
    epochs = [kept[place]["epoch"] for place in places]
    with _axes() as (figure, axes):
        colours = LinearSegmentedColormap.from_list("", [f"{COLOURS[0]}00", COLOURS[0]], N=32)
        edges = (np.arange(len(epochs) + 1) - 0.5, np.linspace(0, 1, bins + 1))
        cells = np.where(fractions > 1e-4, fractions, np.nan).T
        mesh = axes.pcolormesh(*edges, cells, cmap=colours, norm=LogNorm(1e-4, 1))
        bar = figure.colorbar(mesh, ax=axes, format=lambda at, _: f"{100 * at:g} %")
        bar.minorticks_off()
        bar.outline.set_visible(False)
        shown = range(0, len(epochs), max(1, -(-len(epochs) // 10)))
        axes.set_xticks(list(shown), [f"{epochs[place]:g}" for place in shown])
        axes.set(xlabel="epoch", ylabel="pseudo-label")
        axes.grid(visible=False)
        svg = _svg(figure, title).replace("<svg", '<svg shape-rendering="crispEdges"', 1)
    header = [f"{low / bins:.2f}–{(low + 1) / bins:.2f} (%)" for low in range(bins)]
    table = zip(epochs, 100 * fractions, strict=True)
    rows = [[f"{epoch:g}", *(f"{value:.2f}" for value in row)] for epoch, row in table]
    return Plot(title, svg, [], ["epoch", *header], rows)


def plot_reliability(parts: Mapping[str, HeldOut], thresholds: Thresholds) -> Plot:
    """How many labels with a probability of so much are positive."""
    rows, errors, title = [], [], "Reliability of the calibrated probabilities"
    with _axes() as (figure, axes):
        for place, (part, held_out) in enumerate(parts.items()):
            scores = thresholds.calibrate(held_out.scores)
            bins = reliability(*known_entries(scores, held_out.truth))
            errors.append(f"{100 * calibration_error(bins):.2f} points on {part}")
            x, y = [bin.score for bin in bins], [bin.positive for bin in bins]
            axes.vlines(x, *zip(*(bin.interval() for bin in bins), strict=True),
                        color=COLOURS[place], lw=1.2, alpha=0.6)  # fmt: skip
            Curve(part, x, y).draw(axes, place)
            for bin in bins:
                values = (number(bin.score), number(bin.positive), f"{bin.count:,}")
                rows.append([part, f"{bin.low:.1f}–{bin.high:.1f}", *values])
        axes.axline((0, 0), slope=1, color=_INK, lw=1.2, ls=DASHES[2])
        axes.set(xlabel="probability", ylabel="fraction that is positive", xlim=_UNIT, ylim=_UNIT)
        svg = _svg(figure, title)
    key = [*map(_key, range(len(parts)), parts), (-1, _STROKES[2], "perfectly calibrated")]
    header = ("split", "probabilities", "mean", "fraction positive", "labels")
    note = f"Expected calibration error: {', '.join(errors)}. Bars are 95 % intervals."
    return Plot(title, svg, key, header, rows, note)


def plot_precision_recall(
    held_out: HeldOut, part: str, thresholds: Thresholds, columns: Sequence[int]
) -> Plot:
    """Precision over recall of some classes, with a ring at the threshold of each."""
    calibrated, names, rows = thresholds.calibrate(held_out.scores), held_out.table.classes, []
    with _axes() as (figure, axes):
        for place, column in enumerate(columns):
            entries = known_entries(calibrated[:, column], held_out.truth[:, column])
            recall, precision, levels = precision_recall(*entries)
            x, y = np.append(0.0, recall), np.append(precision[0], precision)
            Curve("", x.tolist(), y.tolist()).draw(axes, place)
            limit = thresholds.per_class[column]
            if limit is not None and not thresholds.single_label and levels[0] >= limit:
                last = int((levels >= limit).sum()) - 1
                ring = (recall[last], precision[last])
                axes.plot(*ring, "o", color=COLOURS[place], ms=8, mfc="none", mew=1.6)
            best = np.maximum.accumulate(precision[::-1])[::-1]
            at = [number(float(best[np.searchsorted(recall, level)])) for level in _LEVELS]
            rows.append([names[column], *at])
        axes.set(xlabel="recall", ylabel="precision", xlim=_UNIT, ylim=_UNIT)
        svg = _svg(figure, part)
    rings = "" if thresholds.single_label else "Rings mark the thresholds of the run. "
    note = f"{rings}The table has the best precision at a recall of at least so much."
    key = [_key(place, names[column]) for place, column in enumerate(columns)]
    header = ("class", *(f"recall ≥ {level:.1f}" for level in _LEVELS))
    return Plot(f"Precision and recall on {part}", svg, key, header, rows, note)


def spread_classes(held_out: HeldOut) -> list[int]:
    """Some classes with enough positives, evenly from the best average precision to the worst."""
    truth, precision = held_out.truth, average_precision(held_out.scores, held_out.truth)
    enough = np.flatnonzero(((truth == 1).sum(axis=0) >= _ENOUGH) & (truth == 0).any(axis=0))
    ranked = enough[np.argsort(-precision[enough], kind="stable")]
    many = min(len(ranked), _SHOWN_CLASSES)
    return [int(ranked[at]) for at in np.linspace(0, len(ranked) - 1, many).round().astype(int)]


def set_epochs(axes: Any, **more: Any) -> None:
    """Label the x axis with whole epochs, and set more."""
    axes.set(xlabel="epoch", **more)
    axes.xaxis.get_major_locator().set_params(integer=True, nbins=8, min_n_ticks=1)


def number(value: float | None) -> str:
    """Three significant digits, or a dash."""
    if value is None or value != value:
        return "–"
    if value == 0 or 0.01 <= abs(value) < 1000:
        return f"{value:.3f}" if abs(value) < 1 else f"{value:.4g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1e}"


def _dash(colour: int) -> int:
    return (colour + colour // len(COLOURS)) % len(DASHES)


def _key(colour: int, name: str) -> tuple[int, str, str]:
    return colour % len(COLOURS), _STROKES[_dash(colour)], name


@contextmanager
def _axes() -> Iterator[tuple[Any, Any]]:
    with rc_context(STYLE):
        figure = Figure(figsize=(4.4, 2.9), layout="constrained")
        yield figure, figure.subplots()


def _svg(figure: Any, title: str) -> str:
    """The drawing in the colours of the page, with ids of its own."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()[buffer.getvalue().index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    head, rest = text.split(">", 1)
    text = re.sub(r' (width|height)="[^"]*"', "", head) + ">" + rest
    text = text.replace(_INK, "currentColor")
    for place, colour in enumerate(COLOURS):
        text = text.replace(colour, f"var(--c{place})")
    prefix = "p" + hashlib.sha256((title + text).encode()).hexdigest()[:8]
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}-", text)
    return re.sub(r"\n\s*", "\n", text)
