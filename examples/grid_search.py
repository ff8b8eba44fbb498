"""scikit-learn: PartialLabelClassifier on feature arrays, in a pipeline, in a GridSearchCV.

2,000 rows of features, 8 labels each, of which four in five are hidden, as if nobody had looked.
The grid tries two methods and two learning rates; each fold is scored by mAP over the labels
that are known in it. The baseline without this package is a logistic
regression per label that takes "unknown" as "no".

    python examples/grid_search.py

It writes `scores.npy`, the chosen classifier's scores of the test rows.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from g2netpl import PartialLabelClassifier

UNKNOWN = -1


def main() -> None:
    """Search, and hold the winner against the usual way."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--output", type=Path, default=Path("scores.npy"))
    flags = parser.parse_args()

    features, truth = make_data(flags.rows)
    half = flags.rows // 2
    labels = hide(truth[:half], share=0.8)
    print(f"{(labels != UNKNOWN).mean():.0%} of {labels.size} training labels are known")

    search = GridSearchCV(
        make_pipeline(StandardScaler(), PartialLabelClassifier(epochs=flags.epochs, batch_size=32)),
        {
            "partiallabelclassifier__method": ["epr", "g2netpl"],
            "partiallabelclassifier__learning_rate": [1e-2, 3e-3],
        },
        cv=3,
    )
    search.fit(features[:half], labels)
    found = search.cv_results_
    for place in np.argsort(found["rank_test_score"]):
        chosen = {key.partition("__")[2]: value for key, value in found["params"][place].items()}
        print(f"validation mAP {found['mean_test_score'][place]:.3f}  {chosen}")

    scores = search.predict_proba(features[half:])
    np.save(flags.output, scores)
    print(f"test mAP of the best: {average_precision_score(truth[half:], scores):.3f}")
    print(f"test mAP, unknown as no: {unknown_as_no(features, labels, truth, half):.3f}")


def make_data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (rows, 30) and full labels (rows, 8)."""
    return make_multilabel_classification(
        n_samples=rows, n_features=30, n_classes=8, n_labels=2, length=60, random_state=0
    )


def hide(truth: np.ndarray, share: float) -> np.ndarray:
    """The labels, most of them unknown."""
    hidden = np.random.default_rng(0).random(truth.shape) < share
    return np.where(hidden, UNKNOWN, truth)


def unknown_as_no(features: np.ndarray, labels: np.ndarray, truth: np.ndarray, half: int) -> float:
    """What a logistic regression reaches that takes every unknown label as negative."""
    usual = make_pipeline(StandardScaler(), MultiOutputClassifier(LogisticRegression()))
    usual.fit(features[:half], labels == 1)
    scores = np.stack([each[:, 1] for each in usual.predict_proba(features[half:])], axis=1)
    return average_precision_score(truth[half:], scores)


if __name__ == "__main__":
    warnings.filterwarnings("error")
    main()
