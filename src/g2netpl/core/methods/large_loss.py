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

_SOURCE = "Kim et al., CVPR 2022"


@register(
    "ll-r",
    "assume negative; reject the largest losses",
    source=_SOURCE,
    grid=("rate", (0.02, 0.05, 0.1)),
)
@register(
    "ll-ct",
    "assume negative; the largest losses are positive for this step",
    source=_SOURCE,
    grid=("rate", (0.005, 0.02, 0.05)),
    action="temporary",
)
class LargeLoss(Method):
    """Assumed negatives, except for those with the largest loss."""

    class Options(MethodOptions):
        """What happens to which fraction."""

        action: Literal["reject", "temporary"] = Field(
            default="reject", description="leave a large loss out, or count it as positive"
        )
        rate: float = Field(
            default=0.02, ge=0, le=1, description="fraction of unobserved labels after all epochs"
        )

    def loss(self, output: Output, batch: Batch, phi: float) -> Tensor:
        """Cross-entropy with the largest losses left out or corrected."""
        positive, unobserved = batch.observed == POSITIVE, batch.observed == UNOBSERVED
        large = largest(output.logits.detach(), unobserved, self.options.rate * phi)
        targets = (positive | large).float()
        entropy = binary_cross_entropy_with_logits(output.logits, targets, reduction="none")
        if self.options.action == "reject":
            entropy = entropy.masked_fill(large, 0.0)
        return entropy.mean()


@register(
    "ll-cp",
    "assume negative; the largest losses become positive for good",
    source=_SOURCE,
    grid=("rate", (0.005, 0.02, 0.05)),
)
class PermanentCorrection(Method):
    """Assumed negatives that become positive once their loss was among the largest."""

    class Options(MethodOptions):
        """Which fraction becomes positive."""

        rate: float = Field(
            default=0.02, ge=0, le=1, description="fraction of unobserved labels after all epochs"
        )

    corrected: Tensor

    def __init__(self, observed: Tensor, *options: Any, **more: Any) -> None:
        super().__init__(observed, *options, **more)
        self.register_buffer("corrected", torch.zeros_like(observed, dtype=torch.bool))

    def loss(self, output: Output, batch: Batch, phi: float) -> Tensor:
        """Cross-entropy; the largest losses of this step count as positive already."""
        corrected = self.corrected[batch.rows]
        positive = (batch.observed == POSITIVE) | corrected
        positive = positive | self._large(output.logits.detach(), batch, corrected, phi)
        return binary_cross_entropy_with_logits(output.logits, positive.float())

    def update(self, batch: Batch, predicted: Tensor, phi: float) -> None:
        """The largest losses stay positive."""
        corrected = self.corrected[batch.rows]
        self.corrected[batch.rows] = corrected | self._large(predicted, batch, corrected, phi)

    def _large(self, scores: Tensor, batch: Batch, corrected: Tensor, phi: float) -> Tensor:
        fraction = self.options.rate / max(1, self.epochs) if phi > 0 else 0.0
        return largest(scores, (batch.observed == UNOBSERVED) & ~corrected, fraction)


def largest(scores: Tensor, among: Tensor, fraction: float) -> Tensor:
    """The fraction of the entries `among` that has the largest scores, (B, L) bool."""
    candidates = int(among.sum())
    count = min(candidates, math.ceil(fraction * candidates - 1e-9))
    chosen = torch.zeros_like(among)
    if count > 0:
        ranked = scores.masked_fill(~among, -torch.inf).flatten().topk(count).indices
        chosen.view(-1)[ranked] = True
    return chosen
