"""Loss functions on logits. Every sum over entries is divided by B·L.

So one learning rate fits batches of any size and any number of classes.
"""

import torch
from torch import Tensor
from torch.nn import functional

from g2netpl.utils import distributed

SPREAD_WEIGHT = 0.5  # of the variance of log-probabilities over classes
LITERAL_CLIP = 1e-3  # the printed argument order CE(ŷ, û) needs û away from 0 and 1


def soft_bce(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Σ weights · CE(targets, sigmoid(logits)) / (B·L)."""
    return functional.binary_cross_entropy_with_logits(logits, targets, weight=weights)


def reversed_bce(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Σ weights · CE(sigmoid(logits), targets) / (B·L): the argument order as printed (Eq. 7)."""
    clipped = targets.clamp(LITERAL_CLIP, 1.0 - LITERAL_CLIP)
    predicted = logits.sigmoid()
    entropy = -predicted * clipped.log() - (1.0 - predicted) * torch.log1p(-clipped)
    return (weights * entropy).sum() / logits.numel()


def expected_positives(logits: Tensor, k: float) -> Tensor:
    """R = ((mean over the batch of Σ_j ŷ_j) − k)² / L², over all images of the batch.

    With several ranks the batch is that of all ranks.
    """
    mean = distributed.mean_over_ranks(logits.sigmoid().mean())
    return (mean - k / logits.shape[1]).square()


def sampled_positive(tag_logits: Tensor, is_tag: Tensor) -> Tensor:
    """−Σ over tags of log softmax / (B·L): each tag is sampled from the image's positives.

    A variance penalty on the log-probabilities of tagged images prevents overconfidence: one tag
    is weak evidence against all other classes.
    """
    log_probability = functional.log_softmax(tag_logits, dim=1)
    is_tagged = is_tag.sum(dim=1).clamp(max=1.0)
    spread = log_probability.var(dim=1, correction=0) * is_tagged
    tags = (is_tag * log_probability).sum()
    return (SPREAD_WEIGHT * spread.sum() - tags) / log_probability.numel()
