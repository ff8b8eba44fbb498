"""The pictures of one training: its epochs, and its scores against the truth."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from g2netpl.reports.charts import Chart, HeatChart, Series, number
from g2netpl.runs.curves import (
    calibration_error,
    known_entries,
    precision_recall,
    reliability,
)
from g2netpl.runs.metrics import average_precision
from g2netpl.runs.tables import HeldOut
from g2netpl.runs.thresholds import Thresholds

Record = Mapping[str, Any]
History = Sequence[Record]
Trainings = Mapping[str, Sequence[History]]  # of every method the histories of its seeds
SHOWN_CLASSES = 6
_ENOUGH = 5  # positives that a curve rests on
_MOST_COLUMNS = 40
_PER_IMAGE = "labels per image"
_UNIT = (-0.02, 1.02)
_LEVELS = tuple(step / 10 for step in range(11))

_PLAYERS = (  # title, y, scale, keys with their name and their title where they stand alone, note
    (
        *("Regret of the labels", "regret", 1),
        {"regret": ("regret", "Regret of the labels")},
        "What the soft labels would still gain by their best response, per label; 0 at an "
        "equilibrium.",
    ),
    (
        *("Movement and flips", "mean step, share in %", 100),
        {
            "movement": ("mean step × 100", "Movement of the labels"),
            "flips": ("share that crossed 0.5, %", "Labels that crossed 0.5"),
        },
        "How far the soft labels moved in the epoch, and how many changed sides.",
    ),
    (
        *("Undecided labels", "share in %", 100),
        {"undecided": ("soft labels between 0.25 and 0.75", "Undecided labels")},
        "The share of unobserved labels that have not made up their mind.",
    ),
    (
        *("Positives per image", _PER_IMAGE, 1),
        {
            "soft_positives": ("sum of the soft labels", "Soft positives per image"),
            "predicted_positives": ("sum of the predictions", "Predicted positives per image"),
        },
        "Both should settle near k. Predictions are counted before calibration.",
    ),
    (
        *("Gradient of the network", "norm", 1),
        {"gradient_norm": ("norm of the gradient", "Gradient of the network")},
        "Of the network's cost while the soft labels stand still; 0 at an equilibrium.",
    ),
)


def over_epochs(
    name: str, histories: Sequence[History], key: str, scale: float = 1, place: int = 0
) -> Series:
    """The mean of some trainings, and of several a band from the lowest to the highest."""
    seen: dict[int, list[float]] = {}
    for history in histories:
        for record in history:
            own = seen.setdefault(record["epoch"], [])
            if record.get(key) is not None:
                own.append(scale * record[key])
    found = sorted(seen.items())
    points = [(epoch, float(np.mean(own)) if own else None) for epoch, own in found]
    band = [(epoch, min(own), max(own)) for epoch, own in found if own and len(histories) > 1]
    return Series(name, points, place, band=band)


def learning_curves(history: History, best_epoch: int | None) -> list[Chart]:
    """mAP of the validation images, and the network's cost."""
    scores = over_epochs("validation mAP × 100", [history], "validation_map", 100)
    mark = next((point for point in scores.known if point[0] == best_epoch), None)
    note = "" if mark is None else f"The ring marks epoch {best_epoch}, which was chosen."
    cost = over_epochs("the network's cost", [history], "cost")
    charts = [
        Chart(
            *("Validation mAP", [replace(scores, mark=mark)], "epoch", "mAP × 100"),
            keyed=False,
            note=note,
        ),
        Chart("Cost", [cost], "epoch", "mean cost", keyed=False),
    ]
    return charts if scores.known else charts[1:]


def player_charts(history: History, k: float | None) -> list[Chart]:
    """How far both players are from an equilibrium, and from k positives per image."""
    charts = []
    for title, y, scale, keys, note in _PLAYERS:
        lines = [
            over_epochs(name, [history], key, scale, place)
            for place, (key, (name, _)) in enumerate(keys.items())
        ]
        charts += _player_chart(title, lines, y, k, keyed=len(keys) > 1, note=note)
    return charts


def player_comparison(trainings: Trainings, k: float | None, where: str) -> list[Chart]:
    """The same of several methods, a chart for each figure."""
    charts = []
    for _, y, scale, keys, _ in _PLAYERS:
        for key, (name, title) in keys.items():
            lines = compared(trainings, key, scale)
            alone = y if len(keys) == 1 or y == _PER_IMAGE else name
            charts += _player_chart(f"{title}, {where}", lines, alone, k)
    return charts


def _player_chart(
    title: str, lines: list[Series], y: str, k: float | None, **more: Any
) -> list[Chart]:
    level = ("k", k, 0.0) if y == _PER_IMAGE and k is not None else None
    known = [line for line in lines if line.known]
    chart = Chart(title, known, "epoch", y, limits=(0, None), reference=level, **more)
    return [chart] if known else []


def compared(trainings: Trainings, key: str, scale: float) -> list[Series]:
    """A line for every method that has such figures."""
    lines = [
        over_epochs(name, histories, key, scale, place)
        for place, (name, histories) in enumerate(trainings.items())
    ]
    return [line for line in lines if line.known]


def watched(row: Record) -> list[tuple[int, Record]]:
    """The epochs of a training after which the labels were held against the truth, and how."""
    pairs = zip(row["history"], row["movement"], strict=True)
    return [(epoch["epoch"], record) for epoch, record in pairs if record is not None]


def truth_chart(row: Record, title: str, prefix: str = "") -> Chart:
    """Median and quartiles of soft labels (or of what has the prefix) by their hidden truth."""
    lines = []
    for place, name in enumerate(("positive", "negative")):
        quartiles = [(epoch, record[prefix + name]) for epoch, record in watched(row)]
        band = [(epoch, low, high) for epoch, (low, _, high) in quartiles]
        points = [(epoch, middle) for epoch, (_, middle, _) in quartiles]
        lines.append(Series(f"hidden {name}s", points, place, band=band))
    return Chart(title, lines, "epoch", "median and quartiles", limits=(-0.02, 1.02))


def histogram_chart(history: History, title: str) -> HeatChart | None:
    """The soft labels of unobserved entries, an epoch per column; None where none were kept."""
    kept = [
        (record["epoch"], record["soft_histogram"])
        for record in history
        if sum(record.get("soft_histogram") or ())
    ]
    if not kept:
        return None
    if len(kept) > _MOST_COLUMNS:
        places = np.unique(np.linspace(0, len(kept) - 1, _MOST_COLUMNS).round().astype(int))
        kept = [kept[place] for place in places]
    columns = [(epoch, [count / sum(counts) for count in counts]) for epoch, counts in kept]
    return HeatChart(title, (), "epoch", "soft label", columns=columns)


def reliability_chart(parts: Mapping[str, HeldOut], thresholds: Thresholds) -> Chart:
    """How often a label with a score of so much is positive; all parts have labels to tell."""
    rows, lines, errors = [], [], []
    for place, (part, each) in enumerate(parts.items()):
        found = reliability(*known_entries(thresholds.calibrate(each.scores), each.truth))
        errors.append(f"{100 * calibration_error(found):.2f} points on {part}")
        points = [(own.score, own.positive) for own in found]
        bars = [(own.score, *own.interval()) for own in found]
        lines.append(Series(part, points, place, bars=bars))
        for own in found:
            figures = (number(own.score), number(own.positive), f"{own.count:,}")
            rows.append([part, f"{own.low:.1f}–{own.high:.1f}", *figures])
    return Chart(
        "Reliability of the calibrated scores",
        lines,
        "calibrated score",
        "share that is positive",
        limits=_UNIT,
        across=_UNIT,
        reference=("perfectly calibrated", 0.0, 1.0),
        numbers=(("part", "scores", "mean score", "share positive", "labels"), rows),
        note=f"Expected calibration error: {', '.join(errors)}. Bars are 95 % intervals.",
    )


def spread_classes(held_out: HeldOut) -> list[int]:
    """Classes from the best to the weakest average precision, evenly, of those with positives."""
    truth = held_out.truth
    precision = average_precision(held_out.scores, truth)
    enough = np.flatnonzero(((truth == 1).sum(axis=0) >= _ENOUGH) & (truth == 0).any(axis=0))
    ranked = enough[np.argsort(-precision[enough], kind="stable")]
    if len(ranked) > SHOWN_CLASSES:
        ranked = ranked[np.linspace(0, len(ranked) - 1, SHOWN_CLASSES).round().astype(int)]
    return [int(each) for each in ranked]


def precision_recall_chart(
    held_out: HeldOut, part: str, thresholds: Thresholds, columns: Sequence[int]
) -> Chart:
    """Precision over recall of some classes, with the point where each is decided."""
    calibrated = thresholds.calibrate(held_out.scores)
    series, names, table = [], held_out.table.classes, []
    for place, column in enumerate(columns):
        entries = known_entries(calibrated[:, column], held_out.truth[:, column])
        recall, precision, levels = precision_recall(*entries)
        limit = thresholds.per_class[column]
        mark = None
        if limit is not None and not thresholds.one_of and levels[0] >= limit:
            last = int((levels >= limit).sum()) - 1
            mark = (float(recall[last]), float(precision[last]))
        curve = list(zip(recall.tolist(), precision.tolist(), strict=True))
        points = [(0.0, curve[0][1]), *curve]
        series.append(Series(names[column], points, place, mark=mark))
        best = np.maximum.accumulate(precision[::-1])[::-1]
        at = [number(float(best[np.searchsorted(recall, level)])) for level in _LEVELS]
        table.append([names[column], *at])
    header = ("class", *(f"recall ≥ {level:.1f}" for level in _LEVELS))
    return Chart(
        f"Precision and recall on {part}",
        series,
        "recall",
        "precision",
        limits=_UNIT,
        across=_UNIT,
        note=("" if thresholds.one_of else "Rings: where the run's threshold decides. ")
        + "The table has the best precision that can be had at a recall of so much or more.",
        numbers=(header, table),
    )
