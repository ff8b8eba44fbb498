"""The report of a reproduction: our results next to the published ones, and what differs.

Every recipe also leaves its results as CSV, and its figure as PNG with the numbers behind it.
"""

import base64
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from g2netpl.experiments.data import ArrayData
from g2netpl.experiments.paper import OURS, PROTOCOL, RECIPES, Recipe, published
from g2netpl.experiments.reproduction import Plan
from g2netpl.experiments.sweep import Row, describe_row
from g2netpl.labels.io.writing import write_rows
from g2netpl.labels.table import POSITIVE
from g2netpl.reports import page
from g2netpl.reports.figures import write_figure
from g2netpl.reports.tables import LOST, Grid, Place, grid, groups, moments, plus_minus
from g2netpl.runs.records import RUN
from g2netpl.utils.files import read_json

COLUMNS = (
    *("row", "method", "setting", "seeds", "best epoch", "± best", "last epoch", "± last"),
    *("published", "undecided %", "pseudo-label mAP", "± pseudo-label mAP", "chosen"),
)


def write_page(plan: Plan, results: dict[str, list[Row]], data: str | None, folder: Path) -> Path:
    """Write CSV, PNG and index.html into the folder."""
    recipes = [name for name in RECIPES if name in plan.recipes]  # in the order of the paper
    sections = [_section(plan, name, results[name], data, folder) for name in recipes]
    ours = here(plan)
    return page.write_page(
        folder / "index.html",
        "reproduction.html",
        sections=sections,
        data=data,
        subject=plan.base.name,
        differs=[(key, text, ours[key]) for key, text in PROTOCOL.items()],
    )


def _section(
    plan: Plan, name: str, rows: list[Row], data: str | None, folder: Path
) -> dict[str, Any]:
    """A recipe on the page: its table, its notes and its figure."""
    recipe, known = plan.recipes[name], published(name, data)
    trained = [row for row in rows if "diverged" not in row]
    table = _lines(recipe, rows, known)
    notes = [*plan.left_out(name), *(describe_row(row) for row in rows if "diverged" in row)]
    section: dict[str, Any] = {"title": recipe.title, "about": recipe.about, "notes": notes}
    if rows:
        write_rows(folder / f"{name}.csv", COLUMNS, table)
        section["grid"] = _grid(table, by_pseudo=name == "labels")
    if rows and not trained:
        return section
    notes += steps(recipe, trained, known) if name == "ablation" else []
    notes += against_role(trained) if name == "table2" else []
    picture = folder / f"figure-{name}.png"
    write_figure(picture, name, trained, [line for line in table if line[4] != LOST])
    png = base64.b64encode(picture.read_bytes()).decode("ascii")
    return section | {"picture": picture.name, "csv": f"figure-{name}.csv", "png": png}


def _lines(recipe: Recipe, rows: Sequence[Row], known: dict[Place, float]) -> list[list[Any]]:
    """A line per (method, setting) of a recipe: see COLUMNS."""

    def rounded(trained: Sequence[Row], key: str) -> list[Any]:
        values = moments([row[key] for row in trained])
        return ["" if value is None else round(value, 2) for value in values]

    return [
        [
            *(recipe.name_of(method), method, setting, len(trained)),
            *(rounded(trained, "test_map") if trained else (LOST, "")),
            *rounded(trained, "last_test_map"),
            known.get((method, setting), ""),
            rounded(trained, "undecided")[0],
            *rounded(trained, "pseudo_label_map"),
            " or ".join(dict.fromkeys(_chosen(row) for row in trained)),
        ]
        for (method, setting), (trained, _) in groups(rows).items()
    ]


def _chosen(row: Row) -> str:
    """What was chosen for a run on validation."""
    text = f"rate {row['learning_rate']:g}, batch {row['batch_size']}"
    return f"{text}, {row['weight']}" if row["weight"] else text


def _grid(table: list[list[Any]], by_pseudo: bool) -> Grid:
    """The best epoch, and in small letters the rest; of pseudo-labels only the last epoch."""
    main = COLUMNS.index("pseudo-label mAP" if by_pseudo else "best epoch")
    cells, means = {}, {}

    def spread(line: list[Any], column: int) -> str:
        return plus_minus(*(None if value == "" else value for value in line[column : column + 2]))

    for line in table:
        place = (line[1], line[2])
        cells[place] = [LOST]
        if line[4] != LOST:
            lines = [spread(line, main), "" if by_pseudo else f"last {spread(line, 6)}"]
            lines.append("" if line[9] == "" else f"{line[9]:.0f} % unresolved")
            lines.append("" if line[8] == "" else f"published {line[8]:.1f}")
            cells[place] = [text for text in (*lines, line[-1]) if text]
            means[place] = None if line[main] == "" else line[main]
    return grid(cells, means, {line[1]: line[0] for line in table})


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
        gains = [scores[b] - scores[a] for a, b in pairs if {a, b} <= scores.keys()]
        mean, deviation = moments(gains)
        if mean is None:  # one of the two diverged
            return
        spread = "" if deviation is None else f" ± {deviation:.2f}"
        text = f"{setting}: {name}: {mean:+.2f}{spread}"
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


def against_role(rows: Sequence[Row]) -> list[str]:
    """G²NetPL on 60 and 80 % of the images against ROLE on all, as the paper compares them."""

    def mean(method: str, setting: str) -> float | None:
        runs = [row for row in rows if (row["method"], row["setting"]) == (method, setting)]
        return moments([row["test_map"] for row in runs])[0]

    role = mean("role", "fspl")
    ours = [(setting, mean(OURS, setting)) for setting in ("sspl:0.6", "sspl:0.8")]
    return [
        f"{OURS} at {setting} {score:.1f}, role at fspl {role:.1f}: {score - role:+.1f}"
        for setting, score in ours
        if score is not None and role is not None
    ]


def here(plan: Plan) -> dict[str, str]:
    """The protocol of this reproduction, with the keys of the paper's."""
    train, test = plan.tables
    protocol, subject = plan.protocol, plan.base
    rates = ", ".join(f"{rate:g}" for rate in protocol.learning_rates)
    batches = ", ".join(str(size) for size in protocol.batch_sizes)
    k = float((train.values == POSITIVE).sum(axis=1).mean())
    weights = "; three values of each method's main weight" if protocol.search_weights else ""
    once = ", on the first seed" if protocol.choose_once else ""
    average = "" if protocol.ema is None else f", weight averaging {protocol.ema:g}"
    given = protocol.expected_positives
    expected = {"truth": f"k = {k:.2f}, the truth's mean", "estimate": "k estimated"}.get(
        str(given), f"k = {given}, as given"
    )
    trained = sorted({plan.training(name) for name in plan.recipes if plan.recipes[name].blocks})
    head = "linear classifier" if protocol.hidden == 0 else f"one hidden layer of {protocol.hidden}"
    if isinstance(subject, ArrayData):
        backbone, images = _features_note(subject.folder), "as the features were made"
    else:
        backbone = str(plan.photos.get("backbone", "lite0")) + _start(plan.photos)
        images = f"{plan.photos.get('image_size', 224)} px squares, {_view(plan.photos)}"
    return {
        "backbone": backbone,
        "images": images,
        "training": ("; ".join(trained) or "none") + f"; {head}",
        "optimizer": f"{protocol.optimizer}{average}, learning rate {rates}, batch {batches}"
        + weights,
        "chosen on": f"a fifth of the training images, held out with full labels{once}",
        "data": f"{subject.name}: {len(train):,} images (a fifth held out), "
        f"{len(train.classes)} classes, {k:.2f} positives each; {len(test):,} test images",
        "positives per image": expected,
        "classes": f"a sigmoid for each, also in {OURS}; g2netpl itself uses the annotation model",
        "seeds": ", ".join(str(seed) for seed in protocol.seeds),
    }


def _view(photos: Mapping[str, Any]) -> str:
    """How training images are augmented."""
    view = photos.get("augment", "paper")
    special = {"paper": "mirrored at random", "pair": "weak and strong augmentation"}
    return special.get(view, f"{view} augmentation")


def _start(photos: Mapping[str, Any]) -> str:
    """The source of the weights of the backbone."""
    if photos.get("weights"):
        return f", weights of {Path(photos['weights']).name}"
    return ", pretrained" if photos.get("pretrained", True) else ", from scratch"


def _features_note(root: str | None) -> str:
    content = read_json(Path(root or ".") / RUN) or {}
    if "backbone" in content:
        return f"{content['backbone']} at {content.get('size')} px, frozen"
    return "frozen features as given"
