"""Results as tables: mean ± standard deviation over seeds, in percent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

Row = dict[str, Any]
Place = tuple[str, str]  # a method and a setting

LOST = "diverged"  # where the figures of a row would stand
_TEST_COLUMNS = ("best epoch", "± best", "last epoch", "± last")
_VALIDATION_COLUMNS = ("validation mAP", "± validation mAP")
_UNDECIDED = "undecided: soft labels between 0.25 and 0.75"


def moments(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Mean and standard deviation in percent; None where a value is missing, or a second one."""
    known = [100.0 * value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None, None
    return float(np.mean(known)), float(np.std(known, ddof=1)) if len(known) > 1 else None


def spread(values: Sequence[float | None]) -> str:
    """`57.3 ± 0.2`, in percent; without the deviation if there is only one value."""
    return plus_minus(*moments(values))


def plus_minus(mean: float | None, deviation: float | None) -> str:
    """The two for people."""
    if mean is None or np.isnan(mean):
        return "–"
    return f"{mean:.1f}" if deviation is None else f"{mean:.1f} ± {deviation:.1f}"


def groups(rows: Sequence[Row]) -> dict[Place, tuple[list[Row], int]]:
    """For every (method, setting): the trainings, and how many more diverged."""
    found: dict[Place, list[Row]] = {}
    for row in rows:
        found.setdefault((row["method"], row["setting"]), []).append(row)
    trained = {key: [row for row in group if LOST not in row] for key, group in found.items()}
    return {key: (own, len(found[key]) - len(own)) for key, own in trained.items()}


def measures(rows: Sequence[Row]) -> tuple[str, ...]:
    """What the table shows: test mAP at the best epoch and at the last, or else validation mAP."""
    has_test = any(row["test_map"] is not None for row in rows)
    return ("test_map", "last_test_map") if has_test else ("validation_map",)


def summarise(rows: Sequence[Row]) -> dict[Place, list[str]]:
    """For every (method, setting): its mAP, see `measures`, and undecided labels.

    Seeds that diverged are counted, and left out of the means.
    """
    keys = measures(rows)
    return {key: _summary(*group, keys) for key, group in groups(rows).items()}


def _summary(trained: Sequence[Row], lost: int, keys: Sequence[str]) -> list[str]:
    if not trained:
        return [LOST]
    best, *last = (spread([row[key] for row in trained]) for key in keys)
    undecided, _ = moments([row["undecided"] for row in trained])
    lines = [best, *(f"last {each}" for each in last)]
    if undecided is not None:
        lines.append(f"{undecided:.0f} % undecided")
    return [*lines, f"{lost} of {lost + len(trained)} seeds diverged"] if lost else lines


def results_tables(rows: Sequence[Row], width: int) -> list[Table]:
    """Methods down, settings across; a cell has the best epoch, the last one, undecided labels.

    As many settings beside each other as fit into the width, then another table.
    """
    summary = summarise(rows)
    settings = list(dict.fromkeys(setting for _, setting in summary))
    methods = list(dict.fromkeys(method for method, _ in summary))
    names = min(max(len(name) for name in ("method", *methods)), width // 2)
    texts = [line for lines in summary.values() for line in lines]
    widest = max(len(text) for text in (*settings, *texts)) + 3
    many = max(1, (width - names - 4) // widest)
    seeds = len({row["seed"] for row in rows})
    measured = "test mAP × 100 at the best validation epoch and at the last"
    if measures(rows) == ("validation_map",):
        measured = "validation mAP × 100, on which epoch and cell were chosen"
    tables = []
    for start in range(0, len(settings), many):
        shown = settings[start : start + many]
        table = Table(
            title=f"{measured}, {seeds} seed(s)",
            title_justify="left",
            caption=_UNDECIDED if any(line.endswith("undecided") for line in texts) else None,
            caption_justify="left",
            show_lines=True,
        )
        table.add_column("method", overflow="fold")
        for setting in shown:
            table.add_column(setting, justify="right", no_wrap=True)
        for method in methods:
            cells = [summary.get((method, setting), []) for setting in shown]
            if any(cells):
                table.add_row(method, *("\n".join(lines) for lines in cells))
        tables.append(table)
    return tables


def result_columns(rows: Sequence[Row]) -> tuple[str, ...]:
    """The header of results.csv."""
    maps = _VALIDATION_COLUMNS if measures(rows) == ("validation_map",) else _TEST_COLUMNS
    chosen = ("method", "setting", "seeds", "learning rate", "batch size", "weight")
    return (*chosen, *maps, "undecided %", "diverged")


def result_lines(rows: Sequence[Row]) -> list[list[Any]]:
    """The results as numbers, a line for every method and setting: see `result_columns`.

    What the seeds chose stands there once where they agree.
    """
    keys = measures(rows)
    return [
        [
            *key,
            len(trained),
            *(
                " ".join(
                    dict.fromkeys(f"{row[of]:g}" if of != "weight" else row[of] for row in trained)
                )
                for of in ("learning_rate", "batch_size", "weight")
            ),
            *(
                _two_digits(each)
                for measure in keys
                for each in moments([row[measure] for row in trained])
            ),
            _two_digits(moments([row["undecided"] for row in trained])[0]),
            lost,
        ]
        for key, (trained, lost) in groups(rows).items()
    ]


def _two_digits(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


@dataclass(frozen=True)
class Cell:
    """A cell of a table on a page."""

    lines: Sequence[str]  # the first one is the figure, the others say more
    is_highest: bool


@dataclass(frozen=True)
class Grid:
    """A table on a page: methods down, settings across."""

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
        own = {key: mean for key, mean in means.items() if key[1] == setting and mean is not None}
        if len(own) > 1:
            highest.add(max(own, key=lambda key: own[key]))

    def cell(key: Place) -> Cell | None:
        return Cell(cells[key], key in highest) if key in cells else None

    rows = [
        (name, method, [cell((method, setting)) for setting in settings])
        for method, name in names.items()
    ]
    return Grid(settings, rows)
