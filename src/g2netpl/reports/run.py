"""A run folder of `g2netpl train` as one page: what was trained on what, and how it went.

A run that is not finished has curves alone. Where a picture is missing, a sentence says why; the
words are in templates/run.html.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from g2netpl import __version__
from g2netpl.base.errors import InputError
from g2netpl.game.methods import METHODS
from g2netpl.labels.table import NEGATIVE, POSITIVE
from g2netpl.reports.gallery import Opinions, make_shelves, photo_finder
from g2netpl.reports.page import write_page
from g2netpl.reports.run_charts import (
    histogram_chart,
    learning_curves,
    player_charts,
    precision_recall_chart,
    reliability_chart,
    spread_classes,
)
from g2netpl.reports.tables import spread
from g2netpl.runs.completion import Completed, by_soft_labels, complete
from g2netpl.runs.curves import class_figures
from g2netpl.runs.folder import REPORT as PAGE
from g2netpl.runs.metrics import can_rank
from g2netpl.runs.records import Content, Reading
from g2netpl.runs.run import Run
from g2netpl.runs.tables import PARTS, HeldOut
from g2netpl.training.progress import collapsed, restless, restless_words

_MOST_ROWS = 400  # of the table of classes


def write_run_report(
    folder: str | Path,
    output: str | Path | None = None,
    *,
    images: str | None = None,
    gallery: bool = True,
) -> Path:
    """Write the page, by default as report.html in the run folder; returns where it is.

    `images` is the folder of the photos, if they are no longer where the run found them.
    """
    run = Run.open(folder)
    if images is not None and not os.path.isdir(images):
        raise InputError(f"--images {images}: no such folder")
    completed = complete(run) if run.is_finished else None
    held_out = run.held_out if run.is_finished else {}
    content = _epochs(run)
    if completed is not None:
        content |= _results(run, completed, held_out)
        content |= _gallery(run, completed, images) if gallery else {}
    return write_page(
        run.folder / PAGE if output is None else output,
        "run.html",
        version=__version__,
        run=run,
        completed=completed,
        kept=held_out,
        method=METHODS.get(run.config.method),
        without_gallery=not gallery,
        **content,
    )


def _epochs(run: Run) -> Content:
    """Pictures over the epochs, and what is odd about them."""
    history, k = run.history, run.expected_positives
    last: Reading = history[-1] if history else {}
    best = run.result["best_epoch"] if run.is_finished else None
    return {
        "last": last,
        "restless": restless_words(history) if restless(history) else "",
        "is_collapsed": k and last.get("soft_positives") is not None and collapsed(last, k),
        "has_scores": any(record.get("validation_map") is not None for record in history),
        "has_soft": any(record.get("undecided") is not None for record in history),
        "curves": learning_curves(history, best) if history else [],
        "players": player_charts(history, k),
        "histogram": histogram_chart(history, "Soft labels of unobserved entries"),
    }


def _results(run: Run, completed: Completed, held_out: Mapping[str, HeldOut]) -> Content:
    """What a finished run has reached: tables, and its scores against the truth."""
    header = ["part", "images", "mAP", "mAP, classes present", "precision", "recall", "F1"]
    header += ["accuracy"] if run.thresholds.one_of else []
    rows = []
    for part in (part for part in PARTS if part in run.evaluation):
        found = run.evaluation[part]
        images = f"{len(held_out[part].table):,}" if part in held_out else "–"
        figures = [found["mean_average_precision"], found["mean_over_present"]]
        figures += [found["precision"], found["recall"], found["f1"]]
        if run.thresholds.one_of:
            figures.append(found.get("accuracy"))
        rows.append([part, images, *(spread([figure]) for figure in figures)])
    k = run.expected_positives
    judged = {part: own for part, each in held_out.items() if (own := each.judged(k)) is not None}
    ranked = {part: each for part, each in judged.items() if can_rank(each.truth)}
    classes = _class_table(run, completed, judged)
    content = {"metrics": (header, rows), "parts": PARTS, "classes": classes}
    return content | (_against_truth(run, ranked) if ranked else {})


def _class_table(run: Run, completed: Completed, held_out: Mapping[str, HeldOut]) -> Content:
    """Average precision of each class, the best first, and how its decisions do."""
    parts = [part for part in reversed(PARTS) if part in run.evaluation]
    header = ["class", *(f"{part} AP" for part in parts)]
    figures = []
    for part in parts:
        if part in held_out:
            scores = run.thresholds.calibrate(held_out[part].scores)
            decided = run.thresholds.decide(scores)
            figures.append(class_figures(scores, held_out[part].truth, decided))
            header += [f"{part} positives", f"{part} precision", f"{part} recall"]
    alike = set(run.thresholds.grounds) if len(set(run.thresholds.grounds)) == 1 else set[str]()
    grounds = () if alike else run.thresholds.grounds  # what is the same for all is said once
    header += ["threshold", "known positives", "known negatives", "new positives"]
    known = run.labels.observed
    counts = [(known == sign).sum(axis=0) for sign in (POSITIVE, NEGATIVE)]
    counts.append(completed.proposed().sum(axis=0))
    rows: list[Content] = []
    for column, name in enumerate(run.classes):
        cells: list[str] = []
        for own in (of_classes[column] for of_classes in figures):
            cells += [f"{own.positives:,}", spread([own.precision]), spread([own.recall])]
        limit = run.thresholds.per_class[column]
        none = "none" if run.thresholds.one_of else "never"
        cells.append(none if limit is None or run.thresholds.one_of else f"{limit:.3f}")
        cells += [f"{count[column]:,}" for count in counts]
        shares = [run.evaluation[part]["average_precision"][column] for part in parts]
        bars = [(spread([share]), share) for share in shares]
        why = grounds[column] if grounds else ""
        rows.append({"name": name, "bars": bars, "cells": cells, "why": why})
    rows.sort(key=lambda row: [1.0 if share is None else -share for _, share in row["bars"]])
    half = _MOST_ROWS // 2
    shown = rows if len(rows) <= _MOST_ROWS else rows[:half] + rows[-half:]
    left_out = len(rows) > _MOST_ROWS
    told = {"alike": alike, "explained": bool(grounds), "left_out": left_out, "half": half}
    return {"header": header, "rows": shown, **told}


def _against_truth(run: Run, ranked: Mapping[str, HeldOut]) -> Content:
    """Reliability, precision and recall."""
    part = "test" if "test" in ranked else "validation"
    drawn = spread_classes(ranked[part])
    return {
        "judged_part": part,
        "reliability": reliability_chart(ranked, run.thresholds),
        "precision": precision_recall_chart(ranked[part], part, run.thresholds, drawn)
        if drawn
        else None,
    }


def _gallery(run: Run, completed: Completed, images: str | None) -> Content:
    """The labels to look at, with photos where they are to be found."""
    predicted = run.thresholds.calibrate(run.predictions())
    decided = run.thresholds.decide(predicted)
    by_soft = by_soft_labels(run)
    opinions = Opinions(completed, by_soft, run.labels.has_soft, predicted, decided)
    shelves = make_shelves(opinions, photo_finder(run.config, images))
    bare = [card.image for shelf in shelves for card in shelf.cards if card.photo is None]
    return {"shelves": shelves, "bare": bare}
