"""Results as tables: mean ± standard deviation over seeds, in percent."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

Row = dict[str, Any]
Place = tuple[str, str]  # a method and a setting

LOST = "diverged"  # instead of results
_CHOSEN = ("learning_rate", "batch_size", "weight")
_COLUMNS = {
    "test_map": ("best epoch", "± best"),
    "last_test_map": ("last epoch", "± last"),
    "cf1": ("CF1", "± CF1"),
    "of1": ("OF1", "± OF1"),
    "validation_map": ("validation mAP", "± validation mAP"),
}


def moments(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Mean and standard deviation in percent; None if a value is missing, or a second one."""
    known = [100.0 * value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None, None
    return float(np.mean(known)), float(np.std(known, ddof=1)) if len(known) > 1 else None


def spread(values: Sequence[float | None]) -> str:
    """`57.3 ± 0.2`, in percent; without the deviation if there is only one value."""
    return plus_minus(*moments(values))


def plus_minus(mean: float | None, deviation: float | None) -> str:
    """Mean and deviation as text."""
    if mean is None or np.isnan(mean):
        return "–"
    return f"{mean:.1f}" if deviation is None else f"{mean:.1f} ± {deviation:.1f}"


def shown_method(method: str) -> str:
    """A row's method in words: `an:prior=names` is `an +names`."""
    name, *changes = method.split(":")
    priors = {"prior=names": " +names", "prior=file": " +scores"}
    mark = "".join(priors.get(change, "") for change in changes)
    return ":".join([name, *(change for change in changes if change not in priors)]) + mark


def groups(rows: Sequence[Row]) -> dict[Place, tuple[list[Row], int]]:
    """For every (method, setting): the runs, and how many more diverged."""
    together: dict[Place, list[Row]] = {}
    for row in rows:
        together.setdefault((row["method"], row["setting"]), []).append(row)
    trained = {key: [row for row in group if LOST not in row] for key, group in together.items()}
    return {key: (runs, len(together[key]) - len(runs)) for key, runs in trained.items()}


def measures(rows: Sequence[Row]) -> tuple[str, ...]:
    """The metrics of the table: test mAP at the best and the last epoch and F1, or validation mAP.

    CF1 and OF1 are F1 per class and over all labels, at thresholds chosen on validation.
    """
    has_test = any(row["test_map"] is not None for row in rows)
    return ("test_map", "last_test_map", "cf1", "of1") if has_test else ("validation_map",)


def summarise(rows: Sequence[Row]) -> dict[Place, list[str]]:
    """For every (method, setting): lines with its mAP, see `measures`, and unresolved labels.

    Seeds that diverged are counted, and left out of the means.
    """
    return {key: _summary(*group, measures(rows)) for key, group in groups(rows).items()}


def _summary(trained: Sequence[Row], lost: int, keys: Sequence[str]) -> list[str]:
    if not trained:
        return [LOST]
    best, *others = (spread([row.get(key) for row in trained]) for key in keys)
    unresolved, _ = moments([row["undecided"] for row in trained])
    names = (_COLUMNS[key][0].removesuffix(" epoch") for key in keys[1:])
    lines = [best, *(f"{name} {text}" for name, text in zip(names, others, strict=True))]
    lines += [] if unresolved is None else [f"{unresolved:.0f} % unresolved"]
    return [*lines, f"{lost} of {lost + len(trained)} seeds diverged"] if lost else lines


def results_tables(rows: Sequence[Row], width: int) -> list[Table]:
    """Methods × settings for the terminal; settings that do not fit go into another table."""
    summary = summarise(rows)
    settings = list(dict.fromkeys(setting for _, setting in summary))
    methods = list(dict.fromkeys(method for method, _ in summary))
    texts = [line for lines in summary.values() for line in lines]
    names = min(max(len(name) for name in ("method", *map(shown_method, methods))), width // 2)
    many = max(1, (width - names - 4) // (max(map(len, (*settings, *texts))) + 3))
    metric = "test mAP × 100, best validation epoch and last epoch"
    if measures(rows) == ("validation_map",):
        metric = "validation mAP × 100, on which epoch and run were chosen"
    has_pseudo = any(text.endswith("unresolved") for text in texts)
    tables = []
    for start in range(0, len(settings), many):
        shown = settings[start : start + many]
        table = Table(
            title=f"{metric}, {len({row['seed'] for row in rows})} seed(s)",
            title_justify="left",
            caption="unresolved: pseudo-labels between 0.25 and 0.75" if has_pseudo else None,
            caption_justify="left",
            show_lines=True,
        )
        table.add_column("method", overflow="fold")
        for setting in shown:
            table.add_column(setting, justify="right", no_wrap=True)
        for method in methods:
            cells = [summary.get((method, setting), []) for setting in shown]
            if any(cells):
                table.add_row(shown_method(method), *("\n".join(lines) for lines in cells))
        tables.append(table)
    return tables


def result_columns(rows: Sequence[Row]) -> tuple[str, ...]:
    """The header of results.csv."""
    names = (name for key in measures(rows) for name in _COLUMNS[key])
    chosen = (key.replace("_", " ") for key in _CHOSEN)
    return ("method", "setting", "seeds", *chosen, *names, "undecided %", "diverged")


def result_lines(rows: Sequence[Row]) -> list[list[Any]]:
    """The lines of results.csv: one for every method and setting."""
    lines = []
    for key, (trained, lost) in groups(rows).items():
        chosen = [
            " ".join(
                dict.fromkeys(f"{row[of]:g}" if of != "weight" else row[of] for row in trained)
            )
            for of in _CHOSEN
        ]
        values = [
            value for of in measures(rows) for value in moments([row.get(of) for row in trained])
        ]
        values.append(moments([row["undecided"] for row in trained])[0])
        texts = ["" if value is None else f"{value:.2f}" for value in values]
        lines.append([shown_method(key[0]), key[1], len(trained), *chosen, *texts, lost])
    return lines


class Cell(NamedTuple):
    """A cell of a table on a page: its result, and lines that say more."""

    lines: Sequence[str]
    is_highest: bool


class Grid(NamedTuple):
    """A table on a page: methods × settings."""

    settings: list[str]
    rows: list[tuple[str, str, list[Cell | None]]]  # name, method, a cell for every setting


def grid(
    cells: Mapping[Place, Sequence[str]],
    means: Mapping[Place, float | None],
    names: Mapping[str, str],
) -> Grid:
    """The lines of all cells as a table; the highest mean of a column is marked, if of several."""
    settings = list(dict.fromkeys(setting for _, setting in cells))
    highest = set()
    for setting in settings:
        column = {at: mean for at, mean in means.items() if at[1] == setting and mean is not None}
        highest |= {max(column, key=lambda key: column[key])} if len(column) > 1 else set()
    rows = []
    for method, name in names.items():
        places = [(method, setting) for setting in settings]
        line = [Cell(cells[at], at in highest) if at in cells else None for at in places]
        rows.append((name, method, line))
    return Grid(settings, rows)
