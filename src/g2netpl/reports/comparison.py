"""A comparison of methods as one page: the table, and curves for every method and setting."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NotRequired

import numpy as np
from typing_extensions import TypedDict

from g2netpl import __version__
from g2netpl.base.errors import InputError, counted
from g2netpl.base.options import check_record
from g2netpl.experiments.cells import Row, choose
from g2netpl.experiments.compare import CELLS, cell_of, read_cells
from g2netpl.reports.charts import COLOURS, Picture, Series, line_chart
from g2netpl.reports.page import render, write_page
from g2netpl.reports.run_charts import histogram_picture
from g2netpl.reports.tables import spread, summarise
from g2netpl.runs.records import CellResult, read_run

PAGES = {"compare": "report.html", "demo": "comparison.html"}
_RESULTS = {"compare": "results.json", "demo": "result.json"}
_MOST_HISTOGRAMS = 6
_PLAYERS = (
    ("regret", "Regret of the labels", "regret", 1),
    ("movement", "Movement of the labels", "mean step × 100", 100),
    ("flips", "Labels that crossed 0.5", "share in %", 100),
    ("undecided", "Undecided labels", "share in %", 100),
    ("soft_positives", "Soft positives per image", "labels per image", 1),
    ("predicted_positives", "Predicted positives per image", "labels per image", 1),
)


class _About(TypedDict):
    """run.json of a comparison, as far as the page shows it."""

    features: NotRequired[str | None]
    labels: NotRequired[str | None]
    set: NotRequired[list[str]]


def write_comparison_report(folder: str | Path, output: str | Path | None = None) -> Path:
    """Write the page, by default into the folder; returns where it is."""
    folder = Path(folder)
    about = read_run(folder, _About)
    command = about["command"]
    rows = read_cells(folder / CELLS, mend=False)
    if not rows:
        raise InputError(f"{folder}: no training is finished yet ({CELLS} has no line)")
    if any("history" not in row for row in rows):
        raise InputError(f"{folder / CELLS}: has no histories; compare again to see the curves")
    trained = {cell_of(row): row for row in rows}
    chosen = [trained[cell_of(row)] for row in _chosen(folder, rows)]
    taken = {cell_of(row) for row in chosen}
    methods = list(dict.fromkeys(row["method"] for row in chosen))
    settings = list(dict.fromkeys(row["setting"] for row in chosen))
    seeds = {row["seed"] for row in chosen}
    summary = summarise(chosen)
    lost = sum("diverged" in row for row in rows)
    path = folder / PAGES[command] if output is None else Path(output)
    page = render(
        "comparison.html",
        name=folder.resolve().name,
        version=__version__,
        lead=f"{counted(len(methods), 'method')}, {counted(len(settings), 'setting')}, "
        f"{counted(len(seeds), 'seed')}; {counted(len(rows), 'training')}"
        + (f", {lost} of them diverged." if lost else "."),
        finished=(folder / _RESULTS[command]).is_file(),
        methods=methods,
        settings=settings,
        summary=summary,
        best={setting: _best(chosen, setting) for setting in settings},
        facts=_facts(about, chosen),
        curves=[_curves(chosen, methods, setting) for setting in settings],
        players=[(setting, _players(chosen, methods, setting)) for setting in settings],
        histograms=_histograms(chosen),
        trainings=_trainings(chosen),
        others=_trainings([row for row in rows if cell_of(row) not in taken]),
    )
    write_page(path, page)
    return path


def _chosen(folder: Path, rows: Sequence[Row]) -> list[Row]:
    """What the comparison chose; while it is not finished, or says nothing, from what there is."""
    path = folder / "results.json"
    try:
        found = json.loads(path.read_bytes())
        rows_found = found if type(found) is list else ()
        chosen: list[Row] = [{**check_record(CellResult, row, str(path))} for row in rows_found]
    except (OSError, ValueError, RecursionError, InputError):
        chosen = []
    there = {cell_of(row) for row in rows}
    return [row for row in chosen if cell_of(row) in there] or choose(rows)


def _best(rows: Sequence[Row], setting: str) -> str | None:
    """The method with the highest mean test mAP, where there is more than one."""
    scores: dict[str, list[float | None]] = {}
    for row in rows:
        if row["setting"] == setting:
            scores.setdefault(row["method"], []).append(row["test_map"])
    means = {
        name: float(np.mean([value for value in values if value is not None]))
        for name, values in scores.items()
        if None not in values
    }
    return max(means, key=lambda name: means[name]) if len(means) > 1 else None


def _facts(about: Row, chosen: Sequence[Row]) -> list[tuple[str, str]]:
    """What was compared on what."""
    features, labels = about.get("features"), about.get("labels")
    k = sorted(
        {f"{row['expected_positives']:.2f}" for row in chosen if "expected_positives" in row}
    )
    data = f"features, {Path(features).name}" if features else "the built-in scenes"
    if labels:
        data = f"images, {Path(labels).name}, {about.get('mode') or 'end-to-end'}"
        data += f", {about.get('backbone') or 'lite0'} at {about.get('image_size') or 224} px"
    searched = "three values of each method's main weight" if about.get("search_weights") else ""
    chosen_on = "validation images" + (" of the first seed" if about.get("choose_once") else "")
    asked = about.get("expected_positives")
    source = {"truth": " (the truth's mean)", "estimate": " (estimated)"}.get(str(asked), "")
    facts = [
        ("Data", data),
        ("Seeds", ", ".join(str(seed) for seed in sorted({row["seed"] for row in chosen}))),
        ("Epochs", str(about.get("epochs", ""))),
        ("Learning rates", str(about.get("learning_rates", ""))),
        ("Batch sizes", str(about.get("batch_sizes", ""))),
        ("Optimizer", str(about.get("optimizer") or "")),
        ("View", str(about.get("view") or "")),
        ("Options", ", ".join(about.get("set", []))),
        ("Weights searched", searched),
        ("Hidden layer", str(about.get("hidden") or "")),
        ("Chosen on", chosen_on),
        ("Expected positives", f"k = {', '.join(k)}{source}" if k else ""),
    ]
    return [(term, text) for term, text in facts if text]


def _over_epochs(
    rows: Sequence[Row], methods: Sequence[str], setting: str, key: str, scale: float
) -> list[Series]:
    """A line per method: the mean over seeds, and from the lowest to the highest."""
    lines = []
    for place, method in enumerate(methods):
        seen: dict[int, list[float]] = {}
        for row in rows:
            if (row["method"], row["setting"]) == (method, setting):
                for record in row["history"]:
                    if record.get(key) is not None:
                        seen.setdefault(record["epoch"], []).append(scale * record[key])
        if seen:
            epochs = sorted(seen)
            points = [(epoch, float(np.mean(seen[epoch]))) for epoch in epochs]
            several = max(len(values) for values in seen.values()) > 1
            band = [(epoch, min(seen[epoch]), max(seen[epoch])) for epoch in epochs if several]
            dash = (place + place // COLOURS) % 4
            lines.append(Series(method, points, place % COLOURS, dash, band))
    return lines


def _curves(rows: Sequence[Row], methods: Sequence[str], setting: str) -> Picture | None:
    lines = _over_epochs(rows, methods, setting, "validation_map", 100)
    if not lines:
        return None
    return line_chart(f"Validation mAP, {setting}", lines, "epoch", "mAP × 100")


def _players(rows: Sequence[Row], methods: Sequence[str], setting: str) -> list[Picture]:
    """The diagnostics of the methods that have them."""
    k = [row["expected_positives"] for row in rows if row.get("expected_positives")]
    pictures = []
    for key, title, y, scale in _PLAYERS:
        lines = _over_epochs(rows, methods, setting, key, scale)
        level = ("k", float(np.mean(k))) if key.endswith("positives") and k else None
        if lines:
            title = f"{title}, {setting}"
            pictures.append(line_chart(title, lines, "epoch", y, limits=(0, None), level=level))
    return pictures


def _histograms(rows: Sequence[Row]) -> list[Picture]:
    """Soft labels over the epochs, of the first seed of each method and setting."""
    first: dict[tuple[str, str], Row] = {}
    for row in rows:
        first.setdefault((row["method"], row["setting"]), row)
    pictures = [
        histogram_picture(row["history"], f"Soft labels of {method}, {setting}, seed {row['seed']}")
        for (method, setting), row in first.items()
    ]
    return [picture for picture in pictures if picture is not None][:_MOST_HISTOGRAMS]


def _trainings(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """What was chosen, and its figures."""
    shares = {
        "validation_map": "validation mAP",
        "test_map": "test mAP",
        "last_test_map": "last test mAP",
        "pseudo_label_map": "pseudo-label mAP",
        "undecided": "undecided",
    }
    names = ("method", "setting", "seed", "learning rate", "batch", "weight", "best epoch")
    return {
        "header": [*names, *shares.values()],
        "rows": [
            [
                row["method"],
                row["setting"],
                row["seed"],
                f"{row['learning_rate']:g}",
                row["batch_size"],
                row["weight"] or "–",
                "diverged" if "diverged" in row else row["best_epoch"],
                *(spread([row[key]]) for key in shares),
            ]
            for row in rows
        ],
    }
