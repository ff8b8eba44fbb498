"""A comparison of methods as one page: the table, and curves for every method and setting."""

import base64
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NotRequired

import numpy as np
import numpy.typing as npt
from typing_extensions import TypedDict

from g2netpl import __version__
from g2netpl.base.errors import InputError
from g2netpl.base.options import check_record
from g2netpl.experiments.cells import Outcome, Row, choose
from g2netpl.experiments.compare import CELLS, cell_of, read_cells
from g2netpl.labels.table import POSITIVE, LabelTable
from g2netpl.reports.charts import Chart
from g2netpl.reports.page import write_page
from g2netpl.reports.run_charts import (
    Trainings,
    compared,
    histogram_chart,
    player_comparison,
    truth_chart,
)
from g2netpl.reports.tables import Grid, grid, groups, measures, moments, spread, summarise
from g2netpl.runs.records import CellResult, Content, read_run

PAGES = {"compare": "report.html", "demo": "comparison.html"}
_RESULTS = {"compare": "results.json", "demo": "result.json"}
_MOST_HISTOGRAMS = 6
_SCENES_SHOWN = 8


class _About(TypedDict):
    """run.json of a comparison, as far as the page shows it."""

    features: NotRequired[str | None]
    labels: NotRequired[str | list[str] | None]
    set: NotRequired[list[str]]


def write_comparison_report(
    folder: str | Path, output: str | Path | None = None, outcomes: Sequence[Outcome] = ()
) -> Path:
    """Write the page, by default into the folder; returns where it is.

    With the outcomes of a demo, which has kept its labels, some of its scenes are shown.
    """
    folder = Path(folder)
    about = read_run(folder, _About)
    command = about["command"]
    rows = read_cells(folder / CELLS, mend=False)
    if not rows:
        raise InputError(f"{folder}: no training is finished yet ({CELLS} has no line)")
    trained = {cell_of(row): row for row in rows}
    chosen = [trained[cell_of(row)] for row in _chosen(folder, rows)]
    taken = {cell_of(row) for row in chosen}
    table, has_test = _grid(chosen), measures(chosen) != ("validation_map",)
    ks = {f"{row['expected_positives']:.2f}" for row in chosen if "expected_positives" in row}
    return write_page(
        folder / PAGES[command] if output is None else output,
        "comparison.html",
        name=folder.resolve().name,
        version=__version__,
        finished=(folder / _RESULTS[command]).is_file(),
        grid=table,
        has_test=has_test,
        about=about,
        seeds=sorted({row["seed"] for row in chosen}),
        ks=sorted(ks),
        trained=len(rows),
        diverged=sum("diverged" in row for row in rows),
        curves=[_curves(chosen, setting) for setting in table.settings],
        players=[(setting, _players(chosen, setting)) for setting in table.settings],
        truths=_truths(chosen),
        histograms=_histograms(chosen),
        trainings=_trainings(chosen, has_test),
        others=_trainings([row for row in rows if cell_of(row) not in taken], has_test),
        demo=_demo(outcomes, chosen) if outcomes else None,
    )


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


def _grid(rows: Sequence[Row]) -> Grid:
    """mAP of every method and setting; one with a seed that diverged is never the highest."""
    measure = measures(rows)[0]
    means = {
        key: None if lost else moments([row[measure] for row in trained])[0]
        for key, (trained, lost) in groups(rows).items()
    }
    return grid(summarise(rows), means, {row["method"]: row["method"] for row in rows})


def _of_setting(rows: Sequence[Row], setting: str) -> Trainings:
    """The histories of every method; a method keeps its colour in all settings."""
    return {
        method: [
            row["history"] for row in rows if (row["method"], row["setting"]) == (method, setting)
        ]
        for method in dict.fromkeys(row["method"] for row in rows)
    }


def _curves(rows: Sequence[Row], setting: str) -> Chart | None:
    """Validation mAP; trainings with full labels stand beside those that have seen fewer."""
    trainings = dict(_of_setting(rows, setting))
    if setting != "full":
        full = _of_setting(rows, "full")
        trainings |= {f"{method} (full labels)": own for method, own in full.items()}
    lines = compared(trainings, "validation_map", 100)
    title = f"Validation mAP, {setting}"
    return Chart(title, lines, "epoch", "mAP × 100") if lines else None


def _players(rows: Sequence[Row], setting: str) -> list[Chart]:
    """The diagnostics of the methods that have them."""
    k = [row["expected_positives"] for row in rows if row.get("expected_positives")]
    return player_comparison(_of_setting(rows, setting), float(np.mean(k)) if k else None, setting)


def _firsts(rows: Sequence[Row]) -> list[tuple[str, Row]]:
    """The first seed of each method and setting, and what it is called."""
    first: dict[tuple[str, str], Row] = {}
    for row in rows:
        first.setdefault((row["method"], row["setting"]), row)
    return [
        (f"{row['method']}, {row['setting']}, seed {row['seed']}", row) for row in first.values()
    ]


def _truths(rows: Sequence[Row]) -> list[Chart]:
    """Soft labels by their hidden truth, where a comparison has followed them."""
    return [
        truth_chart(row, f"Soft labels and truth, {name}")
        for name, row in _firsts(rows)
        if any(row["movement"])
    ]


def _histograms(rows: Sequence[Row]) -> Sequence[Chart]:
    """Soft labels over the epochs."""
    charts = [
        histogram_chart(row["history"], f"Soft labels of {name}") for name, row in _firsts(rows)
    ]
    return [chart for chart in charts if chart is not None][:_MOST_HISTOGRAMS]


def _trainings(rows: Sequence[Row], has_test: bool) -> dict[str, list[Any]]:
    """What was chosen, and its figures."""
    shares = {
        "validation_map": "validation mAP",
        **({"test_map": "test mAP", "last_test_map": "last test mAP"} if has_test else {}),
        "pseudo_label_map": "pseudo-label mAP",
        "undecided": "undecided",
    }
    names = ("method", "setting", "seed", "learning rate", "batch", "weight", "epoch")
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
                _epoch(row),
                *(spread([row[key]]) for key in shares),
            ]
            for row in rows
        ],
    }


def _epoch(row: Row) -> str:
    """Which was taken; the last where there was nothing to choose it by."""
    if "diverged" in row:
        return "diverged"
    return f"{row['best_epoch']}" if row["validation_map"] is not None else "last"


def _demo(outcomes: Sequence[Outcome], rows: Sequence[Row]) -> Content:
    """What the page says of the built-in scenes, and some scenes with the labels of the game."""
    from g2netpl.images.scenes import make_scenes

    scenes = make_scenes()
    galleries = []
    for outcome in outcomes:
        if outcome.row["method"] == "g2netpl" and outcome.soft is not None:
            truth = scenes.train.take(outcome.training)
            crowded = np.flatnonzero((truth.values == POSITIVE).sum(axis=1) >= 2)[:_SCENES_SHOWN]
            pictures = scenes.train_images[outcome.training]
            cards = [_card(row, outcome, truth, pictures[row]) for row in crowded.tolist()]
            galleries.append((outcome.row["setting"], cards))
    return {
        "images": len(scenes.train),
        "test_images": len(scenes.test),
        "epochs": len(outcomes[0].history),
        "k": outcomes[0].row["expected_positives"],
        "rate": rows[0]["learning_rate"],
        "batch": rows[0]["batch_size"],
        "galleries": galleries,
    }


def _card(row: int, outcome: Outcome, truth: LabelTable, pixels: npt.NDArray[np.uint8]) -> Content:
    """A scene: its truth, what was observed, and what both players say."""
    from PIL import Image

    assert outcome.soft is not None
    assert outcome.predicted is not None
    classes, buffer = np.array(truth.classes), io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")

    def strongest(values: npt.NDArray[np.floating]) -> str:
        order = [column for column in np.argsort(-values)[:4] if values[column] >= 0.25]
        return ", ".join(f"{classes[column]} {100 * values[column]:.0f}" for column in order)

    return {
        "picture": base64.b64encode(buffer.getvalue()).decode(),
        "facts": {
            "truth": ", ".join(classes[truth.values[row] == POSITIVE]),
            "observed": ", ".join(classes[outcome.visible[row] == POSITIVE]) or "nothing",
            "soft": strongest(outcome.soft[row]),
            "predicted": strongest(outcome.predicted[row]),
        },
    }
