"""One example of 3 images and 4 classes, small enough to work losses out by hand."""

import math

import torch

from g2netpl.core import Batch, Output, build_method

# predictions f and observed labels; the other labels are unobserved (−1)
F = torch.tensor([[0.8, 0.5, 0.2, 0.1], [0.6, 0.5, 0.9, 0.5], [0.5, 0.25, 0.5, 0.75]])
OBSERVED = torch.tensor([[1, -1, 0, -1], [-1, -1, 1, -1], [-1, -1, -1, -1]], dtype=torch.int8)
LOGITS = torch.logit(F)
BATCH = Batch(torch.arange(3), OBSERVED)
K = 2.0
# Σ f = 1.6 + 2.5 + 2.0 = 6.1, mean per image 6.1/3 = 2.033333, R = (0.033333/4)² = 6.944444e-5
R = ((6.1 / 3 - 2) / 4) ** 2

SEEN = (0.8, 0.9)  # f of the observed positives
ABSENT = 0.2  # f of the observed negative
UNKNOWN = (0.5, 0.1, 0.6, 0.5, 0.5, 0.5, 0.25, 0.5, 0.75)  # f of the nine unobserved labels


def minus_log(value: float) -> float:
    """−log."""
    return -math.log(value)


POSITIVE_LOSS = sum(map(minus_log, SEEN))
NEGATIVE_LOSS = minus_log(1 - ABSENT)
UNKNOWN_AS_NEGATIVE = sum(minus_log(1 - f) for f in UNKNOWN)
UNKNOWN_AS_POSITIVE = sum(map(minus_log, UNKNOWN))


def make(name, observed=OBSERVED, epochs=10, seed=0, **options):
    """A method on the example."""
    return build_method(name, observed, k=K, epochs=epochs, seed=seed, **options)


def loss_of(method, phi=0.0, observed=OBSERVED):
    """The loss on the example, of a method or a name."""
    method = make(method, observed) if isinstance(method, str) else method
    return float(method.loss(Output(LOGITS), Batch(torch.arange(3), observed), phi))


def gradient_of(method, phi=0.0):
    """The gradient of the loss with respect to the logits."""
    logits = LOGITS.clone().requires_grad_()
    method.loss(Output(logits), BATCH, phi).backward()
    return logits.grad
