"""What the label player and the diagnostics cost, as ratios measured side by side in one run.

1. Linear training on 30,000 × 1,280 features, 80 classes, batch 64: the steps of an epoch, as `fit`
   does them, against a bare loop on the same tensors in memory (rows by index_select, binary
   cross-entropy, fused Adam, nothing else). Bar: 1.5.
2. The diagnostics of the equilibrium after the steps, as a share of the epoch. Bar: 10 %. And the
   same with a validation on 7,500 images, a quarter of those trained on, and their mAP.
3. propose + respond as a share of a ResNet-50 step at 224 px, batch 8. Bar: 1 %.

    python benchmarks/cost_of_the_game.py                      random features
    python benchmarks/cost_of_the_game.py --features DIR       a features folder
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from measure import Figure, observed_positives, one_thread, show
from torch.nn import functional

from g2netpl.game.batches import Batch
from g2netpl.game.methods import make_player
from g2netpl.game.network.network import build_network
from g2netpl.game.network.optimizers import make_optimizer
from g2netpl.game.network_step import network_cost
from g2netpl.game.player import Setup
from g2netpl.images.features import read_features
from g2netpl.images.loader import ArraySource, Part
from g2netpl.training.epochs import Loop, Schedule, Validation, fit

COUNT, HELD_OUT, WIDTH, CLASSES, BATCH, EXPECTED = 30_000, 7_500, 1_280, 80, 64, 2.9


def features_of(folder: str | None) -> torch.Tensor:
    if folder is None:
        random = np.random.default_rng(0)
        return torch.from_numpy(random.random((COUNT + HELD_OUT, WIDTH), dtype=np.float32))
    read = read_features(folder)
    both = np.concatenate([read.train_features, read.test_features])
    return torch.from_numpy(np.resize(both, (COUNT + HELD_OUT, both.shape[1])))


class Bare:
    """The loop everybody writes, on labels that are all known."""

    def __init__(self, inputs: torch.Tensor) -> None:
        self.inputs = inputs
        self.labels = (torch.rand(COUNT, CLASSES) < EXPECTED / CLASSES).float()
        self.network = torch.nn.Linear(inputs.shape[1], CLASSES)
        self.optimizer = make_optimizer("Adam", self.network.parameters(), 1e-3)

    def epoch(self) -> None:
        """All images once."""
        for rows in torch.randperm(COUNT).split(BATCH):
            logits = self.network(self.inputs.index_select(0, rows))
            labels = self.labels.index_select(0, rows)
            cost = functional.binary_cross_entropy_with_logits(logits, labels)
            self.optimizer.zero_grad()
            cost.backward()
            self.optimizer.step()


class Clock:
    """Processor seconds of `fit`: steps and diagnostics, and of a bare epoch between its epochs."""

    def __init__(self, bare: Bare) -> None:
        self.bare = bare
        self.steps: list[float] = []
        self.diagnostics: list[float] = []
        self.theirs: list[float] = []
        self._epoch = self._begun = self._trained = time.process_time()

    @property
    def ratio(self) -> float:
        """Our steps : a bare epoch; the first epoch warms up."""
        return float(np.median(np.divide(self.steps, self.theirs)[1:]))

    @property
    def share(self) -> float:
        """Of the time after the steps, of the whole."""
        whole = np.add(self.steps, self.diagnostics)
        return float(np.median(np.divide(self.diagnostics, whole)[1:]))

    def loop(self) -> Loop:
        """What `fit` shall call."""
        return Loop(stepping=self._stepping, on_trained=self._over, on_epoch=self._measured)

    @contextmanager
    def _stepping(self) -> Iterator[None]:
        self._begun = time.process_time()
        yield

    def _over(self, snapshot: object) -> None:
        self._trained = time.process_time()

    def _measured(self, snapshot: object) -> None:
        now = time.process_time()
        self.steps.append(self._trained - self._begun)
        self.diagnostics.append(now - self._epoch - self.steps[-1])
        self.bare.epoch()
        self._epoch = time.process_time()
        self.theirs.append(self._epoch - now)


def timed(inputs: torch.Tensor, method: str, epochs: int, validate: bool = True) -> Clock:
    order = np.random.default_rng(1).permutation(len(inputs))
    source, held_out = ArraySource(inputs), order[COUNT:]
    truth = (np.random.default_rng(2).random((HELD_OUT, CLASSES)) < 0.036).astype(np.int8)
    observed = observed_positives(COUNT, CLASSES)
    network = build_network("features", CLASSES, width=inputs.shape[1])
    clock = Clock(Bare(inputs[:COUNT]))
    fit(
        network,
        make_player(method, {}, Setup(observed, EXPECTED, 1e-3)),
        Part(source, order[:COUNT]),
        observed,
        EXPECTED,
        make_optimizer("Adam", network.parameters(), 1e-3),
        Schedule(epochs, BATCH, seed=0, patience=0),
        Validation(Part(source, held_out), truth) if validate else None,
        loop=clock.loop(),
    )
    return clock


def linear(folder: str | None = None, epochs: int = 7) -> list[Figure]:
    inputs = features_of(folder)
    with one_thread():
        game = timed(inputs, "g2netpl", epochs + 1, validate=False)
        validated = timed(inputs, "g2netpl", epochs + 1)
        other = timed(inputs, "an", epochs + 1)
    note = f"bare {np.median(game.theirs):.2f} s"
    what, then = "steps of a linear epoch : bare loop", "diagnostics of a linear epoch"
    return [
        Figure(f"{what}, g2netpl", game.ratio, "{:.2f} ×", most=1.5, note=note),
        Figure(f"{what}, an", other.ratio, "{:.2f} ×"),
        Figure(then, game.share, "{:.1%}", most=0.1),
        Figure(f"{then}, and validation", validated.share, "{:.1%}"),
    ]


def share_of_a_step(rounds: int = 20, size: int = 224, batch_size: int = 8) -> list[Figure]:
    network = build_network("resnet50", CLASSES, pretrained=False).train()
    optimizer = make_optimizer("Adam", network.parameters(), 1e-4)
    observed = observed_positives(batch_size, CLASSES)
    player = make_player("g2netpl", {}, Setup(observed, EXPECTED, 1e-4, deep=True))
    batch = Batch(torch.arange(batch_size), torch.randn(batch_size, 3, size, size), observed)
    shares, clock = [], time.process_time
    with one_thread():
        for step in range(rounds + 1):
            began = clock()
            proposal = player.propose(batch, 0.5, torch.sigmoid)
            proposed = clock()
            optimizer.zero_grad()
            logits = network(batch.inputs)
            network_cost(logits, proposal, EXPECTED).backward()
            optimizer.step()
            predicted = logits.detach().sigmoid()
            moved = clock()
            player.respond(batch, predicted, 0.5)
            ended = clock()
            player.end_epoch()
            if step > 0:
                shares.append((proposed - began + ended - moved) / (ended - began))
    what = f"propose + respond of a ResNet-50 step, {size} px"
    return [Figure(what, float(np.median(shares)), "{:.3%}", most=0.01, note=f"median of {rounds}")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", help="a features folder instead of random numbers")
    parser.add_argument("--rounds", type=int, default=20)
    flags = parser.parse_args()
    show([*linear(flags.features), *share_of_a_step(flags.rounds)])
