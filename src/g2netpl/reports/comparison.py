"""The report of a comparison: its table, and curves of every method and setting."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from g2netpl import __version__
from g2netpl.experiments.statistics import differences
from g2netpl.experiments.sweep import CELLS, Row, cell_of, choose, read_cells
from g2netpl.reports.page import write_page
from g2netpl.reports.plots import (
    History,
    Plot,
    over_epochs,
    plot_diagnostics,
    plot_lines,
    plot_watched,
)
from g2netpl.reports.tables import as_text, grid, metrics_of, shown_method, summarise
from g2netpl.runs.records import REPORT, RESULTS, Content, read_run
from g2netpl.utils.errors import InputError

_COLUMNS = {
    **{"method": "method", "setting": "setting", "seed": "seed"},
    **{"learning_rate": "learning rate", "batch_size": "batch", "weight": "weight"},
    **{"best_epoch": "epoch", "validation_map": "validation mAP", "test_map": "test mAP"},
    **{"last_test_map": "last test mAP", "cf1": "CF1", "of1": "OF1"},
    **{"pseudo_label_map": "pseudo-label mAP", "unresolved": "unresolved"},
}


def write_comparison_report(folder: str | Path, output: str | Path | None = None) -> Path:
    """Write the report, by default into the folder; returns its path."""
    folder = Path(folder)
    about = read_run(folder)
    rows = read_cells(folder / CELLS)
    if not rows:
        raise InputError(f"{folder}: no run is finished yet ({CELLS} has no line)")
    chosen = choose(rows)
    metrics = metrics_of(chosen)
    main, *others = metrics.values()
    cells = {cell_of(row) for row in chosen}
    settings = list(dict.fromkeys(row["setting"] for row in chosen))
    ks = {row["expected_positives"] for row in chosen if row.get("expected_positives")}
    k = sum(ks) / len(ks) if ks else None
    runs = {setting: _histories(chosen, setting) for setting in settings}
    return write_page(
        folder / REPORT if output is None else output,
        "comparison.html",
        name=folder.resolve().name,
        version=__version__,
        is_finished=(folder / RESULTS[0]).is_file(),
        grid=grid(summarise(chosen), "method", main, others),
        has_test="test_map" in metrics,
        about=about,
        seeds=sorted({row["seed"] for row in chosen}),
        ks=sorted({f"{value:.2f}" for value in ks}),
        count=len(rows),
        diverged=sum("diverged" in row for row in rows),
        curves=_curves(runs),
        diagnostics={at: plot_diagnostics(of, k, f", {at}") for at, of in runs.items()},
        pseudo=_pseudo_labels(chosen),
        differences=_differences(chosen),
        runs=_table(chosen),
        others=_table([row for row in rows if cell_of(row) not in cells]),
    )


def _histories(rows: Sequence[Row], setting: str) -> dict[str, list[History]]:
    """The histories of every method; a method keeps its colour in all settings."""
    histories: dict[str, list[History]] = {shown_method(row["method"]): [] for row in rows}
    for row in rows:
        if row["setting"] == setting:
            histories[shown_method(row["method"])].append(row["history"])
    return histories


def _curves(runs: dict[str, dict[str, list[History]]]) -> list[Plot]:
    """Validation mAP in every setting, next to the fully supervised runs if there are any."""
    plots, full = [], runs.get("full", {})
    for setting, by_method in runs.items():
        more = {f"{method} (full labels)": histories for method, histories in full.items()}
        shown = by_method if setting == "full" else by_method | more
        lines = [over_epochs(name, of, "validation_map", 100) for name, of in shown.items()]
        plots.append(plot_lines(f"Validation mAP, {setting}", lines, "mAP × 100"))
    return [plot for plot in plots if plot.rows]


def _pseudo_labels(rows: Sequence[Row]) -> list[Plot]:
    """Pseudo-labels of hidden positives and negatives, of the first seed of each method."""
    first: dict[str, Row] = {}
    for row in rows:
        if any(row["movement"]):
            first.setdefault(f"{shown_method(row['method'])}, {row['setting']}", row)
    return [
        plot_watched(row, f"Pseudo-labels by hidden truth, {name}") for name, row in first.items()
    ]


def _differences(rows: Sequence[Row]) -> Content:
    """How much better the methods of the rows are than each other."""
    gaps = differences(rows)
    gaps = gaps[gaps["difference"] >= 0]
    for name in ("method", "minus"):
        gaps[name] = gaps[name].map(shown_method)
    for name in ("difference", "low", "high"):
        gaps[name] = gaps[name].map("{:+.1f}".format)
    gaps["95 % interval"] = gaps.pop("low") + " to " + gaps.pop("high")
    return as_text(gaps.rename(columns={"difference": "mAP × 100"}))


def _table(rows: Sequence[Row]) -> Content:
    """A row per run: what was chosen, and its results in percent."""
    frame = pd.DataFrame(rows).reindex(columns=[*_COLUMNS, "diverged"])
    frame["method"] = frame["method"].map(shown_method)
    frame["learning_rate"] = frame["learning_rate"].map("{:g}".format)
    frame["best_epoch"] = frame["best_epoch"].map("{:.0f}".format, na_action="ignore")
    frame.loc[frame.pop("diverged").notna(), "best_epoch"] = "diverged"
    frame = frame.rename(columns=_COLUMNS).replace("", None)
    return as_text(frame.dropna(axis="columns", how="all"))
