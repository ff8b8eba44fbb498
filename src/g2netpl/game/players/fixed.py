"""Players whose labels never move: BCE, BCE-LS, IU, AN, AN-LS, WAN and EPR.

They differ in the weight of an unobserved entry (always taken as negative), in label smoothing
and in the weight of the expected-positives regulariser.
"""

from typing import Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor

from g2netpl.base.options import Options, none_from_text
from g2netpl.game.batches import Batch
from g2netpl.game.player import LabelPlayer, Predict, Proposal, Setup
from g2netpl.labels.table import POSITIVE, UNOBSERVED


class FixedOptions(Options):
    """What a method with fixed labels can change."""

    unobserved_weight: float | None = Field(
        default=0.0, ge=0, description="weight of an unobserved entry as a negative; none: 1/(L−1)"
    )
    smoothing: float = Field(
        default=0.0, ge=0, lt=0.5, description="targets are 1 − s and s instead of 1 and 0"
    )
    unlabelled_images: Literal["negative", "ignore"] = Field(
        default="negative", description="images without any observed label: negatives, or left out"
    )
    regulariser: float = Field(
        default=0.0, ge=0, description="weight of the expected-positives regulariser R"
    )

    _no_weight = field_validator("unobserved_weight", mode="before")(none_from_text)


class FixedPlayer(LabelPlayer):
    """Observed labels as they are, unobserved ones as negatives of a fixed weight."""

    def __init__(self, setup: Setup, options: FixedOptions) -> None:
        classes = setup.observed.shape[1]
        weight = options.unobserved_weight
        self.unobserved_weight = 1.0 / max(1, classes - 1) if weight is None else weight
        self.smoothing = options.smoothing
        self.ignore_unlabelled = options.unlabelled_images == "ignore"
        self.regulariser = options.regulariser

    def propose(self, batch: Batch, progress: float, predict: Predict) -> Proposal:
        """Targets 1 where a positive was observed, else 0, both smoothed."""
        return Proposal(self._targets(batch), self._weights(batch), self.regulariser)

    def _targets(self, batch: Batch) -> Tensor:
        targets = (batch.observed == POSITIVE).float()
        if self.smoothing:
            targets = targets * (1.0 - 2.0 * self.smoothing) + self.smoothing
        return targets

    def _weights(self, batch: Batch) -> Tensor:
        weights = torch.ones(batch.observed.shape, device=batch.observed.device)
        if self.unobserved_weight != 1.0:
            weights = weights.masked_fill(batch.observed == UNOBSERVED, self.unobserved_weight)
        if self.ignore_unlabelled:
            weights = weights * (batch.observed != UNOBSERVED).any(dim=1, keepdim=True)
        return weights
