"""What should the network of one class per image say: shares of all classes, or a sigmoid for each?

    python benchmarks/one_of.py

Accuracy on a third of the data, handwritten digits of scikit-learn and fifty made classes, three
seeds, with 10 % and with all of the training part named; logistic regression knows the names alone.
It takes a few minutes.
"""

import numpy as np
from sklearn.datasets import load_digits, make_classification
from sklearn.linear_model import LogisticRegression

from g2netpl import PartialLabelClassifier

WAYS = {
    "one_of, draw": {"one_of": True},
    "one_of, sigmoids": {"one_of": True, "observation": "random"},
    "names alone": {},
}


def data(name, seed):
    """Features and classes of the training and of the test part."""
    if name == "digits":
        features, of = load_digits(return_X_y=True)
    else:
        how = {"n_informative": 40, "n_redundant": 10, "n_clusters_per_class": 1, "class_sep": 1.6}
        features, of = make_classification(3000, 64, n_classes=50, random_state=seed, **how)
    order = np.random.default_rng(seed).permutation(len(of))
    features = (features / features.std()).astype(np.float32)[order]
    cut = len(of) * 2 // 3
    return features[:cut], of[order][:cut], features[cut:], of[order][cut:]


def accuracies(name, share, seed):
    """Of every way."""
    features, of, test, truth = data(name, seed)
    named = np.random.default_rng(seed).random(len(of)) < share
    y = np.where(named[:, None] & (np.eye(of.max() + 1)[of] == 1), 1, -1)
    found = {}
    for way, keys in WAYS.items():
        model = PartialLabelClassifier(epochs=20, random_state=seed, **keys).fit(features, y)
        found[way] = (model.predict_proba(test).argmax(axis=1) == truth).mean()
    known = LogisticRegression(max_iter=300).fit(features[named], of[named])
    return {**found, "logistic regression": known.score(test, truth)}


for name in ("digits", "fifty"):
    for share in (0.1, 1.0):
        rows = [accuracies(name, share, seed) for seed in range(3)]
        shown = (f"{way} {100 * np.mean([row[way] for row in rows]):.1f}" for way in rows[0])
        print(f"{name}, {share:.0%} named: {', '.join(shown)}", flush=True)
