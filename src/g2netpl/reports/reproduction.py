"""The report of a reproduction: our results next to the published ones, and what differs.

Every table is also a CSV file, and so are the numbers behind every figure.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from g2netpl.experiments.data import ArrayData, PhotoData
from g2netpl.experiments.paper import RECIPES, Recipe, published
from g2netpl.experiments.reproduction import Plan
from g2netpl.experiments.sweep import Row, describe_row
from g2netpl.labels.io.writing import write_rows
from g2netpl.labels.table import POSITIVE
from g2netpl.reports import page
from g2netpl.reports.figures import paper_figures
from g2netpl.reports.tables import grid, summarise
from g2netpl.runs.records import RUN
from g2netpl.utils.files import read_json

Place = tuple[str, str]  # a method and a setting

COLUMNS = (
    *("row", "method", "setting", "seeds", "best epoch", "± best", "last epoch", "± last"),
    *("published", "unresolved %", "pseudo-label mAP", "± pseudo-label mAP", "chosen"),
)


def write_page(plan: Plan, results: dict[str, list[Row]], data: str | None, folder: Path) -> Path:
    """Write index.html and the CSV files into the folder."""
    recipes = [name for name in RECIPES if name in plan.recipes]  # in the order of the paper
    base, made = plan.base, None
    if isinstance(base, ArrayData):
        made = read_json(Path(base.folder or ".") / RUN)
    return page.write_page(
        folder / "index.html",
        "reproduction.html",
        sections=[_section(plan, name, results[name], data, folder) for name in recipes],
        data=data,
        plan=plan,
        config=base.config if isinstance(base, PhotoData) else None,
        made=made,
        training=sorted({plan.training(name) for name in recipes if plan.recipes[name].blocks}),
        k=float((plan.tables[0].values == POSITIVE).sum(axis=1).mean()),
    )


def _section(
    plan: Plan, name: str, rows: list[Row], data: str | None, folder: Path
) -> dict[str, Any]:
    """A recipe on the page: its table, its notes and its figure."""
    recipe, known = plan.recipes[name], published(name, data)
    trained = [row for row in rows if "diverged" not in row]
    notes = [*plan.left_out(name), *(describe_row(row) for row in rows if "diverged" in row)]
    section: dict[str, Any] = {"title": recipe.title, "about": recipe.about, "notes": notes}
    section |= {"grid": None, "figures": []}
    table = _table(recipe, rows, known) if rows else pd.DataFrame()
    if rows:
        table.to_csv(folder / f"{name}.csv", columns=COLUMNS, index=False)
        metrics = ["pseudo-label mAP"] if name == "labels" else ["best epoch", "last epoch"]
        section["grid"] = grid(table, "row", metrics[0], metrics[1:])
    if trained or not rows:
        section["figures"] = paper_figures(name, trained, table)
    for number, plot in enumerate(section["figures"], start=1):
        write_rows(folder / f"figure-{name}-{number}.csv", plot.header, plot.rows)
    notes += steps(recipe, trained, known) if name == "ablation" else []
    return section


def _table(recipe: Recipe, rows: Sequence[Row], known: dict[Place, float]) -> pd.DataFrame:
    """A line per method and setting of a recipe: COLUMNS, and what the page shows in addition."""
    metrics = {
        "test_map": "best epoch",
        "last_test_map": "last epoch",
        "pseudo_label_map": "pseudo-label mAP",
    }
    table = summarise(rows, metrics)
    chosen: dict[Place, dict[str, None]] = {}
    for row in rows:
        weight = f", {row['weight']}" if row["weight"] else ""
        text = f"rate {row['learning_rate']:g}, batch {row['batch_size']}{weight}"
        of = chosen.setdefault((row["method"], row["setting"]), {})
        of |= {} if "diverged" in row else {text: None}
    places = list(zip(table["method"], table["setting"], strict=True))
    table["row"] = table["method"].map(recipe.name_of)
    table["published"] = pd.Series([known.get(place) for place in places], dtype=float)
    table["chosen"] = [" or ".join(chosen[place]) for place in places]
    table["more"] = [
        [f"published {known[place]:.1f}", text] if place in known else [text]
        for place, text in zip(places, table["chosen"], strict=True)
    ]
    return table.round(2)


def steps(recipe: Recipe, rows: Sequence[Row], known: dict[Place, float]) -> list[str]:
    """What each row adds to the one before, seed by seed, next to the published difference.

    If the paper has a row but not the one before, also what it adds to the paper's last one.
    """
    block = recipe.blocks[0]
    scores = {(row["method"], row["setting"], row["seed"]): row["test_map"] for row in rows}
    seeds = sorted({row["seed"] for row in rows})
    notes = []

    def note(setting: str, before: str, after: str, name: str) -> None:
        pairs = [((before, setting, seed), (after, setting, seed)) for seed in seeds]
        gains = [100 * (scores[b] - scores[a]) for a, b in pairs if {a, b} <= scores.keys()]
        if not gains:  # one of the two diverged
            return
        text = f"{setting}: {name}: {np.mean(gains):+.2f}"
        text += f" ± {np.std(gains, ddof=1):.2f}" if len(gains) > 1 else ""
        if (before, setting) in known and (after, setting) in known:
            text += f" (published {known[after, setting] - known[before, setting]:+.1f})"
        notes.append(text)

    for setting in block.settings:
        printed = [method for method in block.methods if (method, setting) in known]
        for before, after in pairwise(block.methods):
            note(setting, before, after, recipe.name_of(after))
            if after in printed[1:] and before not in printed:
                last = printed[printed.index(after) - 1]
                name = f"{recipe.name_of(after)}, from {recipe.name_of(last)}"
                note(setting, last, after, name)
    return notes
