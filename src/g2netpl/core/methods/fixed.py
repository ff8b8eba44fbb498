"""Methods whose labels never change: BCE, IU, AN, WAN, EPR, and `sampled`, the softmax by itself.

They differ in the weight of an unobserved label, which always counts as negative, in label
smoothing and in the weight of the expected-positives regulariser.
"""

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from g2netpl.core.algorithm import POSITIVE, UNOBSERVED, Batch
from g2netpl.core.annotation import Output
from g2netpl.core.losses import expected_positives, soft_bce
from g2netpl.core.methods.base import Method, MethodOptions, register

_SPML = "Cole et al., CVPR 2021"
_SMOOTH = ("smoothing", (0.05, 0.1, 0.2))


@register("bce", "full labels: the upper bound", "reference", full_labels=True)
@register(
    "bce-ls", "full labels, smoothed", "reference", full_labels=True, grid=_SMOOTH, smoothing=0.1
)
@register(
    "an",
    "assume negative: unobserved labels are negative",
    "Kundu & Tighe, NeurIPS 2020",
    grid=("unobserved_weight", (0.3, 1.0, 3.0)),
)
@register("an-ls", "AN with labels smoothed to 0.9 and 0.1", _SPML, grid=_SMOOTH, smoothing=0.1)
@register(
    "wan",
    "weak AN: unobserved labels are negative with weight 1/(L − 1)",
    "Mac Aodha et al., ICCV 2019",
    grid=("unobserved_weight", (0.005, None, 0.03)),
    unobserved_weight=None,
)
@register(
    "epr",
    "ignore unobserved labels, regularise the expected positives per image",
    _SPML,
    grid=("regulariser", (0.3, 1.0, 3.0)),
    unobserved_weight=0.0,
    regulariser=1.0,
)
class FixedLabels(Method):
    """Observed labels as they are, unobserved ones as negatives of a fixed weight."""

    class Options(MethodOptions):
        unobserved_weight: float | None = Field(
            default=1.0, ge=0, description="weight of an unobserved label; none: 1/(L − 1)"
        )
        smoothing: float = Field(
            default=0.0, ge=0, lt=0.5, description="s: targets are 1 − s and s, not 1 and 0"
        )
        unlabelled_images: Literal["negative", "ignore"] = Field(
            default="negative", description="images without any observed label"
        )
        regulariser: float = Field(default=0.0, ge=0, description="weight of R")

    @property
    def unobserved_weight(self) -> float:
        """As given, or 1/(L − 1)."""
        weight: float | None = self.options.unobserved_weight
        return 1.0 / max(1, self.observed.shape[1] - 1) if weight is None else weight

    def resolved_options(self) -> dict[str, Any]:
        return super().resolved_options() | {"unobserved_weight": self.unobserved_weight}

    def loss(self, output: Output, batch: Batch, phi: float) -> Tensor:
        options, observed = self.options, batch.observed
        targets = (observed == POSITIVE).float()
        if options.smoothing:
            targets = targets * (1.0 - 2.0 * options.smoothing) + options.smoothing
        weights = torch.where(observed == UNOBSERVED, self.unobserved_weight, 1.0)
        if options.unlabelled_images == "ignore":
            weights = weights * (observed != UNOBSERVED).any(dim=1, keepdim=True)
        loss = soft_bce(output.logits, targets, weights)
        if options.regulariser > 0:
            loss = loss + options.regulariser * expected_positives(output.logits, self.k)
        return loss


@register(
    "iu",
    "ignore unobserved labels (needs observed negatives, as in positives:1+1)",
    "Durand et al., CVPR 2019",
    unobserved_weight=0.0,
)
class IgnoreUnobserved(FixedLabels):
    """Only observed labels count; from positives only, the sigmoids would learn nothing."""

    trains_sigmoids = False


@register("sampled", "the softmax of the sampled-positive model only", "ours", annotation="sampled")
class SampledOnly(Method):
    """No loss in addition to that of the head."""

    trains_sigmoids = False

    def loss(self, output: Output, batch: Batch, phi: float) -> Tensor:
        return output.logits.new_zeros(())
