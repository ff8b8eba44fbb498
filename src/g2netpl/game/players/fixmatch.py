"""FixMatch for many labels; our form, since the paper compares with it but gives none.

Every image comes in two views. Where the network is sure about the weak view (ŷ ≥ τ or ŷ ≤ 1 − τ),
the strong view learns that label. The weak view of the labelled images learns the observed labels,
with the unobserved taken as negative (`unobserved=negative`, AN) or left out (`ignore`, IU).
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from g2netpl.base.options import Options
from g2netpl.game.batches import Batch, in_two_views, stacked_views, weak_view
from g2netpl.game.player import LabelPlayer, Predict, Proposal, Setup
from g2netpl.labels.table import POSITIVE, UNOBSERVED


class FixMatchOptions(Options):
    """When the weak view is sure, and what it counts."""

    threshold: float = Field(default=0.95, gt=0.5, lt=1, description="τ: sure from here on")
    weight: float = Field(default=1.0, ge=0, description="weight of the strong view")
    unobserved: Literal["negative", "ignore"] = Field(
        default="negative", description="the unobserved labels of labelled images"
    )


class FixMatchPlayer(LabelPlayer):
    """The weak view teaches the strong one."""

    def __init__(self, setup: Setup, options: FixMatchOptions) -> None:
        self.options = options

    def propose(self, batch: Batch, progress: float, predict: Predict) -> Proposal:
        """Observed labels for the weak views, sure predictions for the strong ones."""
        targets = (batch.observed == POSITIVE).float()
        weights = self._observed_weights(batch.observed)
        if not in_two_views(batch.inputs):  # the plain view, of the diagnostics
            return Proposal(targets, weights)
        predicted = predict(weak_view(batch.inputs))
        threshold = self.options.threshold
        sure = (predicted >= threshold) | (predicted <= 1.0 - threshold)
        # the cost is a mean over 2B images; the two parts are means over B each
        return Proposal(
            torch.cat([targets, (predicted >= threshold).float()]),
            2.0 * torch.cat([weights, self.options.weight * sure.float()]),
            inputs=stacked_views(batch.inputs),
        )

    def _observed_weights(self, observed: Tensor) -> Tensor:
        known = observed != UNOBSERVED
        if self.options.unobserved == "ignore":
            return known.float()
        return known.any(dim=1, keepdim=True).float().expand_as(known)
