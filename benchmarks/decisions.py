"""Do decisions reach the precision that was asked for?

Without a folder: classes are drawn whose true precision at any threshold is known, and
`precision:0.9` is chosen on 1,000 images, by the bounds and, for comparison, by the precision seen
there. With a features folder: a run with a setting, a fifth held out with full labels, and
what `complete --confidence P` fills in, against the truth.

    python benchmarks/decisions.py
    python benchmarks/decisions.py FEATURES --images 4000 --setting fspl --seeds 0,1
"""

import argparse

import numpy as np
import torch
from scipy.stats import norm

from g2netpl.images.features import read_features
from g2netpl.labels.table import LabelTable
from g2netpl.runs.completion import fill_in
from g2netpl.runs.config import RunConfig
from g2netpl.runs.precision_bounds import guaranteed_thresholds, ranked_scores
from g2netpl.runs.tables import HeldOut
from g2netpl.runs.thresholds import confident_thresholds
from g2netpl.training.calibration import calibrate
from g2netpl.training.datamodule import TensorDataModule
from g2netpl.training.results import completed_labels, thresholds_of
from g2netpl.training.splits import observe_data
from g2netpl.training.trainer import Trainer

TARGET, CLASSES, IMAGES = 0.9, 40, 1000
SURE = (0.8, 0.9, 0.95)


def by_what_was_seen(columns, target):
    """The lowest threshold at which 5 or more labels have the precision, as before the bounds."""

    def lowest(scores, labels):
        ranked, hits, chosen = ranked_scores(scores, labels)
        good = ranked[(hits / chosen >= target) & (chosen >= 5)]
        return good[-1] if len(good) else None

    common = lowest(*(np.concatenate(each) for each in zip(*columns, strict=True)))
    own = [labels.sum() >= 10 for _, labels in columns]
    limits = [lowest(*each) if o else common for each, o in zip(columns, own, strict=True)]
    kinds = ["seen" if o else "common" for o in own]
    return limits, ["never" if x is None else k for x, k in zip(limits, kinds, strict=True)]


def simulate(positives, rule, repeats=25):
    """How each kind of class does on fresh data, where each has so many validation positives."""
    found = {}
    for repeat in range(repeats):
        random = np.random.default_rng([repeat, positives])
        apart, level = random.uniform(2, 7, CLASSES), random.normal(0, 0.7, CLASSES)
        share = positives / IMAGES
        base = np.log(share / (1 - share))
        labels = (random.random((IMAGES, CLASSES)) < share).astype(float)
        seen = random.normal(size=labels.shape) + labels * apart
        scores = apart * seen - apart**2 / 2 + base + level
        limits, grounds = rule(list(zip(scores.T, labels.T, strict=True)), TARGET)
        for each, (limit, ground) in enumerate(zip(limits, grounds, strict=True)):
            kept = found.setdefault(ground.partition(":")[0], [])
            if limit is None:
                kept.append((np.nan, 0.0))
                continue
            place = (limit - level[each] - base) / apart[each] + apart[each] / 2
            recall, wrong = norm.sf(place - apart[each]), (1 - share) * norm.sf(place)
            kept.append((share * recall / (share * recall + wrong), recall))
    for kind, kept in sorted(found.items()):
        precision, recall = np.array(kept).T
        told = f"{positives} positives, {kind}: {len(kept) / CLASSES / repeats:.0%} of the classes"
        if kind != "never":
            told += f", {(precision >= TARGET).mean():.0%} keep the promise, "
            told += f"precision {precision.mean():.3f}, recall {recall.mean():.2f}"
        print(told, flush=True)


def fill(features, images, setting, method, seed):
    """What is filled in after a training, and how much of it is right."""
    rows = np.random.default_rng([seed, 5]).permutation(len(features.train.values))[:images]
    table = LabelTable(
        tuple(map(str, rows)), features.train.classes, truth := features.train.values[rows]
    )
    config = RunConfig.read(
        {"labels": "-", "output": "-", "setting": setting, "seed": seed, "method": method}
        | {"mode": "linear", "epochs": 15, "batch_size": 64},
        "decisions",
    )
    data = observe_data(config, table)
    inputs = TensorDataModule(data, torch.from_numpy(features.train_features[rows]))
    trainer = Trainer(config, data, inputs)
    state = trainer.fit()
    calibrate(trainer)
    predicted = trainer.predict(state.best_model, inputs.all("linear"))
    soft = trainer.pseudo_labels()
    held = HeldOut(data.validation, predicted[data.held_out])
    scores, truths = held.scores, held.table.values
    thresholds = thresholds_of(trainer, (scores, truths), predicted[data.training])
    completed = completed_labels(data, predicted, soft)
    has_soft, known = np.zeros(images, dtype=bool), data.table.values.copy()
    has_soft[data.training], known[data.training] = soft is not None, data.visible.values
    observed = LabelTable(table.images, table.classes, known)
    for sure in SURE:
        by = confident_thresholds(sure, thresholds, (scores, truths), observed.values, trainer.k)
        parts = (thresholds, trainer.k)
        both = fill_in(observed, has_soft, completed, *parts, sure, predicted)
        none = np.zeros(images, dtype=bool)
        bound = fill_in(observed, none, predicted, *parts, by, predicted)
        for name, filled in (("both players", both), ("bounds", bound)):
            new = [(filled.values == sign) & (observed.values == -1) for sign in (1, 0)]
            right = [
                f"{(truth[each] == sign).mean():.1%}" if each.any() else "none"
                for each, sign in zip(new, (1, 0), strict=True)
            ]
            print(
                f"{setting}, {images:,} images, seed {seed}, {method}, sure {sure}, {name}: "
                f"{new[0].sum():,} positives {right[0]}, {new[1].sum():,} negatives {right[1]}",
                flush=True,
            )
        print(f"  positives: {by.positive.kinds}; negatives: {by.negative.kinds}")


def main() -> None:
    """Print a line for everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("features", nargs="?")
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--setting", default="fspl")
    parser.add_argument("--method", default="g2netpl")
    parser.add_argument("--seeds", default="0,1")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    if flags.features is None:
        for rule in (by_what_was_seen, guaranteed_thresholds):
            print(rule.__name__)
            for positives in (3, 5, 10, 30, 100):
                simulate(positives, rule)
        return
    features = read_features(flags.features)
    for seed in map(int, flags.seeds.split(",")):
        fill(features, flags.images, flags.setting, flags.method, seed)


if __name__ == "__main__":
    main()
