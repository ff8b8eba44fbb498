"""Can a person with tags alone trust the labels that are filled in?

400 and 4,000 images of a features folder, 55 % of them with one or two tags, no negatives, no
truth. `PartialLabelClassifier` learns from that; its labels are then compared with the truth: new
positives, `--confidence`, the commonest class, k.

    python benchmarks/trust.py FEATURES [--seeds 0,1,2] [--annotation sampled|random]
    python benchmarks/trust.py FEATURES --classes 15      the commonest: some images show none
"""

import argparse

import numpy as np
import torch

from g2netpl import PartialLabelClassifier
from g2netpl.images.features import read_features

SURE = (0.8, 0.9, 0.95)


def tags(truth: np.ndarray, seed: int) -> np.ndarray:
    """One or two names for 55 % of the images, drawn from what is there; −1 elsewhere."""
    random = np.random.default_rng([seed, 17])
    seen = np.full(truth.shape, -1, dtype=np.int8)
    for row in np.flatnonzero(random.random(len(truth)) < 0.55):
        there = np.flatnonzero(truth[row] == 1)
        count = min(len(there), int(random.integers(1, 3)))
        seen[row, random.permutation(there)[:count]] = 1
    return seen


def line(chances: np.ndarray, decided: np.ndarray, truth: np.ndarray, seen: np.ndarray) -> str:
    """The figures of one training."""
    unknown, positive = seen == -1, truth == 1
    new = decided & unknown
    found = [
        f"new positives {new.sum():,}: {positive[new].mean():.0%} right, "
        f"{(positive & new).sum() / (positive & unknown).sum():.0%} of all found"
    ]
    for sure in SURE:
        yes, no = (chances >= sure) & unknown, (1 - (1 - chances) ** 2 <= 1 - sure) & unknown
        right = f"{positive[yes].mean():.0%}" if yes.any() else "none"
        found.append(
            f"sure {sure}: {yes.sum():,} positives {right}, "
            f"{no.sum() / unknown.sum():.0%} negatives {1 - positive[no].mean():.1%}"
        )
    common = int(positive.sum(axis=0).argmax())
    found.append(
        f"commonest class on {decided[:, common].mean():.0%} ({positive[:, common].mean():.0%})"
    )
    return "; ".join(found)


def main() -> None:
    """Print a line for every training."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("features")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--images", default="400,4000")
    parser.add_argument("--classes", type=int, help="so many, the commonest (default: all)")
    parser.add_argument("--annotation", help="instead of what the labels look like")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    read = read_features(flags.features)
    often = np.argsort(-(read.train.values == 1).sum(axis=0), kind="stable")[: flags.classes]
    for count in map(int, flags.images.split(",")):
        for seed in map(int, flags.seeds.split(",")):
            rows = np.random.default_rng([seed, 5]).permutation(len(read.train.values))[:count]
            truth = read.train.values[rows][:, np.sort(often)]
            seen = tags(truth, seed)
            inputs = read.train_features[rows]
            own = {} if flags.annotation is None else {"annotation": flags.annotation}
            model = PartialLabelClassifier(random_state=seed, epochs=30, batch_size=64, **own)
            model.fit(inputs, seen)
            chances = model.predict_proba(inputs)
            decided = model.predict(inputs).astype(bool)
            k = f"k {model.expected_positives_:.2f} ({(truth == 1).sum(axis=1).mean():.2f})"
            print(
                f"{count:,} images, seed {seed}: {k}; {line(chances, decided, truth, seen)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
