"""A run folder of `g2netpl train` as one page: what was trained on what, and how it went.

A run that is not finished has curves alone. Where a picture is missing, a sentence says why.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from g2netpl import __version__
from g2netpl.base.errors import InputError, counted, did_you_mean
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
from g2netpl.reports.run_facts import UNFINISHED, beginning, results
from g2netpl.runs.contents import RunContents, read_contents
from g2netpl.runs.folder import Content
from g2netpl.runs.metrics import can_rank

PAGE = "report.html"
MOST_CURVES = 12  # in one picture
_CONTENTS = (
    ("what", "What was trained"),
    ("results", "Results"),
    ("classes", "Classes"),
    ("curves", "Learning curves"),
    ("players", "The two players"),
    ("soft", "Soft labels"),
    ("reliability", "Reliability"),
    ("precision", "Precision and recall"),
    ("gallery", "Labels to look at"),
)
_NOT_YET = "Not to be had before the run is finished."


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
    return write_page(
        run.folder / PAGE if output is None else output,
        "run.html",
        name=run.name,
        contents=[each for each in _CONTENTS if run.ending is not None or each[0] != "classes"],
        unfinished=UNFINISHED,
        version=__version__,
        **beginning(run),
        **results(run),
        **_epochs(run),
        **_against_truth(run, columns),
        **_gallery(run, images, gallery),
    )


def _columns(known: tuple[str, ...], wanted: Sequence[str]) -> list[int]:
    """Where the wanted classes are."""
    for name in wanted:
        if name not in known:
            raise InputError(f"--classes: no class {name!r} ({did_you_mean(name, known)})")
    if len(wanted) > MOST_CURVES:
        raise InputError(f"--classes: at most {MOST_CURVES} in one picture, got {len(wanted)}")
    return [known.index(name) for name in wanted]


def _epochs(run: RunContents) -> Content:
    """Pictures over the epochs."""
    best = None if run.ending is None else run.ending.result["best_epoch"]
    plays = any(record.get("undecided") is not None for record in run.history)
    notes = []
    if run.config.mode == "linear-init":
        first = run.config.linear_epochs
        notes.append(f"Up to epoch {first} the last layer was trained alone, then everything.")
    if run.history and all(record.get("validation_map") is None for record in run.history):
        chosen = run.about["data"]["chosen_epoch"]
        notes.append(f"There is no curve of mAP. Epoch: {chosen}.")
    alone = f"The method {run.config.method} keeps no soft labels: the network plays alone."
    alone = alone if run.history and not plays else ""
    return {
        "curves": learning_curves(run.history, best) if run.history else [],
        "curves_notes": notes,
        "players": player_charts(run.history, run.k),
        "players_missing": alone,
        "histogram": histogram_chart(run.history, "Soft labels of unobserved entries"),
        "histogram_missing": alone or "This run has kept no histogram.",
    }


def _against_truth(run: RunContents, columns: list[int]) -> Content:
    """Reliability, precision and recall; or why not."""
    ending = run.ending
    ranked = {part: each for part, each in run.judged.items() if can_rank(each.truth)}
    if ending is None or not ranked:
        why = _why_no_truth(run)
        return {"reliability_missing": why, "precision_notes": [why]}
    part = "test" if "test" in ranked else "validation"
    judged = ranked[part]
    truth = judged.truth
    both = (truth == POSITIVE).any(axis=0) & (truth == NEGATIVE).any(axis=0)
    drawn = [column for column in columns if both[column]]
    notes = [
        f"{run.classes[column]}: the {part} labels are all of one sign, so there is no curve."
        for column in columns
        if not both[column]
    ]
    if not columns:
        drawn = spread_classes(judged)
        notes.append(
            "Classes from the best to the weakest average precision; --classes draws others."
            if drawn
            else f"No class has positives enough in the {part} labels for a curve."
        )
    return {
        "reliability": reliability_chart(ranked, ending.decisions),
        "precision": precision_recall_chart(judged, part, ending.decisions, drawn)
        if drawn
        else None,
        "precision_notes": notes,
    }


def _why_no_truth(run: RunContents) -> str:
    if run.ending is None:
        return _NOT_YET
    if run.ending.scores is None:
        return "This run was trained by a version that kept no scores; train again to see more."
    if not run.judged:
        return "There are no validation or test images with labels to hold the scores against."
    parts = " and ".join(run.judged)
    return f"The {parts} labels name no negatives, so nothing can be held against them."


def _gallery(run: RunContents, images: str | None, wanted: bool) -> Content:
    """The labels to look at, with photos where they are to be found."""
    ending = run.ending
    if not wanted:
        return {"gallery_about": "Left out, as asked for by --no-gallery."}
    if ending is None:
        return {"gallery_about": _NOT_YET}
    if ending.scores is None:
        return {"gallery_about": _why_no_truth(run)}
    predicted = ending.decisions.calibrate(ending.scores.predicted)
    opinions = Opinions(
        ending.completed, ending.soft, predicted, ending.decisions.decide(predicted)
    )
    about = (
        "Soft labels are those of the last epoch, predictions those of the chosen one; both are "
        "calibrated."
    )
    shelves = make_shelves(opinions, photo_finder(run.config, images))
    bare = [card.image for shelf in shelves for card in shelf.cards if card.photo is None]
    if bare:
        about += (
            f" {counted(len(bare), 'photo')} cannot be shown, the first is {bare[0]}: not there, "
            "or not readable; --images names another folder."
        )
    return {"shelves": shelves, "gallery_about": about}
