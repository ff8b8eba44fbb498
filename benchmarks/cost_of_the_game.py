"""What the label player and the diagnostics cost, as ratios measured side by side in one run.

1. Linear training on 30,000 × 1,280 features, 80 classes, batch 64: the steps of an epoch, as `fit`
   does them, against a bare loop of the same mathematics on the same tensors in memory (rows by
   index_select, fused Adam, nothing else): for `an` a binary cross-entropy, for the game of two
   experts two layers, their costs and the step of the labels. Bar: 1.3. The game of one expert
   against the bare cross-entropy is told too, and ROLE.
2. The diagnostics of the equilibrium after the steps, as a share of the epoch. Bar: 10 %. And the
   same with a validation on 7,500 images, a quarter of those trained on, and their mAP.
3. propose + respond as a share of a ResNet-50 step at 224 px, batch 8. Bar: 1 %.

    python benchmarks/cost_of_the_game.py                      random features
    python benchmarks/cost_of_the_game.py --features DIR       a features folder
"""

import argparse
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from measure import Figure, observed_positives, one_thread, show
from torch.nn import functional

from g2netpl.core.equations import GaussianMap, confidence_weight, label_gradient
from g2netpl.core.losses import expected_positives, sampled_positive, soft_bce
from g2netpl.game.batches import Batch
from g2netpl.game.methods import make_player
from g2netpl.game.network.network import build_network
from g2netpl.game.network.optimizers import make_optimizer
from g2netpl.game.network.presence import logits_of_rates, pool
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

    def __init__(self, inputs: torch.Tensor, layers: int = 1) -> None:
        self.inputs = inputs
        self.labels = (torch.rand(COUNT, CLASSES) < EXPECTED / CLASSES).float()
        self.layers = [torch.nn.Linear(inputs.shape[1], CLASSES) for _ in range(layers)]
        self.optimizer = make_optimizer("Adam", self.layers[0].parameters(), 1e-3)
        for other in self.layers[1:]:
            self.optimizer.add_param_group({"params": other.parameters(), "lr": 3e-4})

    def epoch(self) -> None:
        """All images once."""
        for rows in torch.randperm(COUNT).split(BATCH):
            self.step(rows, self.inputs.index_select(0, rows))

    def step(self, rows: torch.Tensor, inputs: torch.Tensor) -> None:
        labels = self.labels.index_select(0, rows)
        self.learn(functional.binary_cross_entropy_with_logits(self.layers[0](inputs), labels))

    def learn(self, cost: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        cost.backward()
        self.optimizer.step()


class BareGame(Bare):
    """The same for the game of two experts, of labels of which one per image is known."""

    def __init__(self, inputs: torch.Tensor) -> None:
        super().__init__(inputs, layers=2)
        self.named = observed_positives(COUNT, CLASSES) == 1
        self.latents = torch.full((COUNT, CLASSES), 0.5)

    def step(self, rows: torch.Tensor, inputs: torch.Tensor) -> None:
        named, latent = self.named.index_select(0, rows), self.latents.index_select(0, rows)
        soft, slope = GaussianMap().soft_and_slope(latent)
        targets = soft.masked_fill(named, 1.0)
        weights = confidence_weight(soft, 0.5, 0.8, 0.3, 0.1).masked_fill_(named, 1.0)
        logits, shares = self.layers[0](inputs), self.layers[1](inputs).log_softmax(dim=1)
        cost = soft_bce(logits, targets, weights) + sampled_positive(shares, weights * named)
        self.learn(cost + 0.014 * expected_positives(logits, EXPECTED))
        with torch.no_grad():
            drawn = logits_of_rates(shares + math.log(EXPECTED))
            predicted = pool(drawn, logits).sigmoid()
            gradient = label_gradient(soft, slope, predicted, 1.0)
            self.latents.index_copy_(0, rows, latent.sub(gradient, alpha=0.1))


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


def timed(
    inputs: torch.Tensor, method: str, epochs: int, validate: bool = False, draws: bool = False
) -> Clock:
    order = np.random.default_rng(1).permutation(len(inputs))
    source, held_out = ArraySource(inputs), order[COUNT:]
    truth = (np.random.default_rng(2).random((HELD_OUT, CLASSES)) < 0.036).astype(np.int8)
    observed = observed_positives(COUNT, CLASSES)
    network = build_network(
        "features", CLASSES, width=inputs.shape[1], draws=EXPECTED if draws else None, pools=draws
    )
    optimizer = make_optimizer("Adam", network.parameters(), 1e-3)
    if draws:  # each expert has a rate of its own
        experts = network.classifier.sigmoids, network.classifier.shares
        optimizer = make_optimizer("Adam", experts[0].parameters(), 1e-3)
        optimizer.add_param_group({"params": experts[1].parameters(), "lr": 3e-4})
    clock = Clock((BareGame if draws else Bare)(inputs[:COUNT]))
    fit(
        network,
        make_player(method, {}, Setup(observed, EXPECTED, 1e-3)),
        Part(source, order[:COUNT]),
        observed,
        EXPECTED,
        optimizer,
        Schedule(epochs, BATCH, seed=0, patience=0),
        Validation(Part(source, held_out), truth) if validate else None,
        loop=clock.loop(),
    )
    return clock


def linear(folder: str | None = None, epochs: int = 7) -> list[Figure]:
    inputs = features_of(folder)
    with one_thread():
        pooled = timed(inputs, "g2netpl", epochs + 1, draws=True)
        game = timed(inputs, "g2netpl", epochs + 1)
        validated = timed(inputs, "g2netpl", epochs + 1, validate=True)
        other, role = (timed(inputs, method, epochs + 1) for method in ("an", "role"))
    what, then = "steps of a linear epoch : bare loop", "diagnostics of a linear epoch"
    note = "bare cross-entropy {:.2f} s, game {:.2f} s".format(
        *(np.median(each.theirs) for each in (other, pooled))
    )
    return [
        Figure(f"{what}, g2netpl, two experts", pooled.ratio, "{:.2f} ×", most=1.3, note=note),
        Figure(f"{what}, an", other.ratio, "{:.2f} ×", most=1.3),
        Figure(f"{what} of cross-entropy, g2netpl, one expert", game.ratio, "{:.2f} ×"),
        Figure(f"{what} of cross-entropy, role", role.ratio, "{:.2f} ×"),
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
