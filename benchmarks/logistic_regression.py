"""A linear run with its defaults against scikit-learn's logistic regression on the same features.

Two kinds of labels: one or two tags on 55 % of the images, where logistic regression takes
everything untagged for negative, and 30 % of all labels known, positives and negatives. Its C is
chosen by cross-validation, per class, on standardised features. Both train on all images: the runs
have `--validation 0`, and their last epoch counts. Test mAP.

    python benchmarks/logistic_regression.py FEATURES [--images 2000] [--seeds 0,1,2]
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegressionCV
from sklearn.preprocessing import StandardScaler
from trust import tags, trained

from g2netpl.images.features import read_features
from g2netpl.runs.metrics import ranked_map

C = (1e-4, 1e-3, 1e-2, 1e-1)


def logistic_regression(x: np.ndarray, seen: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Scores (N, L) of the test images, a model per class."""
    scores = np.zeros((len(test), seen.shape[1]), dtype=np.float32)
    for column, labels in enumerate(seen.T):
        known = labels >= 0
        if min((labels == 1).sum(), (labels == 0).sum()) < 3:
            continue
        model = LogisticRegressionCV(
            Cs=C,
            cv=3,
            scoring="average_precision",
            max_iter=200,
            l1_ratios=(0,),
            use_legacy_attributes=False,
        )
        scores[:, column] = model.fit(x[known], labels[known]).decision_function(test)
    return scores


def main() -> None:
    """Print a line for every kind of labels and seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("features")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--test-images", type=int, default=4000)
    parser.add_argument("--seeds", default="0,1,2")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    read = read_features(flags.features)
    head = np.load(Path(flags.features) / "imagenet_head.npz")
    classifier = torch.from_numpy(head["weight"]).float(), torch.from_numpy(head["bias"]).float()
    assert read.test is not None
    assert read.test_features is not None
    test = np.asarray(read.test_features[: flags.test_images], dtype=np.float32)
    truth = read.test.values[: flags.test_images]
    for seed in map(int, flags.seeds.split(",")):
        random = np.random.default_rng([seed, 5])
        rows = random.permutation(len(read.train.values))[: flags.images]
        x, full = np.asarray(read.train_features[rows], dtype=np.float32), read.train.values[rows]
        some = np.where(random.random(full.shape) < 0.3, full, -1).astype(np.int8)
        scaler = StandardScaler().fit(x)
        tagged = tags(full, seed)
        for kind, seen, negative in (("tags", tagged, tagged == 1), ("30 % known", some, some)):
            found = []
            for prior in ("none", "names"):
                keys = {"prior": prior, "seed": seed, "validation": 0}
                trainer = trained(x, seen, read.train.classes, classifier, **keys)
                with torch.no_grad():
                    scores = trainer.full_model.eval().predict(torch.from_numpy(test)).numpy()
                found.append(f"{prior} {100 * ranked_map(scores, truth):.1f}")
            theirs = np.asarray(negative, dtype=np.int8)
            scores = logistic_regression(scaler.transform(x), theirs, scaler.transform(test))
            print(
                f"seed {seed}, {kind}: g2netpl, prior {', '.join(found)}; "
                f"logistic regression {100 * ranked_map(scores, truth):.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
