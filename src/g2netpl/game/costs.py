"""The cost of the network: a weighted soft cross-entropy plus the expected-positives regulariser.

Pure functions on logits. Every sum over entries is divided by B·L, so that one learning rate
fits batches of any size and any number of classes.
"""

import torch
from torch import Tensor
from torch.nn import functional

SPREAD = 0.5  # weight of the spread of log shares over the classes of an image
LITERAL_CLIP = 1e-3  # the printed order CE(ŷ, û) needs û away from 0 and 1


def soft_bce(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Σ weights · CE(targets, sigmoid(logits)) / (B·L)."""
    return functional.binary_cross_entropy_with_logits(logits, targets, weight=weights)


def reversed_bce(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Σ weights · CE(sigmoid(logits), targets) / (B·L): the argument order as printed (Eq. 7)."""
    clipped = targets.clamp(LITERAL_CLIP, 1.0 - LITERAL_CLIP)
    predicted = logits.sigmoid()
    entropy = -predicted * clipped.log() - (1.0 - predicted) * torch.log1p(-clipped)
    return (weights * entropy).sum() / logits.numel()


def expected_positives(logits: Tensor, expected: float) -> Tensor:
    """R = ((mean over the batch of Σ_j ŷ_j) − k)² / L², over all images of the batch."""
    return (logits.sigmoid().mean() - expected / logits.shape[1]).square()


def draw_cost(log_rates: Tensor, named: Tensor) -> Tensor:
    """−Σ named · log share / (B·L): every named label is one draw from what is in its image.

    Log shares that lie far apart cost too, where something was named: one name is weak evidence.
    """
    shares = functional.log_softmax(log_rates, dim=1)
    spread = shares.var(dim=1, correction=0) * named.sum(dim=1).clamp(max=1.0)
    return (SPREAD * spread.sum() - (named * shares).sum()) / shares.numel()
