"""LL-R, LL-Ct, LL-Cp ("large loss matters"): unobserved is negative, except for the largest losses.

A network learns clean labels first, so an assumed negative with a large loss is likely a missed
positive. In every batch the fraction of unobserved entries with the largest loss, which are those
with the largest prediction, is rejected, counted as positive for this step, or for good. The
fraction is rate · φ; with permanent corrections each epoch but the first adds rate / epochs. (The
authors state the growth per epoch, 0.2 %: with 10 epochs a rate of 0.02.)
"""

import math
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from g2netpl.core.algorithm import POSITIVE, UNOBSERVED, Batch
from g2netpl.core.annotation import Output
from g2netpl.core.methods.base import Method, MethodOptions, register

_SOURCE, _RATES = "Kim et al., CVPR 2022", ("rate", (0.005, 0.02, 0.05))


@register(
    "ll-r", "assume negative; reject the largest losses", _SOURCE, grid=("rate", (0.02, 0.05, 0.1))
)
@register(
    "ll-ct",
    "assume negative; the largest losses are positive for this step",
    _SOURCE,
    grid=_RATES,
    action="temporary",
)
@register(
    "ll-cp",
    "assume negative; the largest losses are corrected permanently",
    _SOURCE,
    grid=_RATES,
    action="permanent",
)
class LargeLoss(Method):
    """Assumed negatives, except for those with the largest loss."""

    class Options(MethodOptions):
        action: Literal["reject", "temporary", "permanent"] = Field(
            default="reject", description="leave a large loss out, or count it as positive"
        )
        rate: float = Field(default=0.02, ge=0, le=1, description="final fraction of unobserved")

    corrected: Tensor  # (N, L) bool, if corrections are permanent

    def __init__(self, observed: Tensor, *options: Any, **more: Any) -> None:
        super().__init__(observed, *options, **more)
        self.is_permanent = self.options.action == "permanent"
        if self.is_permanent:
            self.register_buffer("corrected", torch.zeros_like(observed, dtype=torch.bool))

    def loss(self, output: Output, batch: Batch, phi: float) -> Tensor:
        positive, large = batch.observed == POSITIVE, self._large(output.logits, batch, phi)
        if self.is_permanent:
            positive = positive | self.corrected[batch.rows]
        targets = (positive | large).float()
        if self.options.action != "reject":
            return binary_cross_entropy_with_logits(output.logits, targets)
        entropy = binary_cross_entropy_with_logits(output.logits, targets, reduction="none")
        return entropy.masked_fill(large, 0.0).mean()

    def update(self, batch: Batch, predicted: Tensor, phi: float) -> None:
        if self.is_permanent:
            self.corrected[batch.rows] |= self._large(predicted, batch, phi)

    def _large(self, scores: Tensor, batch: Batch, phi: float) -> Tensor:
        """The unobserved labels whose loss is among the largest, (B, L) bool."""
        among, fraction = batch.observed == UNOBSERVED, self.options.rate * phi
        if self.is_permanent:
            among = among & ~self.corrected[batch.rows]
            fraction = self.options.rate / max(1, self.epochs) if phi > 0 else 0.0
        return largest(scores.detach(), among, fraction)


def largest(scores: Tensor, among: Tensor, fraction: float) -> Tensor:
    """The fraction of the entries `among` that has the largest scores, (B, L) bool."""
    candidates = int(among.sum())
    count = min(candidates, math.ceil(fraction * candidates - 1e-9))
    chosen = torch.zeros_like(among)
    if count > 0:
        ranked = scores.masked_fill(~among, -torch.inf).flatten().topk(count).indices
        chosen.view(-1)[ranked] = True
    return chosen
