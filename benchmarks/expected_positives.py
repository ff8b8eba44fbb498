"""How far the estimate of k is from the truth, over settings and seeds.

    python benchmarks/expected_positives.py                    the built-in scenes
    python benchmarks/expected_positives.py --features DIR     and a features folder

For each data set, features and setting: mean ± standard deviation of the estimate over three seeds,
the true mean number of positives per image, and how the estimate was made.
"""

import argparse

import numpy as np
import torch

from g2netpl.core.models import build_backbone
from g2netpl.images.features import Features, compute_features, read_features
from g2netpl.images.loader import ArraySource
from g2netpl.images.scenes import Scenes, make_scenes
from g2netpl.labels.settings import Setting, observe
from g2netpl.labels.table import LabelTable
from g2netpl.training import expected_positives as expected

SETTINGS = ("fspl", "sspl:0.2", "positives:2+0", "positives:1+1", "known:0.1", "biased:frequency")


def scene_features(scenes: Scenes, name: str) -> Features:
    backbone = build_backbone(name, image_size=64)
    mean, std = (torch.tensor(each)[:, None, None] for each in (backbone.mean, backbone.std))
    pixels = torch.from_numpy(scenes.train_images).permute(0, 3, 1, 2).float() / 255
    return compute_features(backbone.module, ArraySource((pixels - mean) / std))


def show(name: str, features: Features, table: LabelTable) -> None:
    truth = float((table.values == 1).sum(axis=1).mean())
    for setting in SETTINGS:
        found = []
        for seed in range(3):
            visible = observe(table, Setting.parse(setting), seed).values
            k, how, _ = expected.estimate(visible, None, lambda rows: features[rows], seed)
            found.append(k)
        print(
            f"{name}, {setting}: {np.mean(found):.2f} ± {np.std(found):.2f}, "
            f"true {truth:.2f}; {how}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features")
    flags = parser.parse_args()
    scenes = make_scenes()
    for backbone in ("tiny", "lite0"):
        show(f"scenes, {backbone}", scene_features(scenes, backbone), scenes.train)
    if flags.features is not None:
        folder = read_features(flags.features)
        for count in (6_000, 24_000):
            rows = range(min(count, len(folder.train)))
            show(
                f"features, {count:,}", folder.train_features[: len(rows)], folder.train.take(rows)
            )
