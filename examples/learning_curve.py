"""What would more labels improve? mAP on held-out rows over growing fractions of the labels.

The shape of scikit-learn's `learning_curve`, but rows without labels stay in training: they are
the images that you have not labelled yet.

    python examples/learning_curve.py                     features that are made up
    python examples/learning_curve.py --features DIR      a folder that `g2netpl features` made
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import make_multilabel_classification
from sklearn.model_selection import KFold

from g2netpl import PartialLabelClassifier


def main() -> None:
    """Train on growing fractions in every fold, and print the mean mAP of each size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--features", type=Path)
    parser.add_argument("--epochs", type=int, default=10)
    flags = parser.parse_args()
    if flags.features is None:
        features, labels = make_multilabel_classification(
            n_samples=900, n_features=30, n_classes=8, length=60, random_state=0
        )
    else:
        arrays = np.load(flags.features / "train.npz")
        features, labels = arrays["features"], arrays["labels"]
    for fraction in (0.05, 0.1, 0.2, 0.5, 1.0):
        scores = []
        for train, test in KFold(3, shuffle=True, random_state=0).split(features):
            train = np.random.default_rng(0).permutation(train)
            known, size = labels[train], round(fraction * len(train))
            known[size:] = -1
            model = PartialLabelClassifier(epochs=flags.epochs, learning_rate=1e-2)
            scores.append(model.fit(features[train], known).score(features[test], labels[test]))
        print(f"{size:6,} labelled: mAP {np.mean(scores):.3f} ± {np.std(scores):.3f}", flush=True)


if __name__ == "__main__":
    main()
