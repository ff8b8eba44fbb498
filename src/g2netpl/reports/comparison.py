"""The report of a comparison: its table, and curves of every method and setting."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NotRequired

import numpy as np
from typing_extensions import TypedDict

from g2netpl import __version__
from g2netpl.experiments.statistics import differences
from g2netpl.experiments.sweep import CELLS, Row, cell_of, choose, read_cells
from g2netpl.reports.page import write_page
from g2netpl.reports.plots import (
    History,
    Plot,
    over_epochs,
    plot_diagnostics,
    plot_epochs,
    plot_histogram,
    quartiles,
)
from g2netpl.reports.tables import (
    Grid,
    grid,
    groups,
    measures,
    moments,
    shown_method,
    spread,
    summarise,
)
from g2netpl.runs.records import REPORT, RESULTS, RUN, Content, Result, read_run
from g2netpl.utils.errors import InputError
from g2netpl.utils.options import check_record

_MOST_HISTOGRAMS = 6


class _About(TypedDict):
    """run.json of a comparison, as far as the page shows it."""

    features: NotRequired[str | None]
    labels: NotRequired[str | list[str] | None]
    set: NotRequired[list[str]]


def write_comparison_report(folder: str | Path, output: str | Path | None = None) -> Path:
    """Write the report, by default into the folder; returns its path."""
    folder = Path(folder)
    about = read_run(folder)
    check_record(_About, about, str(folder / RUN))
    rows = read_cells(folder / CELLS)
    if not rows:
        raise InputError(f"{folder}: no run is finished yet ({CELLS} has no line)")
    chosen = _read_chosen(folder, rows)
    taken = {cell_of(row) for row in chosen}
    table, has_test = _grid(chosen), measures(chosen) != ("validation_map",)
    ks = sorted({row["expected_positives"] for row in chosen if row.get("expected_positives")})
    k = float(np.mean(ks)) if ks else None
    runs = {setting: _histories(chosen, setting) for setting in table.settings}
    return write_page(
        folder / REPORT if output is None else output,
        "comparison.html",
        name=folder.resolve().name,
        version=__version__,
        finished=(folder / RESULTS[0]).is_file(),
        grid=table,
        has_test=has_test,
        about=about,
        seeds=sorted({row["seed"] for row in chosen}),
        ks=sorted({f"{value:.2f}" for value in ks}),
        count=len(rows),
        diverged=sum("diverged" in row for row in rows),
        curves=_curves(runs),
        diagnostics=[
            (at, plot_diagnostics(by_method, k, f", {at}")) for at, by_method in runs.items()
        ],
        pseudo=_pseudo_labels(chosen),
        differences=_differences(chosen),
        runs=_table(chosen, has_test),
        others=_table([row for row in rows if cell_of(row) not in taken], has_test),
    )


def _read_chosen(folder: Path, rows: Sequence[Row]) -> list[Row]:
    """The runs that the comparison chose; while it is unfinished, the best so far."""
    path, finished = folder / RESULTS[0], {cell_of(row): row for row in rows}
    try:
        saved = json.loads(path.read_bytes())
        chosen: list[Row] = [dict(check_record(Result, row, str(path))) for row in saved]
    except (OSError, ValueError, TypeError, RecursionError, InputError):
        chosen = []
    cells = [cell_of(row) for row in chosen if cell_of(row) in finished]
    return [finished[cell] for cell in cells or map(cell_of, choose(rows))]


def _grid(rows: Sequence[Row]) -> Grid:
    """mAP of every method and setting; one with a seed that diverged is never the highest."""
    measure = measures(rows)[0]
    means = {
        key: None if lost else moments([row[measure] for row in trained])[0]
        for key, (trained, lost) in groups(rows).items()
    }
    return grid(
        summarise(rows), means, {row["method"]: shown_method(row["method"]) for row in rows}
    )


def _histories(rows: Sequence[Row], setting: str) -> dict[str, list[History]]:
    """The histories of every method; a method keeps its colour in all settings."""
    histories: dict[str, list[History]] = {row["method"]: [] for row in rows}
    for row in rows:
        histories[row["method"]] += [row["history"]] if row["setting"] == setting else []
    return histories


def _curves(runs: dict[str, dict[str, list[History]]]) -> list[Plot]:
    """Validation mAP in every setting, next to the fully supervised runs if there are any."""
    plots, full = [], runs.get("full", {})
    for setting, by_method in runs.items():
        more = {f"{method} (full labels)": histories for method, histories in full.items()}
        shown = by_method if setting == "full" else by_method | more
        lines = [over_epochs(name, of, "validation_map", 100) for name, of in shown.items()]
        plots.append(plot_epochs(f"Validation mAP, {setting}", lines, "mAP × 100"))
    return [plot for plot in plots if plot is not None]


def _pseudo_labels(rows: Sequence[Row]) -> list[Plot]:
    """Pseudo-labels of the first seed: by their hidden truth, and their distribution."""
    first: dict[tuple[str, str], Row] = {}
    for row in rows:
        first.setdefault((row["method"], row["setting"]), row)
    names = {f"{m}, {s}, seed {row['seed']}": row for (m, s), row in first.items()}
    by_truth = [
        plot_epochs(
            f"Pseudo-labels by hidden truth, {name}",
            [quartiles(row, truth, f"hidden {truth}s") for truth in ("positive", "negative")],
            "median and quartiles",
            limits=(-0.02, 1.02),
        )
        for name, row in names.items()
        if any(row["movement"])
    ]
    by_epoch = [
        plot_histogram(row["history"], f"Pseudo-labels, {name}") for name, row in names.items()
    ]
    histograms = [plot for plot in by_epoch if plot is not None][:_MOST_HISTOGRAMS]
    return [plot for plot in (*by_truth, *histograms) if plot is not None]


def _differences(rows: Sequence[Row]) -> Content:
    """How much better the methods of the rows are than each other."""
    gaps = differences(rows)
    lines = [
        (
            *(gap.setting, shown_method(gap.method), shown_method(gap.minus), gap.seeds),
            *(f"{gap.difference:+.1f}", f"{gap.low:+.1f} to {gap.high:+.1f}"),
        )
        for gap in gaps[gaps["difference"] >= 0].itertuples()
    ]
    header = ("setting", "method", "minus", "seeds", "mAP × 100", "95 % interval")
    return {"header": header, "rows": lines}


def _table(rows: Sequence[Row], has_test: bool) -> Content:
    """A row per run: what was chosen, and its results."""
    metrics = {"validation_map": "validation mAP"}
    tested = {"test_map": "test mAP", "last_test_map": "last test mAP", "cf1": "CF1", "of1": "OF1"}
    metrics |= tested if has_test else {}
    metrics |= {"pseudo_label_map": "pseudo-label mAP", "undecided": "unresolved"}

    def line(row: Row) -> list[Any]:
        epoch = row["best_epoch"] if row["validation_map"] is not None else "last"
        chosen = (
            row["batch_size"],
            row["weight"] or "–",
            "diverged" if "diverged" in row else epoch,
        )
        method, rate = shown_method(row["method"]), f"{row['learning_rate']:g}"
        what = (method, row["setting"], row["seed"], rate)
        return [*what, *chosen, *(spread([row.get(key)]) for key in metrics)]

    header = ("method", "setting", "seed", "learning rate", "batch", "weight", "epoch")
    return {"header": [*header, *metrics.values()], "rows": [line(row) for row in rows]}
