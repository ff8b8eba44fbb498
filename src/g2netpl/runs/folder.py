"""The run folder: the names of its files, and which of them each command writes.

run.json          configuration, versions, fingerprint of the data, classes, image view
history.jsonl     one line per epoch
non_finite.jsonl  batches whose cost was not finite, if there were any
diverged.json     why a training was given up, if it was
checkpoints, labels   of a run that is not finished
model.safetensors the network of the chosen epoch
soft_labels.npy   (N, L) float32 in the order of the label file: observed values as they are,
                  soft labels of training images, predictions elsewhere
logits.npy        (N, L) float16: what the network says of every image, those it was trained on too;
                  as probabilities that few bits could not tell sure from very sure
labels.npz        the image names, what was observed about them, and which have soft labels
decisions.json    calibration and thresholds, see thresholds.py
classes.csv       each class with its threshold, and what that rests on
result.json       the figures, with the keys of a row of `g2netpl compare`
evaluation.json   per-class average precision, precision, recall and F1 of validation and test
scores.npz        names, logits and known labels of the validation and test images
report.html       all of this as a page, by `g2netpl report`
completed.csv     each image with its labels as tags, and those added, by `g2netpl complete`
decided.jsonl     what people had decided in reviews before the run began

.before holds the old results, while a run that replaces them has no checkpoint; see backup.py

review.jsonl, of `g2netpl review`, holds the answers of people: no training ever removes
it.
"""

from pathlib import Path

from g2netpl.base.disk import read_object

RUN = "run.json"
HISTORY, NON_FINITE, DIVERGED = "history.jsonl", "non_finite.jsonl", "diverged.json"
CHECKPOINTS, MEMORIES = "checkpoints", "labels"
MODEL, SOFT_LABELS, LOGITS, LABELS = (
    *("model.safetensors", "soft_labels.npy"),
    *("logits.npy", "labels.npz"),
)
THRESHOLDS, RESULT, EVALUATION = "decisions.json", "result.json", "evaluation.json"
CLASSES, COMPLETED = "classes.csv", "completed.csv"
HELD_OUT, REPORT, TRACKERS = "scores.npz", "report.html", "trackers.json"
DECIDED, REVIEW = "decided.jsonl", "review.jsonl"

RESULTS = ("results.json", "results.csv")
_SPLIT = ("labels/train.csv", "labels/test.csv")
FILES = {
    "train": (
        *(HISTORY, NON_FINITE, DIVERGED, MODEL, SOFT_LABELS, LOGITS, LABELS, DECIDED),
        *(THRESHOLDS, CLASSES, RESULT, EVALUATION, HELD_OUT, REPORT, TRACKERS),
        COMPLETED,
    ),
    "compare": (*RESULTS, "cells.jsonl", "report.html", *_SPLIT),
    "reproduce": ("cells.jsonl", "index.html", *_SPLIT),
    "demo": ("result.json", "report.html", "cells.jsonl", "comparison.html"),
    "features": ("train.npz", "test.npz", "meta.npz"),
    "plan": ("plan.json", "plan.txt", "curve.csv", "curve.png"),
}
WHOLE_FOLDERS = {"train": (CHECKPOINTS, MEMORIES)}
SHARED_FOLDERS = {  # others may keep things there
    "train": ("tensorboard",),
    "compare": ("runs", "labels"),
    "reproduce": ("labels",),
}
_PATTERNS = {"train": ("tensorboard/events.out.tfevents.*",)}


def contents(folder: Path, command: str) -> list[Path]:
    """What the command wrote there, as paths below the folder; run.json comes first."""
    names = (RUN, *FILES[command], *WHOLE_FOLDERS.get(command, ()))
    found = [folder / name for name in names]
    for pattern in _PATTERNS.get(command, ()):
        found += sorted(folder.glob(pattern))
    found += cells(folder, command)
    return [path.relative_to(folder) for path in found if path.exists()]


def cells(folder: Path, command: str) -> list[Path]:
    """The run folders that a comparison on images made, by their names and what is in them."""
    if command != "compare":
        return []
    found = sorted((folder / "runs").glob("* seed * rate * batch *"))
    return [path for path in found if command_of(path) == "train"]


def command_of(folder: Path) -> str | None:
    """Which command wrote a folder, as its run.json has it."""
    found = (read_object(folder / RUN) or {}).get("command")
    return found if isinstance(found, str) else None


def is_begun(folder: Path) -> bool:
    """Whether a command has begun to write there."""
    return (folder / RUN).is_file()


def is_finished(folder: Path) -> bool:
    """Whether the training there has its results."""
    return (folder / RESULT).is_file()
