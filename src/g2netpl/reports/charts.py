"""Charts: one description each, drawn as SVG for a page or as PNG for a file.

On a page a chart follows the page's colours and has its numbers as a table. Names from the data
never enter the SVG: they stand beside it, in the key, as escaped text.
"""

import hashlib
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Point = tuple[float, float]
Span = tuple[float, float, float]  # x, lowest, highest
Table = tuple[Sequence[str], Sequence[Sequence[str]]]  # header, rows

COLOURS = (  # var(--c0) … var(--c7) in templates/base.html
    *("#1f6fb2", "#c8553d", "#3f7f3e", "#a86c00"),
    *("#7b5ea7", "#1d7f86", "#a3396f", "#6b7380"),
)
_INK = "#1c2430"
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
_STROKES = ("none", "5 2", "1.5 1.5", "6 2 1.5 2")  # the same for the key
_SIZE = (4.4, 2.9)  # inches: on a phone its letters are as large as the text
_FEW_POINTS = 40
_STYLE: Any = {
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


@dataclass(frozen=True)
class Series:
    """One line of a chart; y is None where there is no value. Without a name it has no key."""

    name: str
    points: Sequence[tuple[float, float | None]]
    colour: int = 0  # any number; -1 is the ink of the page
    dash: int | None = None  # None: as goes with the colour, so that lines can be told apart
    band: Sequence[Span] = ()
    bars: Sequence[Span] = ()  # deviations or intervals
    mark: Point | None = None  # one point of it that matters
    marker: str | None = None  # of every point; by default "o" where they are few
    joined: bool = True

    @property
    def pattern(self) -> int:
        """The place of its dashes."""
        own = self.colour + self.colour // len(COLOURS)
        return (own if self.dash is None else self.dash) % len(_DASHES)

    @property
    def known(self) -> list[Point]:
        """The points that have a value."""
        return [(x, y) for x, y in self.points if y is not None]

    def draw(self, panel: Any, *, sideways: bool = False) -> None:
        """Draw it; `sideways` with x from top to bottom."""
        paint = _INK if self.colour < 0 else COLOURS[self.colour % len(COLOURS)]
        if self.band:
            panel.fill_between(*zip(*self.band, strict=True), color=paint, alpha=0.18, lw=0)
        if self.bars:
            draw = panel.hlines if sideways else panel.vlines
            draw(*zip(*self.bars, strict=True), color=paint, lw=1.2, alpha=0.6)
        if self.known:
            panel.plot(
                *zip(*(point[:: -1 if sideways else 1] for point in self.known), strict=True),
                color=paint,
                label=self.name,
                linestyle=_DASHES[self.pattern] if self.joined else "none",
                marker=self.marker or ("o" if len(self.known) < _FEW_POINTS else None),
                ms=3 if self.joined else 5,
                lw=1.6,
            )
        if self.mark is not None:
            panel.plot(*self.mark, "o", color=paint, ms=8, mfc="none", mew=1.6)


@dataclass(frozen=True)
class Chart:
    """Lines over x, with what a person needs who does not see them.

    A line that is named by the title needs no key: `keyed` is False.
    """

    title: str
    series: Sequence[Series]
    x: str
    y: str
    limits: tuple[float | None, float | None] = (None, None)
    across: Point | None = None
    reference: tuple[str, float, float] | None = None  # a straight line: name, height at 0, slope
    names: Sequence[str] = ()  # what stands at 0, 1, … from top to bottom; x and y change places
    keyed: bool = True
    note: str = ""
    numbers: Table | None = None  # instead of those made from the lines

    def draw(self, panel: Any) -> None:
        """Draw it into a panel of matplotlib."""
        for each in self.series:
            each.draw(panel, sideways=bool(self.names))
        if self.reference is not None:
            name, height, slope = self.reference
            first = self.series[0].points[0][0]
            through = (first, height + slope * first)
            panel.axline(through, slope=slope, color=_INK, lw=1.2, ls=_DASHES[2], label=name)
        panel.set(xlabel=self.x, ylabel=self.y, ylim=self.limits)
        if self.across is not None:
            panel.set_xlim(self.across)
        if self.x == "epoch":
            panel.xaxis.get_major_locator().set_params(integer=True, nbins=8, min_n_ticks=1)
        if self.names:
            panel.set_yticks(range(len(self.names)), self.names)
            panel.invert_yaxis()

    @property
    def svg(self) -> str:
        """The drawing for a page, in the page's own colours."""
        buffer = io.StringIO()
        _save(buffer, [self], _SIZE, format="svg", transparent=True, metadata={"Date": None})
        text = buffer.getvalue()
        text = text[text.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
        head, rest = text.split(">", 1)
        text = re.sub(r' (width|height)="[^"]*"', "", head) + ">" + rest
        text = text.replace(_INK, "currentColor")
        for place, colour in enumerate(COLOURS):
            text = text.replace(colour, f"var(--c{place})")
        own = "p" + hashlib.sha256((self.title + text).encode()).hexdigest()[:8]
        text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{own}-", text)
        return re.sub(r"\n\s*", "\n", text)

    @property
    def key(self) -> list[tuple[int, str, str]]:
        """Colour, dashes and name of every line."""
        lines = [(each.colour, _STROKES[each.pattern], each.name) for each in self.series]
        own = [line for line in lines if self.keyed and line[2]]
        return own + ([(-1, _STROKES[2], self.reference[0])] if self.reference else [])

    @property
    def summary(self) -> str:
        """For those who do not see it; the numbers are in the table."""
        return f"{self.title}: {self.y} over {self.x}"

    @property
    def table(self) -> Table:
        """Its numbers: a row for every x."""
        if self.numbers is not None:
            return self.numbers
        places = sorted({place for each in self.series for place, _ in each.points})
        columns = [dict(each.points) for each in self.series]
        rows = [[f"{at:g}", *(number(column.get(at)) for column in columns)] for at in places]
        return [self.x, *(each.name for each in self.series)], rows


@dataclass(frozen=True)
class HeatChart(Chart):
    """Shares in equal bins of [0, 1] over x: the darker, the more. `columns` sum to 1 each."""

    columns: Sequence[tuple[float, Sequence[float]]] = ()

    def draw(self, panel: Any) -> None:
        """Draw it into a panel of matplotlib."""
        height, many = 1 / self._bins, len(self.columns)
        for place, (_, shares) in enumerate(self.columns):
            for position, share in enumerate(shares):
                if _depth(share) > 0:
                    _cell(panel, share, (place, position * height), (1.0, height))
        for step, share in enumerate((0.001, 0.01, 0.1, 1.0)):  # the key, to the right
            low = 0.55 + 0.11 * step
            _cell(panel, share, (1.055 * many - 0.5, low), (0.05 * many, 0.09), clip_on=False)
            panel.text(1.1 * many - 0.5, low + 0.01, f"{100 * share:g} %", size=8)
        shown = range(0, many, max(1, -(-many // 10)))
        panel.set_xticks(list(shown), [f"{self.columns[place][0]:g}" for place in shown])
        panel.set(xlabel=self.x, ylabel=self.y, ylim=(0, 1), xlim=(-0.5, many - 0.5))
        panel.grid(visible=False)

    @property
    def svg(self) -> str:
        """The drawing for a page, without seams."""
        return super().svg.replace("<svg", '<svg shape-rendering="crispEdges"', 1)

    @property
    def table(self) -> Table:
        """Its numbers: a row for every x, in percent."""
        bins = self._bins
        edges = [f"{low / bins:.2f}–{(low + 1) / bins:.2f} (%)" for low in range(bins)]
        shares = [(at, [f"{100 * share:.2f}" for share in own]) for at, own in self.columns]
        return [self.x, *edges], [[f"{at:g}", *own] for at, own in shares]

    @property
    def _bins(self) -> int:
        return len(self.columns[0][1])


def _depth(share: float) -> float:
    """From 0 at a share of 1 in 10,000 to 1 at all of it, by its logarithm."""
    return round(max(0.0, 1 + math.log10(share) / 4), 2) if share > 0 else 0.0


def _cell(panel: Any, share: float, at: Point, size: Point, **more: Any) -> None:
    width, height = size
    panel.bar(*(at[0], height, width, at[1]), color=COLOURS[0], alpha=_depth(share), lw=0, **more)


def write_png(path: Path, charts: Sequence[Chart]) -> None:
    """Draw charts beside each other into a file, each with a legend."""
    size = (4.0 * len(charts), 3.6) if len(charts) > 1 else (7.0, 4.2)
    if charts[0].names:
        size = (9.0, 1.2 + 0.085 * len(charts[0].names) * (3 + len(charts[0].key)))
    options = {"dpi": 150, "facecolor": "white", "metadata": {"Software": None}}
    _save(path, charts, size, labelled=True, **options)


def _save(
    target: Any, charts: Sequence[Chart], size: Point, *, labelled: bool = False, **options: Any
) -> None:
    """Draw charts beside each other; `labelled` with what a page says outside of the drawing."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(1, len(charts), squeeze=False)[0]
        for chart, panel in zip(charts, panels, strict=True):
            chart.draw(panel)
            if labelled:
                panel.set_title(chart.title)
            if labelled and panel.get_legend_handles_labels()[1]:
                panel.legend()
        figure.savefig(target, **options)


def number(value: float | None) -> str:
    """Three digits that count, or a dash."""
    if value is None or value != value:
        return "–"
    if value == 0 or 0.01 <= abs(value) < 1000:
        return f"{value:.3f}" if abs(value) < 1 else f"{value:.4g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1e}"
