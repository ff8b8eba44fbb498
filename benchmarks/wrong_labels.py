"""Does the report find observed labels that are wrong?

    python benchmarks/wrong_labels.py PHOTOS --images 2000 --seeds 0,1,2

PHOTOS holds images and train.csv with full labels. One positive and three negatives per image stay
visible, 6 % of each are made wrong: a positive becomes a class that is not there, as often as it is
elsewhere; a negative one that is there. For several ways to rank the observed labels by suspicion:
how many of the first 50, and of the eight that a shelf of the report shows, are wrong indeed.
"""

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from g2netpl import RunConfig, read_labels, train
from g2netpl.labels.formats import csv_table
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelTable
from g2netpl.reports.gallery import clearest

SHARE_WRONG = 0.06


@dataclass
class Noisy:
    """What was observed, and which of it is wrong."""

    table: LabelTable
    wrong: np.ndarray  # (N, L) observed labels that are not true


def make_wrong(truth: LabelTable, seed: int) -> Noisy:
    random = np.random.default_rng(seed)
    seen = np.full(truth.values.shape, UNOBSERVED, dtype=np.int8)
    often = (truth.values == POSITIVE).mean(axis=0)
    for row, labels in enumerate(truth.values):
        there, absent = np.flatnonzero(labels == POSITIVE), np.flatnonzero(labels == NEGATIVE)
        if not len(there):
            continue
        if random.random() < SHARE_WRONG:
            seen[row, random.choice(absent, p=often[absent] / often[absent].sum())] = POSITIVE
        else:
            seen[row, random.choice(there)] = POSITIVE
        for _ in range(3):
            column = random.choice(there if random.random() < SHARE_WRONG else absent)
            if seen[row, column] == UNOBSERVED:
                seen[row, column] = NEGATIVE
    return Noisy(truth.with_values(seen), (seen != UNOBSERVED) & (seen != truth.values))


def suspicions(calibrated: np.ndarray) -> dict[str, np.ndarray]:
    """How likely each label is, by several measures; for a negative the more, the more suspect."""
    safe = np.clip(calibrated.astype(np.float64), 1e-9, 1 - 1e-9)
    logits = np.log(safe) - np.log1p(-safe)
    return {
        "calibrated score": logits,
        "less the mean of its class": logits - logits.mean(axis=0),
        "rank within its class": logits.argsort(axis=0).argsort(axis=0).astype(float),
        "rank within its image": logits.argsort(axis=1).argsort(axis=1).astype(float),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--methods", default="g2netpl,epr")
    flags = parser.parse_args()
    whole = read_labels(flags.photos / "train.csv")
    truth = whole.take(np.arange(min(flags.images, len(whole))))
    found: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    base: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for seed in (int(text) for text in flags.seeds.split(",")):
            noisy = make_wrong(truth, seed)
            csv_table.write(noisy.table, Path(scratch) / "noisy.csv")
            for method in flags.methods.split(","):
                config = RunConfig(
                    labels=f"{scratch}/noisy.csv",
                    images=str(flags.photos),
                    only_listed=True,
                    output=f"{scratch}/{method}-{seed}",
                    cache=f"{scratch}/cache",
                    method=method,
                    mode="linear",
                    image_size=128,
                    epochs=8,
                    seed=seed,
                    workers=1,
                )
                run = train(config)
                ranked = suspicions(run.thresholds.calibrate(run.predictions()))
                for name, value, sign in (("positive", POSITIVE, -1), ("negative", NEGATIVE, 1)):
                    mask = noisy.table.values == value
                    base.setdefault(name, []).append(float(noisy.wrong[mask].mean()))
                    for way, level in ranked.items():
                        order = np.argsort(-sign * level[mask], kind="stable")
                        shelf = clearest(sign * level, mask, 8)
                        shares = (
                            float(noisy.wrong[mask][order[:50]].mean()),
                            float(np.mean([noisy.wrong[place] for place in shelf])),
                        )
                        found.setdefault((method, name, way), []).append(shares)
    for name, shares in base.items():
        print(f"wrong among all observed as {name}: {100 * np.mean(shares):.1f} %")
    print("| method | observed as | ranked by | wrong of 50 | wrong of the shelf's 8 |")
    print("| --- | --- | --- | --- | --- |")
    for (method, name, way), pairs in found.items():
        top, shelf = 100 * np.mean(pairs, axis=0)
        print(f"| `{method}` | {name} | {way} | {top:.0f} % | {shelf:.0f} % |")


if __name__ == "__main__":
    main()
