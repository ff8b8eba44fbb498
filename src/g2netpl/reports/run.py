"""The report of a run: how good it is, which classes are weak, what was added, what to look at.

An unfinished run has its curves so far. The words are in templates/run.html.
"""

import os
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from g2netpl import __version__
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, per_class
from g2netpl.reports.gallery import make_gallery, read_photo
from g2netpl.reports.page import write_page
from g2netpl.reports.plots import (
    over_epochs,
    plot_diagnostics,
    plot_lines,
    plot_precision_recall,
    plot_reliability,
)
from g2netpl.reports.tables import as_text
from g2netpl.runs.completion import Completed, complete_run, completed_by_pseudo_labels
from g2netpl.runs.metrics import can_rank
from g2netpl.runs.records import REPORT, Content, EquilibriumMetrics
from g2netpl.runs.run import Run
from g2netpl.runs.tables import SPLITS, HeldOut
from g2netpl.utils.errors import InputError

_MOST_ROWS = 400  # of the table of classes
_WEAKEST = 6  # classes on the first screen


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
    content = _curves(run) | {"results": None, "gallery": None, "unseen": []}
    if run.is_finished:
        completed = complete_run(run)
        content["results"] = _results(run, completed)
        content |= _gallery(run, completed, images) if gallery else {}
    path = run.folder / REPORT if output is None else output
    name = run.folder.resolve().name
    return write_page(path, "run.html", version=__version__, run=run, name=name, **content)


def _curves(run: Run) -> Content:
    """Curves over the epochs, and what is wrong with them."""
    history, k = run.history, run.expected_positives
    last: EquilibriumMetrics = history[-1] if history else {}
    predicted = last.get("predicted_positives")
    scores = over_epochs("validation mAP × 100", [history], "validation_map", 100)
    best = run.result["best_epoch"] if run.is_finished else None
    ring = f"The ring marks epoch {best}, which was chosen." if best in scores.x else ""
    loss = over_epochs("mean loss", [history], "cost")
    curves = [
        plot_lines("Validation mAP", [scores], "mAP × 100", mark=best, note=ring),
        plot_lines("Training loss", [loss], "mean loss"),
    ]
    return {
        "unresolved": last.get("unresolved"),
        "off_k": predicted if predicted and not k / 3 <= predicted <= 3 * k else None,
        "has_pseudo": any(record.get("unresolved") is not None for record in history),
        "curves": [plot for plot in curves if plot.rows],
        "diagnostics": plot_diagnostics({"run": [history]}, k),
    }


def _results(run: Run, completed: Completed) -> Content:
    """Metrics, classes, additions, and scores against known labels."""
    usable = {part: images.judged(run.expected_positives) for part, images in run.held_out.items()}
    judged = {part: images for part, images in usable.items() if images is not None}
    ranked = {part: images for part, images in judged.items() if can_rank(images.truth)}
    # the split that the run is judged on: test, if there is one
    split = next((part for part in reversed(SPLITS) if part in run.evaluation), None)
    new, names = completed.added(), np.array(run.classes, dtype=object)
    counts, is_tagged = new.sum(axis=0), (run.labels.observed == POSITIVE).any(axis=0)
    most = np.argsort(-counts, kind="stable")[:5]
    frame = _class_table(run, completed, split, judged.get(split or ""))
    scores = frame["AP"].dropna() if split is not None else pd.Series()
    reasons = set(run.thresholds.reasons)
    return {
        "completed": completed,
        "classes": as_text(frame[:_MOST_ROWS].reset_index()),
        "reason": reasons.pop() if len(reasons) == 1 else "",
        "left_out": max(len(frame) - _MOST_ROWS, 0),
        "weakest": list(scores[: min(_WEAKEST, -(-len(scores) // 2))].items()),
        "split": split,
        "untagged": names[~is_tagged].tolist(),
        "without_new": names[(counts == 0) & is_tagged].tolist(),
        "new": int(counts.sum()),
        "most_new": [(names[at], int(counts[at])) for at in most if counts[at]],
        "confidence": float(completed.scores[new].mean()) if new.any() else None,
        "plots": [
            plot_reliability(ranked, run.thresholds),
            plot_precision_recall(ranked, run.thresholds),
        ]
        if ranked
        else [],
    }


def _class_table(
    run: Run, completed: Completed, split: str | None, judged: HeldOut | None
) -> pd.DataFrame:
    """A row per class, the lowest average precision first."""
    frame = pd.DataFrame(index=pd.Index(run.classes, name="class"))
    if split is not None:
        scores = run.evaluation[split]["average_precision"]
        frame["AP"] = np.array(scores, dtype=float)
    if judged is not None:
        decided = run.thresholds.decide(run.thresholds.calibrate(judged.scores))
        positive, proposed = judged.truth == POSITIVE, decided & (judged.truth != UNOBSERVED)
        hits = pd.Series((positive & proposed).sum(axis=0), frame.index)
        frame["precision"] = hits / proposed.sum(axis=0)
        frame["recall"] = hits / positive.sum(axis=0)
        frame[f"{split} positives"] = positive.sum(axis=0)
    if not run.thresholds.single_label:
        frame["threshold"] = np.array(run.thresholds.per_class, dtype=float)
    frame["observed positives"] = per_class(run.labels.observed, POSITIVE)
    frame["observed negatives"] = per_class(run.labels.observed, NEGATIVE)
    frame["added"] = completed.added().sum(axis=0)
    if len(set(run.thresholds.reasons)) > 1:
        frame["threshold by"] = run.thresholds.reasons
    return frame if split is None else frame.sort_values("AP", kind="stable")


def _gallery(run: Run, completed: Completed, images: str | None) -> Content:
    """Labels to check, with photos if they can be found."""
    predicted = run.thresholds.calibrate(run.predictions())
    sections = make_gallery(
        *(completed, completed_by_pseudo_labels(run), run.labels.has_soft),
        *(predicted, run.thresholds.decide(predicted)),
        partial(read_photo, config=run.config, images=images),
    )
    unseen = [card.image for section in sections for card in section.cards if card.photo is None]
    return {"gallery": sections, "unseen": unseen}
