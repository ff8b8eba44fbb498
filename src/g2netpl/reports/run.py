"""A run folder of `g2netpl train` as one page: what was trained on what, and how it went.

A run that is not finished has curves alone. Where a picture is missing, a sentence says why; the
words are in templates/run.html.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from g2netpl import __version__
from g2netpl.base.errors import InputError, did_you_mean
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
from g2netpl.runs.contents import Ending, RunContents, read_contents
from g2netpl.runs.curves import class_figures
from g2netpl.runs.folder import Content
from g2netpl.runs.metrics import can_rank
from g2netpl.runs.scores import PARTS
from g2netpl.training.equilibrium import collapsed, restless, restless_words

PAGE = "report.html"
MOST_CURVES = 12  # in one picture
_MOST_ROWS = 400  # of the table of classes


def write_run_report(
    folder: str | Path,
    output: str | Path | None = None,
    *,
    classes: Sequence[str] = (),
    images: str | None = None,
    gallery: bool = True,
) -> Path:
    """Write the page, by default as report.html in the run folder; returns where it is.

    `classes` have their precision–recall curves drawn; `images` is the folder of the photos, if
    they are no longer where the run found them.
    """
    run = read_contents(folder)
    columns = _columns(run.classes, classes)
    if images is not None and not os.path.isdir(images):
        raise InputError(f"--images {images}: no such folder")
    history, last = run.history, run.history[-1] if run.history else {}
    content = {} if run.ending is None else _results(run, run.ending, columns)
    if gallery and run.ending is not None and run.ending.scores is not None:
        content |= _gallery(run, run.ending, images)
    best = None if run.ending is None else run.ending.result["best_epoch"]
    return write_page(
        run.folder / PAGE if output is None else output,
        "run.html",
        version=__version__,
        run=run,
        method=METHODS.get(run.config.method),
        without_gallery=not gallery,
        last=last,
        restless=restless_words(history) if restless(history) else "",
        is_collapsed=bool(run.k and last.get("soft_positives") is not None)
        and collapsed(last, run.k or 0),
        has_scores=any(record.get("validation_map") is not None for record in history),
        has_soft=any(record.get("undecided") is not None for record in history),
        curves=learning_curves(history, best) if history else [],
        players=player_charts(history, run.k),
        histogram=histogram_chart(history, "Soft labels of unobserved entries"),
        **content,
    )


def _columns(known: tuple[str, ...], wanted: Sequence[str]) -> list[int]:
    """Where the wanted classes are."""
    for name in wanted:
        if name not in known:
            raise InputError(f"--classes: no class {name!r} ({did_you_mean(name, known)})")
    if len(wanted) > MOST_CURVES:
        raise InputError(f"--classes: at most {MOST_CURVES} in one picture, got {len(wanted)}")
    return [known.index(name) for name in wanted]


def _results(run: RunContents, ending: Ending, columns: list[int]) -> Content:
    """What a finished run has reached: tables, and its scores against the truth."""
    header = ["part", "images", "mAP", "mAP, classes present", "precision", "recall", "F1"]
    keys = ("mean_average_precision", "mean_over_present", "precision", "recall", "f1")
    rows = []
    for part, found in ((part, ending.evaluation.get(part)) for part in PARTS):
        if found is not None:
            images = f"{len(run.judged[part].table):,}" if part in run.judged else "–"
            rows.append([part, images, *(spread([found[key]]) for key in keys)])
    ranked = {part: each for part, each in run.judged.items() if can_rank(each.truth)}
    content = {"metrics": (header, rows), "parts": PARTS, "classes": _class_table(run, ending)}
    return content | (_against_truth(run, ending, ranked, columns) if ranked else {})


def _class_table(run: RunContents, ending: Ending) -> Content:
    """Average precision of each class, the best first, and how its decisions do."""
    parts = [part for part in reversed(PARTS) if part in ending.evaluation]
    header = ["class", *(f"{part} AP" for part in parts)]
    figures = []
    for part in parts:
        if part in run.judged:
            judged = run.judged[part]
            scores = ending.decisions.calibrate(judged.scores)
            figures.append(class_figures(scores, judged.truth, ending.decisions.limits))
            header += [f"{part} positives", f"{part} precision", f"{part} recall"]
    header += ["threshold", "known positives", "known negatives", "new positives"]
    known = ending.completed.observed.values
    counts = [(known == sign).sum(axis=0) for sign in (POSITIVE, NEGATIVE)]
    counts.append(ending.completed.proposed().sum(axis=0))
    rows: list[Content] = []
    for column, name in enumerate(run.classes):
        cells: list[str] = []
        for own in (of_classes[column] for of_classes in figures):
            cells += [f"{own.positives:,}", spread([own.precision]), spread([own.recall])]
        limit = ending.decisions.thresholds[column]
        cells.append("never" if limit is None else f"{limit:.3f}")
        cells += [f"{count[column]:,}" for count in counts]
        shares = [ending.evaluation[part]["average_precision"][column] for part in parts]
        bars = [(spread([share]), share) for share in shares]
        rows.append({"name": name, "bars": bars, "cells": cells})
    rows.sort(key=lambda row: [1.0 if share is None else -share for _, share in row["bars"]])
    half = _MOST_ROWS // 2
    shown = rows if len(rows) <= _MOST_ROWS else rows[:half] + rows[-half:]
    return {"header": header, "rows": shown, "left_out": len(rows) > _MOST_ROWS, "half": half}


def _against_truth(
    run: RunContents, ending: Ending, ranked: Content, columns: list[int]
) -> Content:
    """Reliability, precision and recall."""
    part = "test" if "test" in ranked else "validation"
    truth = ranked[part].truth
    both = (truth == POSITIVE).any(axis=0) & (truth == NEGATIVE).any(axis=0)
    drawn = (
        [column for column in columns if both[column]] if columns else spread_classes(ranked[part])
    )
    return {
        "judged_part": part,
        "of_one_sign": [run.classes[column] for column in columns if not both[column]],
        "are_chosen": bool(columns),
        "reliability": reliability_chart(ranked, ending.decisions),
        "precision": precision_recall_chart(ranked[part], part, ending.decisions, drawn)
        if drawn
        else None,
    }


def _gallery(run: RunContents, ending: Ending, images: str | None) -> Content:
    """The labels to look at, with photos where they are to be found."""
    assert ending.scores is not None
    predicted = ending.decisions.calibrate(ending.scores.predicted)
    decided = ending.decisions.decide(predicted)
    opinions = Opinions(ending.completed, ending.soft, predicted, decided)
    shelves = make_shelves(opinions, photo_finder(run.config, images))
    bare = [card.image for shelf in shelves for card in shelf.cards if card.photo is None]
    return {"shelves": shelves, "bare": bare}
