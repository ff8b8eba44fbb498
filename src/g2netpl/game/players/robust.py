"""Losses made for false negatives: ASL, Hill and SPLC.

All take the unobserved as negative, and differ in how little a negative counts that the network
finds positive. p is the prediction, x its logit, m the margin that a positive has to win by.
"""

from collections.abc import Callable

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import logsigmoid

from g2netpl.base.options import Options
from g2netpl.game.batches import Batch
from g2netpl.game.player import LabelPlayer, Predict, Proposal, Setup
from g2netpl.labels.table import POSITIVE, UNOBSERVED


class AsymmetricOptions(Options):
    """Exponents and margin of ASL."""

    negative_focus: float = Field(default=4.0, ge=0, description="γ−: easy negatives count less")
    positive_focus: float = Field(default=1.0, ge=0, description="γ+: easy positives count less")
    shift: float = Field(default=0.05, ge=0, lt=1, description="negatives below this p are free")


class HillOptions(Options):
    """The shape of Hill, and of the focal margin of its positives."""

    peak: float = Field(default=1.5, gt=1, description="λ of (λ − p)·p²: doubtful negatives fade")
    margin: float = Field(default=1.0, ge=0, description="m, taken from the logit of a positive")
    focus: float = Field(default=2.0, ge=0, description="γ of the positives")


class SplcOptions(Options):
    """When a negative is taken for a missed positive."""

    threshold: float = Field(default=0.6, gt=0, lt=1, description="p above which it is corrected")
    start: float = Field(default=0.1, ge=0, lt=1, description="share of the epochs before that")
    margin: float = Field(default=1.0, ge=0, description="m, taken from the logit of a positive")
    focus: float = Field(default=2.0, ge=0, description="γ: what is easy counts less, both signs")


def asymmetric(logits: Tensor, positive: Tensor, options: AsymmetricOptions) -> Tensor:
    """(1 − p)^γ+ · −log p, and q^γ− · −log(1 − q) with q = max(p − shift, 0); (B, L).

    No gradient goes through the focusing factors, as in the authors' code.
    """
    predicted = logits.sigmoid()
    shifted = (predicted - options.shift).clamp(min=0.0)
    cost = torch.where(positive, -logsigmoid(logits), -torch.log1p(-shifted.clamp(max=1 - 1e-7)))
    focus = torch.where(
        positive,
        (1.0 - predicted) ** options.positive_focus,
        shifted**options.negative_focus,
    )
    return focus.detach() * cost


def hill(logits: Tensor, positive: Tensor, options: HillOptions) -> Tensor:
    """Focal margin for positives, (λ − p)·p² for the rest; (B, L)."""
    predicted = logits.sigmoid()
    return torch.where(
        positive,
        focal_margin(logits, options.margin, options.focus),
        (options.peak - predicted) * predicted**2,
    )


def splc(logits: Tensor, positive: Tensor, doubtful: Tensor, options: SplcOptions) -> Tensor:
    """Focal margin for positives, p^γ · −log(1 − p) for the rest; (B, L).

    Those `doubtful` that the network finds positive count as positive, without a margin.
    """
    moved = logits - torch.where(positive, options.margin, 0.0)
    positive = positive | (doubtful & (logits.detach().sigmoid() > options.threshold))
    focus = options.focus
    return torch.where(positive, focal_margin(moved, 0.0, focus), focal_margin(-logits, 0.0, focus))


def focal_margin(logits: Tensor, margin: float, focus: float) -> Tensor:
    """(1 − q)^γ · −log q with q = sigmoid(x − m)."""
    moved = logits - margin
    return (1.0 - moved.sigmoid()) ** focus * -logsigmoid(moved)


class RobustPlayer(LabelPlayer):
    """Observed positives against everything else, under one of the losses."""

    def __init__(self, setup: Setup, options: Options) -> None:
        self.options = options

    def propose(self, batch: Batch, progress: float, predict: Predict) -> Proposal:
        """Assume negative; the loss does the rest."""
        positive = batch.observed == POSITIVE
        return Proposal(
            positive.float(),
            torch.ones_like(positive, dtype=torch.float32),
            entry_cost=self._cost(positive, batch.observed == UNOBSERVED, progress),
        )

    def _cost(
        self, positive: Tensor, unobserved: Tensor, progress: float
    ) -> Callable[[Tensor], Tensor]:
        options = self.options
        if isinstance(options, AsymmetricOptions):
            return lambda logits: asymmetric(logits, positive, options)
        if isinstance(options, HillOptions):
            return lambda logits: hill(logits, positive, options)
        assert isinstance(options, SplcOptions)
        doubtful = unobserved if progress >= options.start else torch.zeros_like(unobserved)
        return lambda logits: splc(logits, positive, doubtful, options)
