"""What a report says of a run in words and tables: the facts, the figures, each class."""

import os
from typing import Any, cast

import numpy as np

from g2netpl.base.errors import counted
from g2netpl.game.methods import METHODS
from g2netpl.labels.table import NEGATIVE, POSITIVE
from g2netpl.runs.completion import Completed
from g2netpl.runs.config import Mode
from g2netpl.runs.curves import class_figures
from g2netpl.runs.records import Content, Reading
from g2netpl.runs.run import Run
from g2netpl.runs.tables import PARTS
from g2netpl.training.equilibrium import collapsed, restless, restless_words

UNFINISHED = (
    "This run is not finished: there are curves, and no results yet. Go on with g2netpl train "
    "--resume, then write the report again."
)
_MOST_ROWS = 400  # of the table of classes


def beginning(run: Run, completed: Completed | None) -> Content:
    """The name, the main figures, and what was trained on what."""
    config, data = run.config, run.about["data"]
    lead = (
        f"{config.method} on {_file(config.labels)}: {counted(data['training_images'], 'image')}, "
        f"{len(run.classes):,} classes, {data['observed_fraction']:.2%} of the labels observed."
    )
    return {
        "lead": lead if run.is_finished else f"{lead} Not finished yet.",
        "tiles": [] if completed is None else _tiles(run, completed),
        "notes": _notes(run),
        "facts": _facts(run),
    }


def _facts(run: Run) -> list[tuple[str, str]]:
    config, data = run.config, run.about["data"]
    method = METHODS.get(config.method)
    changed = ", ".join(f"{key} = {value}" for key, value in config.options.items())
    kept = (run.is_finished and run.held_out) or {}
    phase: Mode = "linear" if config.mode == "linear" else "end-to-end"
    facts = [
        (
            "Labels",
            f"{_file(config.labels)}: {data['images']:,} images, {len(run.classes):,} classes",
        ),
        (
            "Trained on",
            f"{data['training_images']:,} images with {data['observed_fraction']:.2%} of their "
            f"labels observed (setting {config.setting})",
        ),
        *(
            (f"{part.capitalize()} images", f"{len(kept[part].table):,}{_from(labels)}")
            for part, labels in (
                ("validation", config.validation_labels),
                ("test", config.test_labels),
            )
            if part in kept
        ),
        ("Method", f"{config.method}: {method.summary}" if method else config.method),
        ("Options", changed),
        ("Network", f"{config.backbone} at {config.image_size} px, {config.mode}"),
        ("Expected positives", f"k = {run.expected_positives:.2f} per image"),
        (
            "Training",
            f"{len(run.history)} epochs, batches of {config.batch_size}, {config.optimizer} at "
            f"{config.rate(phase):g}, seed {config.seed}",
        ),
        ("Epoch", data["chosen_epoch"]),
        ("Decisions", str(run.thresholds) if run.is_finished else ""),
        ("Time", _time(run.result["seconds"]) if run.is_finished else ""),
        ("Versions", ", ".join(f"{name} {of}" for name, of in run.about["versions"].items())),
    ]
    return [(term, text) for term, text in facts if text]


def _tiles(run: Run, completed: Completed) -> list[tuple[str, str, str]]:
    """The figures that a person looks for first."""
    result, tiles, kept = run.result, [], run.held_out or {}
    for part, figure in (("test", result["test_map"]), ("validation", result["validation_map"])):
        if figure is not None:
            images = len(kept[part].table) if part in kept else None
            more = f"epoch {result['best_epoch']}" + (f", {images:,} images" if images else "")
            tiles.append((f"{part} mAP", f"{100 * figure:.1f} %", more))
    if result["last_test_map"] is not None and result["best_epoch"] != len(run.history):
        last = f"epoch {len(run.history)}"
        tiles.append(("test mAP, last epoch", f"{100 * result['last_test_map']:.1f} %", last))
    new = int(completed.proposed().sum())
    tiles.append(
        ("new positives", f"{new:,}", f"{new / max(len(completed.observed), 1):.2f} per image")
    )
    if result["undecided"] is not None:
        share = f"{100 * result['undecided']:.0f} %"
        tiles.append(("undecided labels", share, "after the last epoch"))
    return tiles


def _notes(run: Run) -> list[str]:
    """What a person should not overlook."""
    notes = [] if run.is_finished else [UNFINISHED]
    last: Reading = run.history[-1] if run.history else {}
    if run.is_finished:
        result = run.result
        if result["validation_map"] is not None and 1 < len(run.history) == result["best_epoch"]:
            notes.append(
                "The best epoch is the last one: with more epochs it may become better still."
            )
        silent = sum(limit is None for limit in run.thresholds.per_class)
        if silent:
            notes.append(f"{silent:,} of {len(run.classes):,} classes are never proposed.")
    if (last.get("undecided") or 0) > 0.5:
        notes.append(f"{last['undecided']:.0%} of the soft labels are still undecided.")
    if restless(run.history):
        words = restless_words(run.history)
        notes.append(f"{words[0].upper()}{words[1:]}.")
    k = run.expected_positives
    if k and last.get("soft_positives") is not None and collapsed(last, k):
        notes.append(
            f"The network predicts {last['predicted_positives']:.1f} positives per image, k is "
            f"{k:.2f}. Calibration corrects the level of its scores; if mAP suffers, try a "
            "smaller --learning-rate."
        )
    return notes


def results(run: Run, completed: Completed | None) -> Content:
    """The table of parts and the table of classes."""
    if completed is None:
        return {"finished": False}
    header = ["part", "images", "mAP", "mAP, classes present", "precision", "recall", "F1"]
    rows, missing, kept = [], [], run.held_out or {}
    keys = ("mean_average_precision", "mean_over_present", "precision", "recall", "f1")
    for part in PARTS:
        found: Content | None = cast(Any, run.evaluation.get(part))
        if found is None:
            missing.append(f"There are no {part} images with labels.")
            continue
        images = f"{len(kept[part].table):,}" if part in kept else "–"
        rows.append([part, images, *(_percent(found[key]) for key in keys)])
        if found["mean_average_precision"] is None:
            missing.append(f"The {part} labels name no negatives, so mAP cannot be had from them.")
    return {
        "finished": True,
        "metrics": {"header": header, "rows": rows, "missing": missing},
        "classes": _class_table(run, completed),
    }


def _class_table(run: Run, completed: Completed) -> Content:
    """Average precision of each class, the best first, and how its decisions do."""
    parts = [part for part in reversed(PARTS) if part in run.evaluation]
    found = {part: run.evaluation[part]["average_precision"] for part in parts}
    header = ["class", *(f"{part} AP" for part in parts)]
    figures = {}
    for part in parts:
        if run.held_out is not None and part in run.held_out:
            held_out = run.held_out[part]
            scores = run.thresholds.calibrate(held_out.scores)
            figures[part] = class_figures(scores, held_out.truth, run.thresholds.limits)
            header += [f"{part} positives", f"{part} precision", f"{part} recall"]
    header += ["threshold", "known positives", "known negatives", "new positives"]
    known = run.labels.observed
    counts = [
        *((known == sign).sum(axis=0) for sign in (POSITIVE, NEGATIVE)),
        completed.proposed().sum(axis=0),
    ]
    rows: list[Content] = []
    for column, name in enumerate(run.classes):
        shares: list[float | None] = [found[part][column] for part in parts]
        cells: list[str] = []
        for of_classes in figures.values():
            own = of_classes[column]
            cells += [f"{own.positives:,}", _percent(own.precision), _percent(own.recall)]
        limit = run.thresholds.per_class[column]
        cells.append("never" if limit is None else f"{limit:.3f}")
        cells += [f"{count[column]:,}" for count in counts]
        bars = [(_percent(share), share) for share in shares]
        rows.append({"name": name, "bars": bars, "cells": cells})
    rows.sort(key=lambda row: [1.0 if share is None else -share for _, share in row["bars"]])
    about = (
        "In percent, the best average precision (AP) first; precision and recall at the class's "
        "threshold. Known labels are those of the label file that the run could see, new positives "
        "those that it would fill in."
    )
    if len(rows) > _MOST_ROWS:
        half = _MOST_ROWS // 2
        about += f" The first and the last {half} of {len(rows):,}; evaluation.json has all."
        rows = rows[:half] + rows[-half:]
    return {"header": header, "rows": rows, "about": about}


def _file(path: str) -> str:
    """A path without the folders above it, which are nobody's business."""
    return os.path.basename(os.path.normpath(path))


def _from(path: str | None) -> str:
    return "" if path is None else f" of {_file(path)}"


def _percent(share: float | None) -> str:
    return "–" if share is None or np.isnan(share) else f"{100 * share:.1f}"


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
