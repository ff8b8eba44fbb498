"""The tables of a reproduction: as lines of a CSV file, and as cells on its page."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from g2netpl.experiments.cells import Row
from g2netpl.experiments.paper import Recipe

TABLE = (
    "row",
    "method",
    "setting",
    "seeds",
    "best epoch",
    "± best",
    "last epoch",
    "± last",
    "published",
    "undecided %",
    "pseudo-label mAP",
    "± pseudo-label mAP",
    "chosen",
)
LOST = "diverged"  # where the figures of a row would stand
_NONE = ("", LOST)

Shown = dict[str, str]  # a cell on the page


@dataclass
class Section:
    """One recipe on the page."""

    title: str
    about: str
    table: list[list[Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pictures: list[tuple[str, str]] = field(default_factory=list)  # file name, base64
    of_labels: bool = False  # the figures are those of pseudo labels, not of the network

    @property
    def settings(self) -> list[str]:
        """The columns on the page."""
        return list(dict.fromkeys(line[2] for line in self.table))

    @property
    def grid(self) -> list[tuple[str, str, list[Shown | None]]]:
        """The rows on the page: name, method, a cell for every setting."""
        lines = {(line[1], line[2]): line for line in self.table}
        names = {line[1]: line[0] for line in self.table}
        highest = {setting: self._highest(setting) for setting in self.settings}

        def cell(method: str, setting: str) -> Shown | None:
            line = lines.get((method, setting))
            return None if line is None else _cell(line, self.of_labels, line is highest[setting])

        return [
            (name, method, [cell(method, setting) for setting in self.settings])
            for method, name in names.items()
        ]

    def _highest(self, setting: str) -> list[Any] | None:
        """The line with the highest mean, where there are several."""
        place = TABLE.index("pseudo-label mAP" if self.of_labels else "best epoch")
        lines = [line for line in self.table if line[2] == setting and line[place] not in _NONE]
        return max(lines, key=lambda line: line[place]) if len(lines) > 1 else None


def table_of(
    recipe: Recipe, rows: Sequence[Row], known: dict[tuple[str, str], float]
) -> list[list[Any]]:
    """One line per (method, setting): mean and deviation over the seeds that did not diverge."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        group = groups.setdefault((row["method"], row["setting"]), [])
        if "diverged" not in row:
            group.append(row)
    return [
        [
            recipe.name_of(method),
            method,
            setting,
            len(group),
            *(_spread(group, "test_map") if group else (LOST, "")),
            *_spread(group, "last_test_map"),
            known.get((method, setting), ""),
            _spread(group, "undecided")[0],
            *_spread(group, "pseudo_label_map"),
            " or ".join(dict.fromkeys(_chosen(row) for row in group)),
        ]
        for (method, setting), group in groups.items()
    ]


def _chosen(row: Row) -> str:
    """What was chosen for a training on validation."""
    text = f"rate {row['learning_rate']:g}, batch {row['batch_size']}"
    return f"{text}, {row['weight']}" if row["weight"] else text


def _spread(group: Sequence[Row], key: str) -> tuple[Any, Any]:
    """Mean and deviation in percent; nothing where there is nothing."""
    values = [row[key] for row in group]
    if not values or any(value is None for value in values):
        return "", ""
    percent = 100.0 * np.asarray(values, dtype=np.float64)
    deviation = round(float(percent.std(ddof=1)), 2) if len(percent) > 1 else ""
    return round(float(percent.mean()), 2), deviation


def _cell(line: list[Any], of_labels: bool, highest: bool) -> Shown:
    """The best epoch, and in small letters the rest; of pseudo labels the last epoch alone."""
    if line[4] == LOST:
        return {"main": LOST, "more": "", "highest": ""}
    best, last, known, undecided = line[4:6], line[6:8], line[8], line[9]
    labels, chosen = line[10:12], line[12]
    more = [] if of_labels else [f"last {_text(last)}"]
    if undecided != "":
        more.append(f"{undecided:.0f} % undecided")
    if known != "":
        more.append(f"published {known:.1f}")
    main = _text(labels if of_labels else best)
    return {
        "main": main,
        "more": "\n".join([*more, chosen]),
        "highest": "highest" if highest else "",
    }


def _text(pair: list[Any]) -> str:
    mean, deviation = pair
    if mean == "":
        return "–"
    return f"{mean:.1f}" if deviation == "" else f"{mean:.1f} ± {deviation:.1f}"
