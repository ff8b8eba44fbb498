"""What counted images bring: test mAP with n(x) from 0, 50, 100, 300 and all training images.

    python benchmarks/counts.py FEATURES
    python benchmarks/counts.py FEATURES --methods draw --seeds 0 --worth 0.25

One training per method, setting and seed; then the count is settled anew for each number of images,
whose true number of classes stands for what people would say. 20 % of the training images are held
out with full labels to choose the epoch by, and k is the truth's mean. Each line has test mAP at
the best and at the last epoch, mAP on validation, and k as the mean of the counts (and the truth).
"""

import argparse
from copy import deepcopy
from dataclasses import replace

import numpy as np
import torch

from g2netpl.game.network import presence
from g2netpl.images.features import FeatureFolder, read_features
from g2netpl.images.loader import ArraySource
from g2netpl.labels.table import POSITIVE
from g2netpl.runs.config import RunConfig
from g2netpl.runs.metrics import mean_average_precision
from g2netpl.training.session import on_features
from g2netpl.training.settling import settle

COUNTED = (0, 50, 100, 300, None)


def measure(folder: FeatureFolder, method: str, setting: str, seed: int, hidden: int) -> None:
    config = RunConfig(
        labels="features",
        output=".",
        method=method,
        setting=setting,
        seed=seed,
        mode="linear",
        validation=0.2,
        expected_positives="truth",
        epochs=10,
        batch_size=64,
        hidden=hidden,
        device="cpu",
    )
    session = on_features(config, folder.train_features, folder.train)
    snapshot = session.play()
    validation = session.inputs.validation("linear")
    assert validation is not None
    truth = (folder.train.values == POSITIVE).sum(axis=1).astype(float)
    test = ArraySource(torch.from_numpy(folder.test_features))
    order = np.random.default_rng([seed, 0x636E74]).permutation(session.data.training)
    for count in COUNTED:
        rows, counts = order[:count], np.full(len(truth), np.nan)
        counts[rows] = truth[rows]
        session.data = replace(session.data, counts=counts)
        now = deepcopy(snapshot)
        settle(session, now)
        best, last, held = (
            100 * mean_average_precision(session.predict(state, source), known)
            for state, source, known in (
                (now.best_network, test, folder.test.values),
                (now.network, test, folder.test.values),
                (now.best_network, validation.source, validation.truth),
            )
        )
        k = f"{truth[rows].mean():.2f}" if len(rows) else "–"
        what = f"{method}, {setting}, seed {seed}, {len(rows):,} counted"
        found = f"{best:.2f} / {last:.2f}; validation {held:.2f}; k {k} ({session.k:.2f})"
        print(f"{what}: {found}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("features")
    parser.add_argument("--methods", default="draw,g2netpl")
    parser.add_argument("--settings", default="fspl,sspl:0.2")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--hidden", type=int, default=0)
    parser.add_argument("--worth", type=float, default=presence.COUNT_WORTH)
    flags = parser.parse_args()
    presence.COUNT_WORTH = flags.worth
    data = read_features(flags.features)
    for method in flags.methods.split(","):
        for setting in flags.settings.split(","):
            for seed in map(int, flags.seeds.split(",")):
                measure(data, method, setting, seed, flags.hidden)
