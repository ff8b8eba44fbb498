"""The pictures of one training: its epochs, and its scores against the truth."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from g2netpl.reports.charts import (
    COLOURS,
    Picture,
    Series,
    heat_chart,
    interval_chart,
    line_chart,
    number,
)
from g2netpl.runs.curves import (
    Bin,
    calibration_error,
    known_entries,
    precision_recall,
    reliability,
)
from g2netpl.runs.metrics import average_precision
from g2netpl.runs.records import Epoch
from g2netpl.runs.tables import HeldOut
from g2netpl.runs.thresholds import Thresholds

SHOWN_CLASSES = 6
_ENOUGH = 5  # positives that a curve rests on
_MOST_COLUMNS = 40
_LEVELS = tuple(step / 10 for step in range(11))


def learning_curves(history: Sequence[Epoch], best_epoch: int | None) -> list[Picture]:
    """mAP of the validation images, and the network's cost."""
    scores = _over_epochs(history, "validation_map", 100)
    mark = next(((at, y) for at, y in scores if at == best_epoch and y is not None), None)
    pictures = []
    if any(value is not None for _, value in scores):
        note = "" if mark is None else f"The ring marks epoch {best_epoch}, which was chosen."
        line = Series("validation mAP × 100", scores, 0, mark=mark)
        pictures.append(
            line_chart("Validation mAP", [line], "epoch", "mAP × 100", keyed=False, note=note)
        )
    cost = Series("the network's cost", _over_epochs(history, "cost"), 1)
    pictures.append(line_chart("Cost", [cost], "epoch", "mean cost", keyed=False))
    return pictures


def player_pictures(history: Sequence[Epoch], k: float | None) -> list[Picture]:
    """How far both players are from an equilibrium, and from k positives per image."""
    pictures = []
    for title, y, scale, keys, note in (
        (
            "Regret of the labels",
            "regret",
            1,
            (("regret", "regret"),),
            "What the soft labels would still gain by their best response, per label; 0 at an "
            "equilibrium.",
        ),
        (
            "Movement and flips",
            "mean step, share in %",
            100,
            (("movement", "mean step × 100"), ("flips", "share that crossed 0.5, %")),
            "How far the soft labels moved in the epoch, and how many changed sides.",
        ),
        (
            "Undecided labels",
            "share in %",
            100,
            (("undecided", "soft labels between 0.25 and 0.75"),),
            "The share of unobserved labels that have not made up their mind.",
        ),
        (
            "Positives per image",
            "labels per image",
            1,
            (
                ("soft_positives", "sum of the soft labels"),
                ("predicted_positives", "sum of the predictions"),
            ),
            "Both should settle near k. Predictions are counted before calibration.",
        ),
        (
            "Gradient of the network",
            "norm",
            1,
            (("gradient_norm", "norm of the gradient"),),
            "Of the network's cost while the soft labels stand still; 0 at an equilibrium.",
        ),
    ):
        series = [
            Series(name, _over_epochs(history, key, scale), place, place)
            for place, (key, name) in enumerate(keys)
        ]
        series = [each for each in series if each.known]
        if series:
            level = ("k", k) if title == "Positives per image" and k is not None else None
            pictures.append(
                line_chart(
                    title,
                    series,
                    "epoch",
                    y,
                    limits=(0, None),
                    level=level,
                    keyed=len(keys) > 1,
                    note=note,
                )
            )
    return pictures


def histogram_picture(history: Sequence[Epoch], title: str) -> Picture | None:
    """The soft labels of unobserved entries, an epoch per column; None where none were kept."""
    kept = [(record["epoch"], record.get("soft_histogram") or []) for record in history]
    kept = [(epoch, counts) for epoch, counts in kept if sum(counts)]
    if not kept:
        return None
    if len(kept) > _MOST_COLUMNS:
        places = np.unique(np.linspace(0, len(kept) - 1, _MOST_COLUMNS).round().astype(int))
        kept = [kept[place] for place in places]
    columns = [(epoch, [count / sum(counts) for count in counts]) for epoch, counts in kept]
    ends = []
    for epoch, shares in (columns[0], columns[-1]):
        tenth = max(1, len(shares) // 10)
        low, high = sum(shares[:tenth]), sum(shares[-tenth:])
        ends.append(
            f"after epoch {epoch:g}, {100 * low:.1f} % lie below 0.1, {100 * high:.1f} % above 0.9"
        )
    return heat_chart(title, columns, "epoch", "soft label", f"{title}: {'; '.join(ends)}.")


def reliability_picture(parts: dict[str, HeldOut], thresholds: Thresholds) -> Picture:
    """How often a label with a score of so much is positive; all parts have labels to tell."""
    found: dict[str, list[Bin]] = {}
    for part, each in parts.items():
        scores = thresholds.calibrate(each.scores)
        found[part] = reliability(*known_entries(scores, each.truth))
    rows = [
        [
            part,
            f"{each.low:.1f}–{each.high:.1f}",
            number(each.score),
            number(each.positive),
            f"{each.count:,}",
        ]
        for part, bins in found.items()
        for each in bins
    ]
    lines = [
        (part, place, [(each.score, each.positive, *each.interval()) for each in bins])
        for place, (part, bins) in enumerate(found.items())
    ]
    errors = " and ".join(
        f"{100 * calibration_error(bins):.2f} points on {part}" for part, bins in found.items()
    )
    about = f"Score and share of positives differ by {errors} on average over all labels"
    return interval_chart(
        "Reliability of the calibrated scores",
        lines,
        "calibrated score",
        "share that is positive",
        f"Reliability diagram in ten bins. {about}.",
        (("part", "scores", "mean score", "share positive", "labels"), rows),
        f"{about} (expected calibration error). Bars are 95 % intervals; the table tells how many "
        "labels each point stands for.",
    )


def spread_classes(held_out: HeldOut, most: int = SHOWN_CLASSES) -> list[int]:
    """Classes from the best to the weakest average precision, evenly, of those with positives."""
    truth = held_out.truth
    precision = average_precision(held_out.scores, truth)
    enough = np.flatnonzero(((truth == 1).sum(axis=0) >= _ENOUGH) & (truth == 0).any(axis=0))
    ranked = enough[np.argsort(-precision[enough], kind="stable")]
    if len(ranked) <= most:
        return [int(each) for each in ranked]
    places = np.linspace(0, len(ranked) - 1, most).round().astype(int)
    return [int(ranked[place]) for place in places]


def precision_recall_picture(
    held_out: HeldOut, part: str, thresholds: Thresholds, columns: Sequence[int]
) -> Picture:
    """Precision over recall of some classes, with the point where each is decided."""
    calibrated = thresholds.calibrate(held_out.scores)
    series, names, table = [], held_out.table.classes, []
    for place, column in enumerate(columns):
        entries = known_entries(calibrated[:, column], held_out.truth[:, column])
        recall, precision, levels = precision_recall(*entries)
        limit = thresholds.per_class[column]
        mark = None
        if limit is not None and levels[0] >= limit:
            last = int((levels >= limit).sum()) - 1
            mark = (float(recall[last]), float(precision[last]))
        curve = list(zip(recall.tolist(), precision.tolist(), strict=True))
        points = [(0.0, curve[0][1]), *curve]
        dash = (place + place // COLOURS) % 4
        series.append(Series(names[column], points, place, dash, mark=mark))
        best = np.maximum.accumulate(precision[::-1])[::-1]
        at = [number(float(best[np.searchsorted(recall, level)])) for level in _LEVELS]
        table.append([names[column], *at])
    header = ("class", *(f"recall ≥ {level:.1f}" for level in _LEVELS))
    return line_chart(
        f"Precision and recall on {part}",
        series,
        "recall",
        "precision",
        limits=(-0.02, 1.02),
        across=(-0.02, 1.02),
        note="Rings: where the run's threshold decides. The table has the best precision that can "
        "be had at a recall of so much or more.",
        table=(header, table),
    )


def _over_epochs(
    history: Sequence[Mapping[str, Any]], key: str, scale: float = 1
) -> list[tuple[float, float | None]]:
    found = [(record["epoch"], record.get(key)) for record in history]
    return [(epoch, None if value is None else scale * value) for epoch, value in found]
