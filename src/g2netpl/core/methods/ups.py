"""UPS for several labels per image: pseudo-labels that are both confident and stable; our form.

The model is trained in rounds, each from the same start. Between two rounds every training image is
predicted several times with dropout. An unobserved label becomes positive if the mean of its
predictions is high and their deviation small, negative if the mean is low and the deviation smaller
still. Each selection starts from all unobserved labels. Unobserved labels of labelled images count
as negative until they are selected (as in AN).
"""

from collections.abc import Iterable
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from g2netpl.core.algorithm import NEGATIVE, POSITIVE, UNOBSERVED, Batch
from g2netpl.core.annotation import Output
from g2netpl.core.losses import soft_bce
from g2netpl.core.methods.base import Method, MethodOptions, register


@register(
    "ups",
    "rounds of training on pseudo-labels that were confident and stable (multi-label adaptation)",
    "Rizve et al., ICLR 2021",
    grid=("positive_mean", (0.6, 0.7, 0.8)),
)
class UPS(Method):
    """Observed labels, and those that the previous round was certain about."""

    class Options(MethodOptions):
        rounds: int = Field(default=2, ge=1, description="training runs, each from the same start")
        passes: int = Field(default=10, ge=2, description="predictions with dropout between rounds")
        dropout: float = Field(default=0.3, gt=0, lt=1, description="in front of the last layer")
        positive_mean: float = Field(default=0.7, gt=0.5, lt=1, description="positive from here on")
        positive_deviation: float = Field(
            default=0.05, gt=0, description="if its deviation is less"
        )
        negative_mean: float = Field(default=0.05, gt=0, lt=0.5, description="negative up to here")
        negative_deviation: float = Field(
            default=0.005, gt=0, description="if its deviation is less"
        )

    selected: Tensor  # (N, L) int8: observed labels and pseudo-labels

    def __init__(self, observed: Tensor, *options: Any, **more: Any) -> None:
        super().__init__(observed, *options, **more)
        chosen = self.options
        self.rounds, self.passes, self.dropout = chosen.rounds, chosen.passes, chosen.dropout
        self.register_buffer("selected", observed.clone())

    def start_round(self, predictions: Iterable[tuple[Tensor, Tensor, Tensor]]) -> None:
        options = self.options
        for rows, mean, deviation in predictions:
            positive = (mean >= options.positive_mean) & (deviation < options.positive_deviation)
            negative = (mean <= options.negative_mean) & (deviation < options.negative_deviation)
            chosen = torch.full_like(self.observed[rows], UNOBSERVED)
            chosen = chosen.masked_fill(positive, POSITIVE).masked_fill(negative, NEGATIVE)
            self.selected[rows] = self.with_observed(chosen, self.observed[rows])

    def loss(self, output: Output, batch: Batch, phi: float) -> Tensor:
        labels = self.selected[batch.rows]
        is_labelled = (batch.observed != UNOBSERVED).any(dim=1, keepdim=True)
        known = (labels != UNOBSERVED) | is_labelled
        return soft_bce(output.logits, (labels == POSITIVE).float(), known.float())

    def pseudo_labels(self, rows: Tensor) -> Tensor:
        """1 and 0 where observed or selected, 0.5 elsewhere."""
        labels = self.selected[rows].float()
        return labels.masked_fill(labels == UNOBSERVED, 0.5)
