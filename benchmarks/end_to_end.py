"""Training on image files against the bare network on a batch that lies in memory.

ResNet-50 at 224 px, batch 16, the same threads for both. Ours is everything that `fit` does between
the first and the last step of an epoch: loader workers, decoding, views, the label player. The bare
network sees one random batch again and again, after every epoch of ours, while the loader rests.
Bar: 0.9 of the bare rate.

    python benchmarks/end_to_end.py                      photos of 640 × 480 are made up
    python benchmarks/end_to_end.py --images photos      photos of your own
    python benchmarks/end_to_end.py --backbone lite0 --batches 40
"""

import argparse
import itertools
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from measure import Figure, make_photos, observed_positives, show
from torch.nn import functional

from g2netpl.game.methods import make_player
from g2netpl.game.network.network import build_backbone, build_network
from g2netpl.game.network.optimizers import make_optimizer
from g2netpl.game.player import Setup
from g2netpl.images.loader import ImageSource
from g2netpl.labels.paths import list_images
from g2netpl.runs.config import RunConfig
from g2netpl.training.epochs import Loop, Schedule, fit

CLASSES, SIZE, BATCH = 80, 224, 16


def end_to_end(
    images: str | None = None, name: str = "resnet50", batches: int = 6, epochs: int = 3
) -> list[Figure]:
    with tempfile.TemporaryDirectory() as made:
        if images is None:
            paths = make_photos(Path(made), BATCH * batches, 640, 480)
        else:
            paths = [f"{images}/{each}" for each in list_images(images)][: BATCH * batches]
        return _rates(paths, name, epochs)


def _rates(paths: list[str], name: str, epochs: int) -> list[Figure]:
    default = {key: field.default for key, field in RunConfig.model_fields.items()}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    backbone = build_backbone(name, pretrained=False)
    network = build_network(backbone, CLASSES).to(device).train()
    optimizer = make_optimizer("Adam", network.parameters(), 1e-4)
    observed = observed_positives(len(paths), CLASSES).to(device)
    source = ImageSource(
        paths,
        SIZE,
        backbone.mean,
        backbone.std,
        view=default["view"],
        workers=default["workers"],
    )
    inputs = torch.randn(BATCH, 3, SIZE, SIZE, device=device)
    labels = (torch.rand(BATCH, CLASSES, device=device) < 0.036).float()
    bare_seconds: list[float] = []

    def bare(*_: object) -> None:
        network.train()
        began = time.perf_counter()
        for _ in range(-(-len(paths) // BATCH)):
            optimizer.zero_grad()
            cost = functional.binary_cross_entropy_with_logits(network(inputs), labels)
            cost.backward()
            optimizer.step()
        float(cost)  # a GPU has to be done
        bare_seconds.append(time.perf_counter() - began)

    next(iter(source.decoded([np.arange(1)], None)))  # the workers start
    bare()  # to warm up
    bare_seconds.clear()
    bare()
    ended = fit(
        network,
        make_player("g2netpl", {}, Setup(observed, 2.9, 1e-4, deep=True)),
        source,
        observed,
        2.9,
        optimizer,
        Schedule(epochs, BATCH, seed=0, patience=0),
        loop=Loop(on_epoch=bare),
    )
    ours = [record["seconds"] for record in ended.history]
    around = [(before + after) / 2 for before, after in itertools.pairwise(bare_seconds)]
    rates = np.divide(around, ours)
    what, unit = f"{name} at {SIZE} px : bare network", "{:.2f} ×"
    note = f"{len(paths) / np.median(ours):.1f} images/s"
    return [Figure(what, float(np.median(rates)), unit, least=0.9, note=note)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images")
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--batches", type=int, default=6)
    flags = parser.parse_args()
    show(end_to_end(flags.images, flags.backbone, flags.batches))
