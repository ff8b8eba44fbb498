"""The report of a run: how good it is, which classes are weak, what was added, what to look at.

An unfinished run has its curves so far. The words are in templates/run.html.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from g2netpl import __version__
from g2netpl.labels.table import NEGATIVE, POSITIVE
from g2netpl.reports.curves import class_figures
from g2netpl.reports.gallery import make_gallery, photo_finder
from g2netpl.reports.page import write_page
from g2netpl.reports.plots import (
    over_epochs,
    plot_diagnostics,
    plot_epochs,
    plot_histogram,
    plot_precision_recall,
    plot_reliability,
    spread_classes,
)
from g2netpl.reports.tables import spread
from g2netpl.runs.completion import Completed, complete_run, completed_by_pseudo_labels
from g2netpl.runs.metrics import can_rank
from g2netpl.runs.records import REPORT, Content, EquilibriumMetrics
from g2netpl.runs.run import Run
from g2netpl.runs.tables import SPLITS, HeldOut
from g2netpl.utils.errors import InputError

_MOST_ROWS = 400  # of the table of classes
_WEAKEST = 6  # classes on the first screen
_UNSTABLE = 0.3  # mean change of the pseudo-labels per epoch; they converge below 0.15


def write_run_report(
    folder: str | Path,
    output: str | Path | None = None,
    *,
    images: str | None = None,
    gallery: bool = True,
) -> Path:
    """Write the report, by default as report.html in the run folder; returns its path.

    `images` is the folder of the photos, if they have moved since the run.
    """
    run = Run.open(folder)
    if images is not None and not os.path.isdir(images):
        raise InputError(f"--images {images}: no such folder")
    content = _curves(run)
    if run.is_finished:
        completed = complete_run(run)
        content |= _results(run, completed)
        content |= _gallery(run, completed, images) if gallery else {}
    path = run.folder / REPORT if output is None else output
    return write_page(path, "run.html", version=__version__, run=run, **content)


def _curves(run: Run) -> Content:
    """Curves over the epochs, and what is wrong with them."""
    history, k = run.history, run.expected_positives
    last: EquilibriumMetrics = history[-1] if history else {}
    moved = [record.get("movement") or 0 for record in history[-2:]]
    predicted = last.get("predicted_positives")
    scores = over_epochs("validation mAP × 100", [history], "validation_map", 100)
    best = run.result["best_epoch"] if run.is_finished else None
    ring = f"The ring marks epoch {best}, which was chosen." if best in scores.x else ""
    loss = over_epochs("mean loss", [history], "cost")
    curves = [
        plot_epochs("Validation mAP", [scores], "mAP × 100", mark=best, note=ring),
        plot_epochs("Training loss", [loss], "mean loss"),
    ]
    return {
        "last": last,
        "is_unstable": len(moved) == 2 and min(moved) > _UNSTABLE,
        "is_off_k": predicted is not None and not k / 3 <= predicted <= 3 * k,
        "has_pseudo": any(record.get("undecided") is not None for record in history),
        "curves": [plot for plot in curves if plot is not None],
        "diagnostics": plot_diagnostics({"run": [history]}, k),
        "histogram": plot_histogram(history, "Pseudo-labels of unobserved labels"),
    }


def _results(run: Run, completed: Completed) -> Content:
    """Metrics, classes, additions, and scores against known labels."""
    held_out, k, known = run.held_out, run.expected_positives, run.labels.observed
    usable = {part: images.judged(k) for part, images in held_out.items()}
    judged = {part: images for part, images in usable.items() if images is not None}
    ranked = {part: images for part, images in judged.items() if can_rank(images.truth)}
    new, names = completed.added(), np.array(run.classes, dtype=object)
    counts = new.sum(axis=0)
    is_tagged = (known == POSITIVE).any(axis=0)
    part = next((part for part in reversed(SPLITS) if part in run.evaluation), None)
    content = {
        "completed": completed,
        "held_out": held_out,
        "metrics": _metrics(run, held_out),
        "classes": _classes(run, completed, judged),
        "weakest": [] if part is None else _weakest(run, part),
        "part": part,
        "untagged": names[~is_tagged].tolist(),
        "without_new": names[(counts == 0) & is_tagged].tolist(),
        "new": int(counts.sum()),
        "most_new": [
            (names[at], int(counts[at]))
            for at in np.argsort(-counts, kind="stable")[:5]
            if counts[at]
        ],
        "confidence": float(completed.scores[new].mean()) if new.any() else None,
    }
    if ranked:
        part = "test" if "test" in ranked else "validation"
        shown = spread_classes(ranked[part])
        content["reliability"] = plot_reliability(ranked, run.thresholds)
        if shown:
            content["precision"] = plot_precision_recall(ranked[part], part, run.thresholds, shown)
    return content


def _metrics(run: Run, held_out: Mapping[str, HeldOut]) -> Content:
    """The metrics of each split."""
    columns = {
        "mean_average_precision": "mAP",
        "mean_over_present": "mAP of present classes",
        **{"precision": "precision", "recall": "recall", "f1": "F1"},
        **({"accuracy": "accuracy"} if run.thresholds.single_label else {}),
    }
    rows = [
        [
            part,
            f"{len(held_out[part].table):,}" if part in held_out else "–",
            *(spread([metrics.get(key)]) for key in columns),  # type: ignore[list-item]
        ]
        for part, metrics in run.evaluation.items()
    ]
    return {"header": ["split", "images", *columns.values()], "rows": rows}


def _weakest(run: Run, part: str) -> list[tuple[str, float]]:
    """The classes with the lowest average precision, the lowest first."""
    scores = zip(run.classes, run.evaluation[part]["average_precision"], strict=True)
    known = [(name, value) for name, value in scores if value is not None]
    return sorted(known, key=lambda pair: pair[1])[: min(_WEAKEST, -(-len(known) // 2))]


def _classes(run: Run, completed: Completed, judged: Mapping[str, HeldOut]) -> Content:
    """A row per class, the highest average precision first."""
    parts = [part for part in reversed(SPLITS) if part in run.evaluation]
    header, figures = ["class", *(f"{part} AP" for part in parts)], []
    for part in (part for part in parts if part in judged):
        scores = run.thresholds.calibrate(judged[part].scores)
        decided = run.thresholds.decide(scores)
        figures.append(class_figures(scores, judged[part].truth, decided))
        header += [f"{part} positives", f"{part} precision", f"{part} recall"]
    known = run.labels.observed
    counts = [(known == sign).sum(axis=0) for sign in (POSITIVE, NEGATIVE)]
    counts.append(completed.added().sum(axis=0))
    grounds = run.thresholds.reasons
    is_uniform = len(set(grounds)) <= 1
    rows: list[Content] = []
    for column, name in enumerate(run.classes):
        limit, cells = run.thresholds.per_class[column], list[str]()
        for figure in (classes[column] for classes in figures):
            cells += [f"{figure.positives:,}", spread([figure.precision]), spread([figure.recall])]
        cells.append("none" if limit is None or run.thresholds.single_label else f"{limit:.3f}")
        cells += [f"{count[column]:,}" for count in counts]
        precisions = [run.evaluation[part]["average_precision"][column] for part in parts]
        bars = [(spread([value]), value) for value in precisions]
        why = "" if is_uniform else grounds[column]
        rows.append({"name": name, "bars": bars, "cells": cells, "why": why})
    rows.sort(key=lambda row: [1.0 if score is None else -score for _, score in row["bars"]])
    half = _MOST_ROWS // 2
    return {
        "header": [*header, "threshold", "observed positives", "observed negatives", "added"],
        "rows": rows if len(rows) <= _MOST_ROWS else rows[:half] + rows[-half:],
        "left_out": max(len(rows) - _MOST_ROWS, 0),
        "uniform": grounds[0] if grounds and is_uniform else "",
    }


def _gallery(run: Run, completed: Completed, images: str | None) -> Content:
    """Labels to check, with photos if they can be found."""
    predicted = run.thresholds.calibrate(run.predictions())
    sections = make_gallery(
        *(completed, completed_by_pseudo_labels(run), run.labels.has_soft),
        *(predicted, run.thresholds.decide(predicted), photo_finder(run.config, images)),
    )
    unseen = [card.image for section in sections for card in section.cards if card.photo is None]
    return {"gallery": sections, "unseen": unseen}
