"""Where soft labels of all images and classes are too many: keep some, or train on a sample.

    python benchmarks/fewer_labels.py FEATURES                       both questions, fspl, seed 0
    python benchmarks/fewer_labels.py FEATURES --images 10000 --what top

top      of each image the m largest soft labels are kept, and one number for all others (their
         mean), in every write of a training: 5 m + 2 bytes an image instead of 4 L
sample   a share of the images is trained on with all its soft labels; the others are predicted

Printed: mAP of test images, label mAP (soft labels of the training images against the truth, part
of which was hidden), and for the sample how right the labels are that `complete --labels` decides.
"""

import argparse

import numpy as np
import torch

from g2netpl.experiments.label_quality import label_maps
from g2netpl.game.label_memory import LabelMemory
from g2netpl.images.features import read_features
from g2netpl.images.loader import ArraySource
from g2netpl.labels.table import LabelTable
from g2netpl.runs.config import RunConfig
from g2netpl.runs.metrics import mean_average_precision
from g2netpl.training.results import thresholds_of
from g2netpl.training.session import on_features
from g2netpl.training.settling import settle


class Sparse(LabelMemory):
    """A memory that keeps the m largest of each image, and the mean of the others."""

    kept = 0

    def write(self, rows, latents):
        order = latents.argsort(dim=1, descending=True)
        rest = order[:, self.kept :]
        mean = latents.gather(1, rest).mean(dim=1, keepdim=True)
        super().write(rows, latents.scatter(1, rest, mean.expand_as(rest)))


def train(features, rows, flags, observation, kept=None):
    """A training on some images; gives its session and what it settled on."""
    table = LabelTable(tuple(map(str, rows)), features.train.classes, features.train.values[rows])
    config = RunConfig.read(
        {"labels": "-", "output": "-", "setting": flags.setting, "seed": flags.seed}
        | {"mode": "linear", "epochs": flags.epochs, "batch_size": 64, "learning_rate": 1e-3}
        | {"observation": observation},
        "fewer_labels",
    )
    session = on_features(config, np.asarray(features.train_features[rows]), table)
    if kept is not None:
        Sparse.kept = kept
        for memory in session.player.memories.values():
            memory.__class__ = Sparse
    snapshot = session.play()
    settle(session, snapshot)
    return session, snapshot


def top(features, flags):
    """Dense against the m largest."""
    rows = np.random.default_rng([flags.seed, 7]).permutation(len(features.train))[: flags.images]
    source = ArraySource(torch.from_numpy(np.asarray(features.test_features)))
    for observation in flags.observations.split(","):
        for kept in (None, 20, 10, 5, 2):
            session, snapshot = train(features, rows, flags, observation, kept)
            said = session.predict(snapshot.best_network, source)
            data, soft = session.data, session.player.soft_labels().float().numpy()
            truth = features.train.values[rows][data.training]
            maps = label_maps(soft, truth, data.visible.values)
            found = mean_average_precision(said, features.test.values)
            print(
                f"{observation}, {'all' if kept is None else kept} soft labels an image: test mAP "
                f"{100 * found:.1f}, label mAP {100 * maps['pseudo_label_map']:.1f}, unobserved "
                f"{100 * maps['pseudo_label_map_unobserved']:.1f}",
                flush=True,
            )


def sample(features, flags):
    """A share that is trained on, and what is said of images that were not."""
    order = np.random.default_rng([flags.seed, 8]).permutation(len(features.train))[: flags.images]
    source = ArraySource(torch.from_numpy(np.asarray(features.test_features)))
    truth = features.test.values == 1
    for share in (0.03, 0.1, 0.3, 1.0):
        rows = order[: round(share * len(order))]
        session, snapshot = train(features, rows, flags, flags.observations.split(",")[0])
        said = session.predict(snapshot.best_network, source)
        held = session.inputs.validation(session.mode)
        scores = session.predict(snapshot.best_network, held.source)
        seen = session.predict(snapshot.best_network, session.inputs.training(session.mode))
        thresholds = thresholds_of(session, (scores, held.truth), seen)
        decided = thresholds.decide(thresholds.calibrate(said))
        hits = (decided & truth).sum()
        print(
            f"trained on {len(rows):,} images: mAP of the rest "
            f"{100 * mean_average_precision(said, features.test.values):.1f}, of its completed "
            f"positives {hits / decided.sum():.1%} are right and {hits / truth.sum():.1%} found, "
            f"{(decided == truth).mean():.2%} of all labels right",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("features")
    parser.add_argument("--what", default="top,sample")
    parser.add_argument("--images", type=int, default=30_000)
    parser.add_argument("--setting", default="fspl")
    parser.add_argument("--observations", default="auto")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    torch.set_num_threads(1)
    features = read_features(flags.features)
    for each in flags.what.split(","):
        {"top": top, "sample": sample}[each](features, flags)


if __name__ == "__main__":
    main()
