"""Results as tables: mean ± standard deviation over seeds, in percent."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.table import Table

Row = dict[str, Any]


def spread(values: Sequence[float | None]) -> str:
    """`57.3 ± 0.2`, in percent; without the deviation if there is only one value."""
    if any(value is None for value in values):
        return "–"
    percent = 100.0 * np.asarray(values, dtype=np.float64)
    if len(percent) == 1:
        return f"{percent[0]:.1f}"
    return f"{percent.mean():.1f} ± {percent.std(ddof=1):.1f}"


def summarise(rows: Sequence[Row]) -> dict[tuple[str, str], dict[str, str]]:
    """For every (method, setting): test mAP at the best epoch and at the last, undecided.

    Seeds that diverged are counted, and left out of the means.
    """
    return {key: _summary(group) for key, group in _groups(rows).items()}


def _groups(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["method"], row["setting"]), []).append(row)
    return groups


def _summary(group: Sequence[Row]) -> dict[str, str]:
    trained = [row for row in group if "diverged" not in row]
    if not trained:
        return {"best": "diverged", "last": "", "undecided": "", "diverged": ""}
    lost = len(group) - len(trained)
    return {
        "best": spread([row["test_map"] for row in trained]),
        "last": spread([row["last_test_map"] for row in trained]),
        "undecided": ""
        if trained[0]["undecided"] is None
        else f"{100 * float(np.mean([row['undecided'] for row in trained])):.0f} %",
        "diverged": f"{lost} of {len(group)} seeds diverged" if lost else "",
    }


def results_tables(rows: Sequence[Row], width: int) -> list[Table]:
    """Methods down, settings across; a cell has the best epoch, the last one, undecided labels.

    As many settings beside each other as fit into the width, then another table.
    """
    summary = summarise(rows)
    settings = list(dict.fromkeys(setting for _, setting in summary))
    methods = list(dict.fromkeys(method for method, _ in summary))
    names = min(max(len(name) for name in ("method", *methods)), width // 2)
    texts = [line for cell in summary.values() for line in _cell_text(cell).split("\n")]
    widest = max(len(text) for text in (*settings, *texts)) + 3
    many = max(1, (width - names - 4) // widest)
    return [
        _results_table(rows, summary, methods, settings[start : start + many])
        for start in range(0, len(settings), many)
    ]


def _results_table(
    rows: Sequence[Row],
    summary: dict[tuple[str, str], dict[str, str]],
    methods: Sequence[str],
    settings: Sequence[str],
) -> Table:
    seeds = len({row["seed"] for row in rows})
    table = Table(
        title=f"test mAP × 100 at the best validation epoch and at the last, {seeds} seed(s)",
        title_justify="left",
        show_lines=True,
    )
    table.add_column("method", overflow="fold")
    for setting in settings:
        table.add_column(setting, justify="right", no_wrap=True)
    for method in methods:
        cells = [summary.get((method, setting)) for setting in settings]
        if any(cells):
            table.add_row(method, *(_cell_text(cell) for cell in cells))
    return table


def results_markdown(rows: Sequence[Row]) -> str:
    """The same as Markdown: `best / last`, and what was chosen for each method."""
    summary = summarise(rows)
    settings = list(dict.fromkeys(setting for _, setting in summary))
    lines = [
        f"| method | {' | '.join(settings)} |",
        "| --- |" + " --- |" * len(settings),
    ]
    for method in dict.fromkeys(method for method, _ in summary):
        cells = [summary.get((method, setting)) for setting in settings]
        lines.append(f"| `{method}` | {' | '.join(_markdown(cell) for cell in cells)} |")
    return "\n".join(lines) + "\n"


RESULT_COLUMNS = (
    *("method", "setting", "seeds", "learning rate", "batch size", "weight"),
    *("best epoch", "± best", "last epoch", "± last", "undecided %", "diverged"),
)


def result_lines(rows: Sequence[Row]) -> list[list[Any]]:
    """The same as numbers, a line for every method and setting: see RESULT_COLUMNS.

    What the seeds chose stands there once where they agree.
    """
    return [[*key, *_line(group)] for key, group in _groups(rows).items()]


def _line(group: Sequence[Row]) -> tuple[Any, ...]:
    trained = [row for row in group if "diverged" not in row]
    chosen = [
        " ".join(dict.fromkeys(f"{row[key]:g}" if key != "weight" else row[key] for row in trained))
        for key in ("learning_rate", "batch_size", "weight")
    ]
    best, last = ([row[key] for row in trained] for key in ("test_map", "last_test_map"))
    undecided = [row["undecided"] for row in trained]
    lost = len(group) - len(trained)
    return (len(trained), *chosen, *_moments(best), *_moments(last), _moments(undecided)[0], lost)


def _moments(values: Sequence[float | None]) -> tuple[str, str]:
    """Mean and standard deviation in percent; nothing where there is none."""
    known = [100.0 * value for value in values if value is not None]
    if not known or len(known) < len(values):
        return "", ""
    deviation = f"{np.std(known, ddof=1):.2f}" if len(known) > 1 else ""
    return f"{np.mean(known):.2f}", deviation


def _markdown(cell: dict[str, str] | None) -> str:
    if cell is None:
        return ""
    shown = f"{cell['best']} / {cell['last']}" if cell["last"] else cell["best"]
    return f"{shown} ({cell['diverged']})" if cell["diverged"] else shown


def _cell_text(cell: dict[str, str] | None) -> str:
    if cell is None:
        return ""
    lines = [cell["best"]]
    if cell["last"]:
        lines.append(f"last {cell['last']}")
    if cell["undecided"]:
        lines.append(f"{cell['undecided']} undecided")
    if cell["diverged"]:
        lines.append(cell["diverged"])
    return "\n".join(lines)
