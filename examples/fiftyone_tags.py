"""FiftyOne: labels of a data set to a label file, and predictions of a run back into the data set.

    python examples/fiftyone_tags.py my-dataset --labels labels.csv
    g2netpl train --labels labels.csv --images photos --output runs/first
    python examples/fiftyone_tags.py my-dataset --run runs/first

Labels are the classifications of `--field`; predictions with a score of 0.5 or more go to the field
`predicted`. Needs `pip install fiftyone`.
"""

import argparse
import os

import fiftyone as fo
import numpy as np

from g2netpl import LabelTable, load_run, write_labels


def read_tags(dataset: fo.Dataset, field: str, images: str) -> LabelTable:
    """What the classifications name is positive, the rest is unknown."""
    named = [set(each or ()) for each in dataset.values(f"{field}.classifications.label")]
    classes = sorted(set().union(*named))
    values = np.array([[1 if name in each else -1 for name in classes] for each in named])
    paths = [os.path.relpath(path, images) for path in dataset.values("filepath")]
    return LabelTable(paths, classes, values)


def write_predictions(dataset: fo.Dataset, run: str) -> None:
    """Every class with a score of 0.5 or more."""
    trained = load_run(run)
    found = []
    for scores in trained.predict(dataset.values("filepath")):
        pairs = [(name, float(s)) for name, s in zip(trained.classes, scores, strict=True)]
        labels = [fo.Classification(label=name, confidence=s) for name, s in pairs if s >= 0.5]
        found.append(fo.Classifications(classifications=labels))
    dataset.set_values("predicted", found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dataset")
    parser.add_argument("--field", default="ground_truth")
    parser.add_argument("--images", default="photos", help="folder that names are relative to")
    parser.add_argument("--labels", help="label file to write")
    parser.add_argument("--run", help="run folder to predict with")
    flags = parser.parse_args()
    data = fo.load_dataset(flags.dataset)
    if flags.labels:
        write_labels(read_tags(data, flags.field, flags.images), flags.labels, "tags")
    if flags.run:
        write_predictions(data, flags.run)
