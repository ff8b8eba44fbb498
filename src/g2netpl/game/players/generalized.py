"""GR, the generalized robust loss: how an unknown entry counts depends on its own prediction.

With p the prediction, an unknown entry costs v(p) · [k(p) · (1 − p^q₂)/q₂ + (1 − k(p)) · (1 − (1 −
p)^q₃)/q₃]: as a positive with the chance k(p) = sigmoid(w·p + b), as a negative otherwise, with the
weight v(p) = exp(−(p − μ)²/(2σ²)). w, b, μ and σ move in a straight line from their first value to
their second while the training goes on. No gradient goes through k and v.
"""

import torch
from pydantic import Field, PositiveFloat, field_validator
from torch import Tensor
from torch.nn.functional import logsigmoid

from g2netpl.base.options import Options, list_from_text
from g2netpl.game.batches import Batch
from g2netpl.game.player import LabelPlayer, Predict, Proposal, Setup
from g2netpl.labels.table import NEGATIVE, POSITIVE

Pair = tuple[float, float]


class GeneralizedOptions(Options):
    """The shapes of the loss, and how they move."""

    positive_shape: float = Field(default=0.01, gt=0, le=1, description="q₂: 0 cross-entropy, 1 L1")
    negative_shape: float = Field(default=1.0, gt=0, le=1, description="q₃: 0 cross-entropy, 1 L1")
    slope: Pair = Field(default=(0.0, 2.0), description="w of k(p), first and last")
    offset: Pair = Field(default=(-2.0, -2.0), description="b of k(p), first and last")
    centre: Pair = Field(default=(0.5, 0.8), description="μ of v(p), first and last")
    width: tuple[PositiveFloat, PositiveFloat] = Field(
        default=(2.0, 0.5), description="σ of v(p), first and last"
    )

    _pairs = field_validator("slope", "offset", "centre", "width", mode="before")(list_from_text)


def generalized(predicted: Tensor, shape: float) -> Tensor:
    """(1 − p^q)/q: cross-entropy for q → 0, 1 − p for q = 1."""
    return (1.0 - predicted.clamp(min=1e-7) ** shape) / shape


class GeneralizedPlayer(LabelPlayer):
    """Observed labels by cross-entropy, the unknown by the robust loss."""

    def __init__(self, setup: Setup, options: GeneralizedOptions) -> None:
        self.options = options

    def propose(self, batch: Batch, progress: float, predict: Predict) -> Proposal:
        """The loss itself decides about the unknown."""
        positive, negative = batch.observed == POSITIVE, batch.observed == NEGATIVE

        def now(pair: Pair) -> float:
            return pair[0] + (pair[1] - pair[0]) * progress

        def entry_cost(logits: Tensor) -> Tensor:
            predicted = logits.sigmoid()
            fixed = predicted.detach()
            chance = torch.sigmoid(now(self.options.slope) * fixed + now(self.options.offset))
            distance = (fixed - now(self.options.centre)) / now(self.options.width)
            robust = torch.exp(-0.5 * distance**2) * (
                chance * generalized(predicted, self.options.positive_shape)
                + (1.0 - chance) * generalized(1.0 - predicted, self.options.negative_shape)
            )
            known = torch.where(positive, -logsigmoid(logits), -logsigmoid(-logits))
            return torch.where(positive | negative, known, robust)

        targets = positive.float()
        return Proposal(targets, torch.ones_like(targets), entry_cost=entry_cost)
