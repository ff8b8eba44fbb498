"""What a step of G²NetPL costs: compared with a plain PyTorch step with the same head.

1. A step of `train_epoch` with `g2netpl` and two linear layers on 2,048-d features in memory, with
   20 and 80 classes, against a bare loop of the same mathematics: row fetch, the losses of both
   layers, R, and the step of the pseudo-labels. Bars: 1.25 (batch 16), 1.2 (batch 64). The note has
   the ratio to the loop that everybody writes: the same layers, cross-entropy, no pseudo-labels.
2. Memory of a method for a million images of 80 classes.

    python benchmarks/cost_of_the_game.py
"""

import argparse
import math
from collections.abc import Callable

import torch
from measure import Figure, observed_positives, one_thread, show, side_by_side
from torch import Tensor, nn
from torch.nn import functional

from g2netpl.core import Backbone, Batch, build_method, build_model, train_epoch
from g2netpl.core.annotation import pool, presence_logits
from g2netpl.core.equations import GaussianMap, confidence_weight, label_gradient
from g2netpl.core.losses import expected_positives, sampled_positive, soft_bce
from g2netpl.core.models import build_optimizer

WIDTH, K, BARS = 2_048, 2.9, {16: 1.25, 64: 1.2}


def game(order: list[Tensor], observed: Tensor, features: Tensor) -> Callable[[], None]:
    method = build_method("g2netpl", observed, k=K)
    backbone = Backbone(nn.Identity(), WIDTH)
    model = build_model(backbone, observed.shape[1], annotation="sampled", k=K)
    optimizer = build_optimizer("adam", model.head.parameter_groups(1e-3, 0.3), 1e-3)

    def step(loss: Tensor) -> bool:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return True

    def epoch() -> None:
        batches = (Batch(rows, observed[rows], features[rows]) for rows in order)
        train_epoch(model, method, batches, step, 0.5)

    return epoch


class Bare:
    """The loop that everybody writes: an unobserved label is negative, softmax on the tags."""

    def __init__(self, order: list[Tensor], observed: Tensor, features: Tensor) -> None:
        self.order, self.features, self.is_tag = order, features, observed == 1
        self.heads = [nn.Linear(WIDTH, observed.shape[1]) for _ in range(2)]
        groups = [{"params": list(head.parameters())} for head in self.heads]
        self.optimizer = torch.optim.Adam(groups, lr=1e-3, fused=True)

    def __call__(self) -> None:
        for rows in self.order:
            images, is_tag = self.features[rows], self.is_tag[rows]
            logits, tag_logits = (head(images) for head in self.heads)
            self.step(rows, is_tag, logits, tag_logits)

    def step(self, rows: Tensor, is_tag: Tensor, logits: Tensor, tag_logits: Tensor) -> None:
        positive = is_tag.float()
        loss = functional.binary_cross_entropy_with_logits(logits, positive)
        self.learn(loss - (positive * tag_logits.log_softmax(dim=1)).mean())

    def learn(self, loss: Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


class BareGame(Bare):
    """The mathematics of the game, and nothing else."""

    def __init__(self, order: list[Tensor], observed: Tensor, features: Tensor) -> None:
        super().__init__(order, observed, features)
        self.latents = torch.full(observed.shape, 0.5)
        self.regulariser = 10 / observed.shape[1] ** 1.5

    def step(self, rows: Tensor, is_tag: Tensor, logits: Tensor, tag_logits: Tensor) -> None:
        latent = self.latents[rows]
        soft, slope = GaussianMap().soft_and_slope(latent)
        targets = soft.masked_fill(is_tag, 1.0)
        weights = confidence_weight(soft, 0.5, 0.8, 0.3, 0.1).masked_fill_(is_tag, 1.0)
        loss = soft_bce(logits, targets, weights) + sampled_positive(tag_logits, is_tag.float())
        self.learn(loss + self.regulariser * expected_positives(logits, K))
        with torch.no_grad():
            softmax = presence_logits(tag_logits.log_softmax(dim=1) + math.log(K))
            gradient = label_gradient(soft, slope, pool(softmax, logits).sigmoid(), 1.0)
            self.latents.index_copy_(0, rows, latent.sub(gradient))


def step_times(rounds: int = 7, count: int = 60) -> list[Figure]:
    figures, random = [], torch.Generator().manual_seed(0)
    features = torch.rand(5_000, WIDTH, generator=random)
    with one_thread():
        for size, most in BARS.items():
            for classes in (20, 80):
                observed = observed_positives(len(features), classes)
                order = [torch.randperm(5_000, generator=random)[:size] for _ in range(count)]
                works = [make(order, observed, features) for make in (game, BareGame, Bare)]
                ours, same, plain = side_by_side(rounds, *works)
                what = f"step of the game : bare loop, batch {size}, {classes} classes"
                note = f"{1e6 * ours / count:.0f} µs; cross-entropy only: {ours / plain:.2f} ×"
                figures.append(Figure(what, ours / same, "{:.2f} ×", most=most, note=note))
    return figures


def memory(images: int = 1_000_000, classes: int = 80) -> list[Figure]:
    """Bytes of the labels and of all that a method keeps for each of them."""
    figures, observed = [], observed_positives(images, classes)
    for name in ("an", "g2netpl", "plmcl", "role"):
        method = build_method(name, observed, k=K)
        tensors = [*method.parameters(), *method.buffers()]
        bytes_each = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        bytes_each += 12 * sum(parameter.numel() for parameter in method.parameters())  # Adam
        what = f"memory of {images:,} × {classes} labels, {name}"
        figures.append(Figure(what, bytes_each / 2**20, "{:,.0f} MiB"))
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=60)
    flags = parser.parse_args()
    show([*step_times(flags.rounds, flags.steps), *memory()])
