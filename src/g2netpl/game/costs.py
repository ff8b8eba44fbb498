"""The cost of the network: a weighted soft cross-entropy plus the expected-positives regulariser.

Pure functions on logits. Every sum over entries is divided by B·L, so that one learning rate
fits batches of any size and any number of classes.
"""

import torch
from torch import Tensor
from torch.nn import functional

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
