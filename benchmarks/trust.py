"""Can people with tags only trust the labels that are added?

Images of a features folder, 55 % of them with one or two tags, no negatives and no truth. A linear
run with its defaults learns from that; its labels are then compared with the truth: new positives,
the calibration of their probabilities, and k.

    python benchmarks/trust.py FEATURES [--seeds 0,1,2] [--images 100,400,4000] [--prior none]
    python benchmarks/trust.py FEATURES --classes 15      the commonest: some images show none
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from g2netpl.core.inference import predict_all
from g2netpl.core.models import Backbone
from g2netpl.images.features import read_features
from g2netpl.labels.table import LabelTable
from g2netpl.runs.train_config import TrainConfig
from g2netpl.training.calibration import calibrate
from g2netpl.training.datamodule import TensorDataModule
from g2netpl.training.splits import observe_data
from g2netpl.training.trainer import Trainer

BINS = ((0.5, 0.7), (0.7, 0.9), (0.9, 1.01))


def tags(truth: np.ndarray, seed: int) -> np.ndarray:
    """One or two tags on 55 % of the images, sampled from what is there; −1 elsewhere."""
    random = np.random.default_rng([seed, 17])
    seen = np.full(truth.shape, -1, dtype=np.int8)
    for row in np.flatnonzero(random.random(len(truth)) < 0.55):
        there = np.flatnonzero(truth[row] == 1)
        count = min(len(there), int(random.integers(1, 3)))
        seen[row, random.permutation(there)[:count]] = 1
    return seen


def trained(
    features: np.ndarray,
    seen: np.ndarray,
    classes: tuple[str, ...],
    classifier: tuple[torch.Tensor, torch.Tensor] | None,
    **keys: object,
) -> Trainer:
    """A linear run with its defaults, with the calibrated model of its best epoch."""
    table = LabelTable(tuple(f"{row}.jpg" for row in range(len(seen))), classes, seen)
    config = TrainConfig.read(
        {"mode": "linear", "device": "cpu", "batch_size": 64, **keys}, "trust"
    )
    data = observe_data(config, table)
    backbone = Backbone(torch.nn.Identity(), features.shape[1], classifier=classifier)
    trainer = Trainer(
        config, data, TensorDataModule(data, torch.from_numpy(features), backbone=backbone)
    )
    trainer.fit()
    calibrate(trainer)
    trainer.load_model(trainer.state.best_model)
    return trainer


def main() -> None:
    """Print a line for every run, and the calibration of all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("features")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--images", default="100,400,4000")
    parser.add_argument("--classes", type=int, help="so many, the commonest (default: all)")
    parser.add_argument("--prior", default="names", help="names or none")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    keys = dict(pair.split("=", 1) for pair in flags.set)
    read, path = read_features(flags.features), Path(flags.features) / "imagenet_head.npz"
    head = np.load(path)
    classifier = torch.from_numpy(head["weight"]).float(), torch.from_numpy(head["bias"]).float()
    often = np.argsort(-(read.train.values == 1).sum(axis=0), kind="stable")[: flags.classes]
    chosen = np.sort(often)
    classes = tuple(read.train.classes[column] for column in chosen)
    for count in map(int, flags.images.split(",")):
        found = []
        for seed in map(int, flags.seeds.split(",")):
            rows = np.random.default_rng([seed, 5]).permutation(len(read.train.values))[:count]
            truth = read.train.values[rows][:, chosen] == 1
            seen = tags(truth.astype(np.int8), seed)
            features = np.asarray(read.train_features[rows], dtype=np.float32)
            own = {"prior": flags.prior, "seed": seed, **keys}
            trainer = trained(features, seen, classes, classifier, **own)
            p, k = predict_all(trainer.model, trainer.inputs.all("linear")), trainer.k
            unknown = seen == -1
            new = unknown & (p >= 0.5)
            found.append((p[unknown], truth[unknown]))
            print(
                f"{count:,} images, seed {seed}: k {k:.2f} ({truth.sum(axis=1).mean():.2f}); "
                f"{new.sum():,} new positives, {truth[new].mean():.0%} right, "
                f"{(truth & new).sum() / (truth & unknown).sum():.0%} of all found",
                flush=True,
            )
        p, y = (np.concatenate(part) for part in zip(*found, strict=True))
        for low, high in BINS:
            here = (p >= low) & (p < high)
            text = f"{y[here].mean():.0%} right, mean {p[here].mean():.0%}" if here.any() else "–"
            print(f"   probability {low} to {min(high, 1.0):.1f}: {here.sum():,} added, {text}")


if __name__ == "__main__":
    main()
