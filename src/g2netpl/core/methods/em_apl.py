"""EM and APL: unobserved labels are left unknown, and later the most certain negatives are learnt.

EM maximises the entropy of the predictions of unobserved labels: −α·H(p). In the second half APL
adds negative pseudo-labels: per class the unobserved labels with the lowest predictions of the
previous epoch, a fraction that grows to θ, each with that prediction as its soft target. (The
authors choose labels once and keep them; here they are chosen again in every epoch.)
"""

from typing import Any

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from g2netpl.core.algorithm import POSITIVE, UNOBSERVED, Batch
from g2netpl.core.annotation import Output
from g2netpl.core.methods.base import Method, MethodOptions, register

_SOURCE, _GRID = "Zhou et al., ECCV 2022", ("entropy_weight", (0.01, 0.03, 0.1))


@register(
    "em-apl", "EM, later with pseudo-labels: the lowest scores become negative", _SOURCE, grid=_GRID
)
@register("em", "maximise the entropy of unobserved labels", _SOURCE, grid=_GRID, negatives=0.0)
class AsymmetricPseudoLabels(Method):
    """Cross-entropy of observed labels and negative pseudo-labels, negative entropy of others."""

    class Options(MethodOptions):
        entropy_weight: float = Field(default=0.1, ge=0, description="α: weight of the entropy")
        negatives: float = Field(
            default=0.9, ge=0, lt=1, description="θ: final fraction of negatives"
        )
        negatives_weight: float = Field(default=0.9, ge=0, description="β: weight of one of them")
        start: float = Field(default=0.5, ge=0, lt=1, description="fraction of epochs before them")

    predictions: Tensor  # (N, L), of the previous epoch
    thresholds: Tensor  # (L,): an unobserved label predicted below is a negative pseudo-label

    def __init__(self, observed: Tensor, *options: Any, **more: Any) -> None:
        super().__init__(observed, *options, **more)
        half = torch.full(observed.shape, 0.5, device=observed.device)
        self.register_buffer("predictions", half)
        self.register_buffer("thresholds", torch.full_like(half[0], -torch.inf))

    def start_epoch(self, phi: float) -> None:
        options = self.options
        if phi < options.start or options.negatives == 0:
            return
        growth = (phi + 1.0 / max(1, self.epochs) - options.start) / (1.0 - options.start)
        unknown = self.observed == UNOBSERVED
        ranked = self.predictions.masked_fill(~unknown, torch.inf).sort(dim=0).values
        count = (options.negatives * min(1.0, growth) * unknown.sum(dim=0)).round().long()
        last = ranked.gather(0, (count - 1).clamp(min=0)[None])[0]
        self.thresholds = torch.where(count > 0, last, -torch.inf)

    def loss(self, output: Output, batch: Batch, phi: float) -> Tensor:
        options, before = self.options, self.predictions[batch.rows]
        unknown = batch.observed == UNOBSERVED
        chosen = unknown & (before <= self.thresholds)
        targets = torch.where(chosen, before, (batch.observed == POSITIVE).float())
        learnt = binary_cross_entropy_with_logits(output.logits, targets, reduction="none")
        learnt = torch.where(chosen, options.negatives_weight * learnt, learnt)
        uncertain = -options.entropy_weight * entropy(output.logits)
        return torch.where(unknown & ~chosen, uncertain, learnt).mean()

    def update(self, batch: Batch, predicted: Tensor, phi: float) -> None:
        self.predictions[batch.rows] = predicted


def entropy(logits: Tensor) -> Tensor:
    """H(p) = −p log p − (1 − p) log(1 − p), from logits."""
    p = logits.sigmoid()
    return -p * logsigmoid(logits) - (1.0 - p) * logsigmoid(-logits)
