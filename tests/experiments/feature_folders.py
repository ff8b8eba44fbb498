"""Features folders, made up: their columns tell the labels, more or less."""

import numpy as np

from g2netpl.images.features import FeatureFolder, write_features
from g2netpl.labels.table import LabelTable


def write_folder(folder, classes=("a", "b", "c"), unknown=0, seed=0, with_classifier=False):
    random = np.random.default_rng(seed)
    parts = []
    for name, count in (("train", 100), ("test", 40)):
        values = random.normal(size=(count, 6)).astype(np.float32)
        noise = random.normal(size=(count, len(classes)))
        labels = (values[:, : len(classes)] + noise > 0.3).astype(np.int8)
        labels[0], labels[1] = 1, 0
        labels[2 : 2 + (unknown if name == "train" else 0), 0] = -1
        parts += [values, LabelTable(tuple(f"{name}{i}" for i in range(count)), classes, labels)]
    classifier = None
    if with_classifier:
        weight = random.normal(size=(1000, 6)).astype(np.float32)
        classifier = weight, np.zeros(1000, np.float32)
    write_features(folder, FeatureFolder(*parts, classifier))
    return folder
