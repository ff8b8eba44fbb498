"""Results as tables: mean ± standard deviation over seeds, in percent."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from rich.table import Table

Row = dict[str, Any]

_TEST = {
    "test_map": "best epoch",
    "last_test_map": "last epoch",
    "cf1": "CF1",
    "of1": "OF1",
}
_VALIDATION = {"validation_map": "validation mAP"}
_CHOSEN = ("learning_rate", "batch_size", "weight")


def metrics_of(rows: Sequence[Row]) -> dict[str, str]:
    """Keys and column names: test mAP at the best and the last epoch and F1, or validation mAP.

    CF1 and OF1 are F1 per class and over all labels, at thresholds chosen on validation.
    """
    return _TEST if any(row["test_map"] is not None for row in rows) else _VALIDATION


def summarise(rows: Sequence[Row], metrics: Mapping[str, str] | None = None) -> pd.DataFrame:
    """A line for every method and setting: the columns of results.csv.

    Seeds that diverged are counted and left out of the means; a mean with a missing value is NaN.
    """
    metrics = metrics or metrics_of(rows)
    columns = ("method", "setting", *_CHOSEN, *metrics, "unresolved", "diverged")
    frame = pd.DataFrame(rows).reindex(columns=columns)
    lines = []
    for (method, setting), runs in frame.groupby(["method", "setting"], sort=False):
        trained = runs[runs["diverged"].isna()]
        line: Row = {"method": shown_method(method), "setting": setting, "seeds": len(trained)}
        for key in _CHOSEN:
            values = trained[key] if key == "weight" else trained[key].map("{:g}".format)
            line[key.replace("_", " ")] = " ".join(values.unique())
        for key, name in metrics.items():
            scores = 100 * trained[key].astype(float)
            line[name] = scores.mean(skipna=False)
            line[f"± {name.removesuffix(' epoch')}"] = scores.std(skipna=False)
        line["unresolved %"] = 100 * trained["unresolved"].astype(float).mean(skipna=False)
        lines.append(line | {"diverged": len(runs) - len(trained)})
    return pd.DataFrame(lines)


def spread(line: Mapping[str, Any], name: str) -> str:
    """`57.3 ± 0.2`; without the deviation if there is only one value."""
    mean, deviation = line[name], line[f"± {name.removesuffix(' epoch')}"]
    if pd.isna(mean):
        return "–"
    return f"{mean:.1f}" if pd.isna(deviation) else f"{mean:.1f} ± {deviation:.1f}"


def shown_method(method: str) -> str:
    """A row's method in words: `an:prior=names` is `an +names`."""
    name, *changes = method.split(":")
    priors = {"prior=names": " +names", "prior=file": " +scores"}
    mark = "".join(priors.get(change, "") for change in changes)
    return ":".join([name, *(change for change in changes if change not in priors)]) + mark


def results_table(rows: Sequence[Row]) -> Table:
    """The results for the terminal, setting by setting."""
    metrics, frame = metrics_of(rows), summarise(rows)
    title = "test mAP × 100 at the best validation epoch and at the last epoch"
    if metrics == _VALIDATION:
        title = "validation mAP × 100, on which epoch and run were chosen"
    table = Table(title=f"{title}, {len({row['seed'] for row in rows})} seed(s)")
    table.title_justify = table.caption_justify = "left"
    if frame["diverged"].any():
        table.caption = f"{frame['diverged'].sum()} of {len(rows)} runs diverged"
    for name in ("setting", "method"):
        table.add_column(name, overflow="fold")
    for name in metrics.values():
        table.add_column(name, justify="right", no_wrap=True)
    for _, lines in frame.groupby("setting", sort=False):
        for line in lines.to_dict("records"):
            cells = [spread(line, name) for name in metrics.values()]
            table.add_row(line["setting"], line["method"], *cells)
        table.add_section()
    return table


def as_text(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Header and rows for a page: fractions in percent, counts with commas, a dash for nothing."""

    def cell(value: Any) -> str:
        if isinstance(value, str):
            return value
        if pd.isna(value):
            return "–"
        return f"{100 * value:.1f}" if isinstance(value, float) else f"{value:,}"

    return {"header": list(frame), "rows": frame.map(cell).to_numpy().tolist()}


class Grid(NamedTuple):
    """A table on a page: methods × settings."""

    settings: list[str]
    rows: list[tuple[str, list[list[str]]]]  # name of the row, lines for every setting


def grid(frame: pd.DataFrame, name: str, main: str, others: Iterable[str]) -> Grid:
    """The main result of every method and setting, below it the others and `more` of its line.

    A star marks the highest `main` of each setting; a method with a diverged seed gets none.
    """
    settings = list(frame["setting"].unique())
    scores = frame[frame["diverged"] == 0].dropna(subset=[main]).groupby("setting")[main]
    highest = scores.idxmax()[scores.count() > 1].tolist()
    rows: dict[str, list[list[str]]] = {title: [[] for _ in settings] for title in frame[name]}
    for at, line in zip(frame.index, frame.to_dict("records"), strict=True):
        lines = [("★ " if at in highest else "") + spread(line, main)]
        lines += [f"{other.removesuffix(' epoch')} {spread(line, other)}" for other in others]
        if line["unresolved %"] >= 0:
            lines.append(f"{line['unresolved %']:.0f} % unresolved")
        if line["diverged"]:
            lines.append(f"{line['diverged']} seed(s) diverged")
        rows[line[name]][settings.index(line["setting"])] = [*lines, *line.get("more", ())]
    return Grid(settings, list(rows.items()))
