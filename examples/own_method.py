"""A method of your own in one file: "steady" learns what the model has predicted for some epochs.

g2netpl compare --methods an,steady,g2netpl --plugin examples/own_method.py
"""

import torch
from pydantic import Field
from torch.nn.functional import binary_cross_entropy_with_logits

from g2netpl.core import UNOBSERVED, Method, MethodOptions, register


@register("steady", "means of predictions as pseudo-labels", source="this example")
class Steady(Method):
    """Observed labels, and means of predictions that are far from 0.5."""

    class Options(MethodOptions):
        memory: float = Field(default=0.7, ge=0, lt=1, description="fraction of the mean kept")
        confident: float = Field(default=0.8, gt=0.5, lt=1, description="means beyond are learnt")

    def __init__(self, observed, *options, **more):
        super().__init__(observed, *options, **more)
        self.register_buffer("mean", torch.full_like(observed, 0.3, dtype=torch.float))

    def loss(self, output, batch, phi):
        """Confident means count more as training continues."""
        mean, known = self.mean[batch.rows], batch.observed != UNOBSERVED
        targets = self.with_observed((mean > 0.5).float(), batch.observed)
        confident = torch.maximum(mean, 1 - mean) > self.options.confident
        weights = torch.where(known, 1.0, 0.1 + phi * confident)
        return binary_cross_entropy_with_logits(output.logits, targets, weights)

    def update(self, batch, predicted, phi):
        """The means move towards the predictions."""
        self.mean[batch.rows] = predicted.lerp(self.mean[batch.rows], self.options.memory)

    def pseudo_labels(self, rows):
        return self.with_observed(self.mean[rows], self.observed[rows])
