"""The page of a reproduction: our numbers beside the published ones, and what differs.

Every recipe also leaves its numbers as CSV, and its picture as PNG with the numbers behind it.
"""

import base64
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from g2netpl.base.disk import read_object
from g2netpl.experiments.cells import Row, describe_row
from g2netpl.experiments.paper import GAME, PROTOCOL, RECIPES, Recipe, published
from g2netpl.experiments.reproduction import Plan
from g2netpl.labels.formats.sheet import write_rows
from g2netpl.labels.table import POSITIVE
from g2netpl.reports import page
from g2netpl.reports.figures import figure_of, write_figure
from g2netpl.reports.tables import (
    LOST,
    Grid,
    Place,
    grid,
    groups,
    moments,
    plus_minus,
)
from g2netpl.runs.folder import RUN

COLUMNS = (
    *("row", "method", "setting", "seeds", "best epoch", "± best", "last epoch", "± last"),
    *("published", "undecided %", "pseudo-label mAP", "± pseudo-label mAP", "chosen"),
)


def write_page(plan: Plan, found: dict[str, list[Row]], data: str | None, folder: Path) -> Path:
    """CSV, PNG and index.html in the folder."""
    sections = [
        _section(name, plan.recipes[name], found[name], data, plan.left_out(name), folder)
        for name in RECIPES  # in the paper's order, not that of training
        if name in plan.recipes
    ]
    ours = here(plan)
    return page.write_page(
        folder / "index.html",
        "reproduction.html",
        sections=sections,
        data=data,
        subject=plan.dataset.name,
        differs=[(key, text, ours[key]) for key, text in PROTOCOL.items()],
    )


def _section(
    name: str, recipe: Recipe, rows: list[Row], data: str | None, notes: list[str], folder: Path
) -> dict[str, Any]:
    """One recipe on the page: its table, its notes and its figure."""
    known = published(name, data)
    trained = [row for row in rows if "diverged" not in row]
    table = _lines(recipe, rows, known)
    if rows:
        write_rows(folder / f"{name}.csv", COLUMNS, table)
    notes = [*notes, *(describe_row(row) for row in rows if "diverged" in row)]
    section: dict[str, Any] = {"title": recipe.title, "about": recipe.about, "notes": notes}
    if rows:
        section["grid"] = _grid(table, of_labels=name == "labels")
    if rows and not trained:
        return section
    picture = folder / f"figure-{name}.png"
    shown = [line for line in table if line[4] != LOST]
    write_figure(picture, figure_of(name, trained, shown))
    if name == "ablation":
        notes += steps(recipe, trained, known)
    if name == "table2":
        notes += against_role(trained)
    section["picture"] = picture.name
    section["png"] = base64.b64encode(picture.read_bytes()).decode("ascii")
    return section


def _lines(recipe: Recipe, rows: Sequence[Row], known: dict[Place, float]) -> list[list[Any]]:
    """One line per (method, setting) of a recipe: see COLUMNS."""
    return [
        [
            *(recipe.name_of(method), method, setting, len(trained)),
            *(_rounded(trained, "test_map") if trained else (LOST, "")),
            *_rounded(trained, "last_test_map"),
            known.get((method, setting), ""),
            _rounded(trained, "undecided")[0],
            *_rounded(trained, "pseudo_label_map"),
            " or ".join(dict.fromkeys(_chosen(row) for row in trained)),
        ]
        for (method, setting), (trained, _) in groups(rows).items()
    ]


def _rounded(group: Sequence[Row], key: str) -> list[Any]:
    found = moments([row[key] for row in group])
    return ["" if value is None else round(value, 2) for value in found]


def _chosen(row: Row) -> str:
    """What was chosen for a training on validation."""
    text = f"rate {row['learning_rate']:g}, batch {row['batch_size']}"
    return f"{text}, {row['weight']}" if row["weight"] else text


def _grid(table: list[list[Any]], of_labels: bool) -> Grid:
    """The best epoch, and in small letters the rest; of pseudo labels the last epoch alone."""
    main = COLUMNS.index("pseudo-label mAP" if of_labels else "best epoch")
    cells, means = {}, {}
    for line in table:
        place = (line[1], line[2])
        if line[4] == LOST:
            cells[place] = [LOST]
            continue
        *_, undecided, _, _, chosen = line
        more = [] if of_labels else [f"last {_spread(line, 6)}"]
        if undecided != "":
            more.append(f"{undecided:.0f} % undecided")
        if line[8] != "":
            more.append(f"published {line[8]:.1f}")
        cells[place] = [_spread(line, main), *more, chosen]
        means[place] = None if line[main] == "" else line[main]
    return grid(cells, means, {line[1]: line[0] for line in table})


def _spread(line: list[Any], column: int) -> str:
    return plus_minus(*(None if value == "" else value for value in line[column : column + 2]))


def steps(recipe: Recipe, rows: Sequence[Row], known: dict[Place, float]) -> list[str]:
    """What each row adds to the one before, seed by seed, beside what was published.

    Where the paper has a row but not the one before, also what it adds to the paper's last one.
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
    """The paper's comparison of its 60 and 80 % with ROLE at FSPL."""

    def mean(method: str, setting: str) -> float | None:
        own = [row for row in rows if (row["method"], row["setting"]) == (method, setting)]
        return moments([row["test_map"] for row in own])[0]

    role = mean("role", "fspl")
    ours = [(setting, mean(GAME, setting)) for setting in ("sspl:0.6", "sspl:0.8")]
    return [
        f"{GAME} at {setting} {score:.1f}, role at fspl {role:.1f}: {score - role:+.1f}"
        for setting, score in ours
        if score is not None and role is not None
    ]


def here(plan: Plan) -> dict[str, str]:
    """The protocol of this reproduction, in the words of the paper's."""
    train, test = plan.tables
    protocol, subject = plan.protocol, plan.dataset
    rates = ", ".join(f"{rate:g}" for rate in protocol.learning_rates)
    batches = ", ".join(str(size) for size in protocol.batch_sizes)
    k = float((train.values == POSITIVE).sum(axis=1).mean())
    weights = "; three values of each method's main weight" if protocol.search_weights else ""
    once = ", on the first seed" if protocol.choose_once else ""
    average = "" if protocol.ema is None else f", weights averaged at {protocol.ema:g}"
    asked = protocol.expected_positives
    expected = {"truth": f"k = {k:.2f}, the truth's mean", "estimate": "k estimated"}.get(
        str(asked), f"k = {asked}, as given"
    )
    trained = sorted({plan.training(name) for name in plan.recipes if plan.recipes[name].blocks})
    head = "linear classifier" if protocol.hidden == 0 else f"one hidden layer of {protocol.hidden}"
    described = {
        "features": (_features_note(subject.features), "as the features were made"),
        "scenes": ("a small CNN from a random start", "64 × 64, generated"),
        "images": (
            str(protocol.photos.get("backbone", "lite0")) + _start(protocol.photos),
            f"{protocol.photos.get('image_size', 224)} px squares, {_view(protocol.photos)}",
        ),
    }[subject.kind]
    return {
        "backbone": described[0],
        "images": described[1],
        "training": ("; ".join(trained) or "none") + f"; {head}",
        "optimizer": f"{protocol.optimizer}{average}, learning rate {rates}, batch {batches}"
        + weights,
        "chosen on": f"a fifth of the training images, held out with full labels{once}",
        "data": f"{subject.name}: {len(train):,} images (a fifth held out), "
        f"{len(train.classes)} classes, {k:.2f} positives each; {len(test):,} test images",
        "positives per image": expected,
        "classes": f"a sigmoid for each, also in {GAME}: g2netpl itself, as train and compare have "
        "it, draws names where labels are names; rows of --methods as the method has it",
        "seeds": ", ".join(str(seed) for seed in protocol.seeds),
    }


def _view(photos: Mapping[str, Any]) -> str:
    """What is done to training images."""
    view = photos.get("view", "paper")
    special = {"paper": "mirrored at random", "pair": "weak and strong views"}
    return special.get(view, f"{view} views")


def _start(photos: Mapping[str, Any]) -> str:
    """Where the backbone's weights come from."""
    if photos.get("weights"):
        return f", weights of {Path(photos['weights']).name}"
    return ", pretrained" if photos.get("pretrained", True) else ", from a random start"


def _features_note(root: str | None) -> str:
    content = read_object(Path(root or ".") / RUN) or {}
    if "backbone" in content:
        return f"{content['backbone']} at {content.get('size')} px, frozen"
    return "frozen features as given"
