"""The run folder: the names of its files.

run.json          configuration, versions, fingerprint of the data, classes, image view
history.jsonl     one line per epoch
non_finite.jsonl  batches whose cost was not finite, if there were any
checkpoints       of a run that is not finished
model.safetensors the network of the chosen epoch
soft_labels.npy   (N, L) float32 in the order of the label file: observed values as they are,
                  soft labels of training images, predictions elsewhere
logits.npy        (N, L) float16: what the network says of every image, those it was trained on too;
                  as probabilities that few bits could not tell sure from very sure
labels.npz        the image names, what was observed about them, and which have soft labels
decisions.json    calibration and thresholds, see thresholds.py
names.csv         what the class names mean to the backbone's classifier, if they are used
classes.csv       each class with its threshold, and what that rests on
result.json       the figures, with the keys of a row of `g2netpl compare`
evaluation.json   per-class average precision, precision, recall and F1 of validation and test
scores.npz        names, logits and known labels of the validation and test images
report.html       all of this as a page, by `g2netpl report`
completed.csv     each image with its labels as tags, and those added, by `g2netpl complete`
decided.jsonl     what people had decided in reviews before the run began

review.jsonl, of `g2netpl review`, holds the answers of people: no training ever removes
it.
"""

from pathlib import Path

RUN = "run.json"
HISTORY, NON_FINITE = "history.jsonl", "non_finite.jsonl"
CHECKPOINTS = "checkpoints"
MODEL, SOFT_LABELS, LOGITS, LABELS = (
    *("model.safetensors", "soft_labels.npy"),
    *("logits.npy", "labels.npz"),
)
THRESHOLDS, RESULT, EVALUATION = "decisions.json", "result.json", "evaluation.json"
CLASSES, NAMES, COMPLETED = "classes.csv", "names.csv", "completed.csv"
HELD_OUT, REPORT, TRACKERS = "scores.npz", "report.html", "trackers.json"
DECIDED, REVIEW = "decided.jsonl", "review.jsonl"

RESULTS = ("results.json", "results.csv")


def is_begun(folder: Path) -> bool:
    """Whether a command has begun to write there."""
    return (folder / RUN).is_file()


def is_finished(folder: Path) -> bool:
    """Whether the training there has its results."""
    return (folder / RESULT).is_file()
