"""Curriculum labeling after Durand et al., CVPR 2019: confident predictions become labels.

g2netpl compare --methods an,curriculum --plugin curriculum.py
"""

import torch
from pydantic import Field
from torch.nn.functional import binary_cross_entropy_with_logits

from g2netpl.core import UNOBSERVED, Method, MethodOptions, register


@register(
    "curriculum",
    "confident predictions become labels, more of them with time",
    source="Durand et al., CVPR 2019",
    grid=("doubtful", (0.0, 0.1, 0.3)),
)
class Curriculum(Method):
    """Observed labels, and predictions above a threshold that relaxes; doubtful ones weakly."""

    class Options(MethodOptions):
        start: float = Field(default=0.95, gt=0.5, lt=1, description="threshold at φ = 0")
        end: float = Field(default=0.7, gt=0.5, lt=1, description="threshold at φ = 1")
        doubtful: float = Field(default=0.1, ge=0, description="weight as negatives of the rest")

    def loss(self, output, batch, phi):
        """BCE over observed and confidently predicted labels; the rest are weak negatives."""
        predicted, known = output.logits.detach().sigmoid(), batch.observed != UNOBSERVED
        threshold = self.options.start + phi * (self.options.end - self.options.start)
        is_confident = torch.maximum(predicted, 1 - predicted) > threshold
        targets = self.with_observed((predicted > threshold).float(), batch.observed)
        weights = torch.where(known | is_confident, 1.0, self.options.doubtful)
        return binary_cross_entropy_with_logits(output.logits, targets, weights)
