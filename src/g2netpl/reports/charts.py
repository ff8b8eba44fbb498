"""Drawings for a page: inline SVG that follows its colours, each with its numbers as a table.

Names from the data never enter a drawing: they stand beside it, in the key, as escaped text.
"""

import hashlib
import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Point = tuple[float, float]

COLOURS = 8  # var(--c0) … var(--c7) in templates/base.html
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
STROKES = ("none", "5 2", "1.5 1.5", "6 2 1.5 2")  # the same for the key
_INK = "#0a0b10"
_SIZE = (4.4, 2.9)  # inches: on a phone its letters are as large as the text
_MOST_SUMMARISED = 6
_FEW_POINTS = 40


@dataclass(frozen=True)
class Series:
    """One line of a drawing; y is None where there is no value."""

    name: str
    points: Sequence[tuple[float, float | None]]
    colour: int = 0
    dash: int = 0
    band: Sequence[tuple[float, float, float]] = ()  # x, lowest, highest
    mark: Point | None = None  # one point of it that matters

    @property
    def known(self) -> list[Point]:
        """The points that have a value."""
        return [(x, y) for x, y in self.points if y is not None]


@dataclass(frozen=True)
class Picture:
    """A drawing with what a person needs who does not see it."""

    title: str
    svg: str
    summary: str
    key: Sequence[tuple[int, str, str]]  # colour, dashes, name
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def number(value: float | None) -> str:
    """Three digits that count, or a dash."""
    if value is None or value != value:
        return "–"
    if value == 0 or 0.01 <= abs(value) < 1000:
        return f"{value:.3f}" if abs(value) < 1 else f"{value:.4g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1e}"


def line_chart(
    title: str,
    series: Sequence[Series],
    x: str,
    y: str,
    *,
    limits: tuple[float | None, float | None] = (None, None),
    across: Point | None = None,
    level: tuple[str, float] | None = None,
    keyed: bool = True,
    note: str = "",
    table: tuple[Sequence[str], Sequence[Sequence[str]]] | None = None,
) -> Picture:
    """Lines over x; `level` is a horizontal one to hold them against.

    A line that is named by the title needs no key: `keyed` is False.
    """

    def draw(panel: Any) -> None:
        for each in series:
            colour = _colour(each.colour)
            if each.band:
                low_x, low, high = zip(*each.band, strict=True)
                panel.fill_between(low_x, low, high, color=colour, alpha=0.18, lw=0)
            if not each.known:
                continue
            panel.plot(
                *zip(*each.known, strict=True),
                color=colour,
                linestyle=DASHES[each.dash],
                marker="o" if len(each.known) < _FEW_POINTS else None,
                ms=3,
                lw=1.6,
            )
            if each.mark is not None:
                panel.plot(*each.mark, "o", color=colour, ms=8, mfc="none", mew=1.6)
        if level is not None:
            panel.axhline(level[1], color=_INK, lw=1.2, ls=DASHES[2])
        panel.set(xlabel=x, ylabel=y, ylim=limits)
        if across is not None:
            panel.set_xlim(across)
        if x == "epoch":
            _whole_numbers(panel)

    key = [(each.colour, STROKES[each.dash], each.name) for each in series if keyed]
    header, rows = table or _table(series, x)
    levels = "" if level is None else f" {level[0]} is {number(level[1])}."
    summary = f"{title}: {y} over {x}. {_in_words(series, x)}{levels}"
    if level is not None:
        key.append((-1, STROKES[2], level[0]))
    return Picture(title, _svg(draw, title), summary, key, header, rows, note)


def interval_chart(
    title: str,
    series: Sequence[tuple[str, int, Sequence[tuple[float, float, float, float]]]],
    x: str,
    y: str,
    summary: str,
    table: tuple[Sequence[str], Sequence[Sequence[str]]],
    note: str = "",
) -> Picture:
    """Points (x, y, lowest, highest) in the unit square, joined, beside the diagonal."""

    def draw(panel: Any) -> None:
        panel.plot((0, 1), (0, 1), color=_INK, lw=1, ls=DASHES[2])
        for position, (_, colour, points) in enumerate(series):
            across, up, low, high = zip(*points, strict=True)
            paint = _colour(colour)
            panel.vlines(across, low, high, color=paint, lw=1.2, alpha=0.6)
            panel.plot(across, up, "o", color=paint, ms=4, ls=DASHES[position], lw=1.6)
        panel.set(xlabel=x, ylabel=y, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))

    key = [(colour, STROKES[place], name) for place, (name, colour, _) in enumerate(series)]
    key.append((-1, STROKES[2], "perfectly calibrated"))
    return Picture(title, _svg(draw, title), summary, key, *table, note)


def heat_chart(
    title: str, columns: Sequence[tuple[float, Sequence[float]]], x: str, y: str, summary: str
) -> Picture:
    """Shares in equal bins of [0, 1] over x: the darker, the more. `columns` sum to 1 each."""
    marks = (0.001, 0.01, 0.1, 1.0)

    def depth(share: float) -> float:
        """From 0 at a share of 1 in 10,000 to 1 at all of it, by its logarithm."""
        return max(0.0, 1 + math.log10(share) / 4) if share > 0 else 0.0

    def draw(panel: Any) -> None:
        paint = _colour(0)
        for place, (_, shares) in enumerate(columns):
            for number_of_bin, share in enumerate(shares):
                if depth(share) > 0:
                    panel.bar(
                        place,
                        1 / len(shares),
                        bottom=number_of_bin / len(shares),
                        width=1.0,
                        color=paint,
                        alpha=round(depth(share), 2),
                        lw=0,
                    )
        for step, mark in enumerate(marks):  # the key, to the right
            corner = (1.03, 0.55 + 0.11 * step)
            panel.add_patch(_rectangle(corner, (0.05, 0.09), paint, depth(mark), panel))
            text = f"{100 * mark:g} %"
            panel.text(1.1, corner[1] + 0.01, text, transform=panel.transAxes, size=8)
        shown = range(0, len(columns), max(1, -(-len(columns) // 10)))
        panel.set_xticks(list(shown), [f"{columns[place][0]:g}" for place in shown])
        panel.set(xlabel=x, ylabel=y, ylim=(0, 1), xlim=(-0.5, len(columns) - 0.5))
        panel.grid(visible=False)

    bins = len(columns[0][1])
    edges = [f"{low / bins:.2f}–{(low + 1) / bins:.2f}" for low in range(bins)]
    rows = [[f"{at:g}", *(f"{100 * share:.2f}" for share in shares)] for at, shares in columns]
    header = [x, *(f"{edge} (%)" for edge in edges)]
    svg = _svg(draw, title).replace("<svg", '<svg shape-rendering="crispEdges"', 1)  # no seams
    return Picture(title, svg, summary, (), header, rows)


def _rectangle(corner: Point, size: Point, paint: str, alpha: float, panel: Any) -> Any:
    """One of the key, in the panel's own units."""
    from matplotlib.patches import Rectangle

    style: dict[str, Any] = {"facecolor": paint, "alpha": round(alpha, 2), "lw": 0}
    return Rectangle(corner, *size, transform=panel.transAxes, clip_on=False, **style)


def _colour(place: int) -> str:
    """A colour that stands for a variable of the page."""
    return f"#0a0b0{place % COLOURS}"


def _whole_numbers(panel: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, min_n_ticks=1))


def _svg(draw: Callable[[Any], None], title: str) -> str:
    """Draw one panel; the text that stands for colours becomes the page's own."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    ink = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "g2netpl",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": _INK,
        "grid.alpha": 0.15,
        **dict.fromkeys(ink, _INK),
    }
    with rc_context(style):
        figure = Figure(figsize=_SIZE, layout="constrained")
        panel = figure.subplots()
        draw(panel)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r'^(<svg[^>]*?) width="[^"]*"', r"\1", text)
    text = re.sub(r'^(<svg[^>]*?) height="[^"]*"', r"\1", text)
    text = text.replace(_INK, "currentColor")
    text = re.sub(r"#0a0b0(\d)", r"var(--c\1)", text)
    own = "p" + hashlib.sha256((title + text).encode()).hexdigest()[:8]
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{own}-", text)
    return re.sub(r"\n\s*", "\n", text)


def _table(series: Sequence[Series], x: str) -> tuple[list[str], list[list[str]]]:
    """A row for every x."""
    places = sorted({place for each in series for place, _ in each.points})
    columns = [dict(each.points) for each in series]
    rows = [[f"{at:g}", *(number(column.get(at)) for column in columns)] for at in places]
    return [x, *(each.name for each in series)], rows


def _in_words(series: Sequence[Series], x: str) -> str:
    parts = []
    for each in series[:_MOST_SUMMARISED]:
        if not each.known:
            continue
        (first, begin), (last, end) = each.known[0], each.known[-1]
        top = max(each.known, key=lambda point: point[1])
        parts.append(
            f"{each.name}: {number(begin)} at {x} {first:g}, {number(end)} at {x} {last:g}, "
            f"highest {number(top[1])} at {x} {top[0]:g}."
        )
    if len(series) > _MOST_SUMMARISED:
        parts.append("The table below has all lines.")
    return " ".join(parts)
