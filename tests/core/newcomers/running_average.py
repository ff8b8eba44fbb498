"""running-average: assume negative, plus an ELR-like term on a moving average of predictions."""

import torch
from pydantic import Field
from torch.nn.functional import binary_cross_entropy_with_logits

from g2netpl.core import POSITIVE, UNOBSERVED, Method, MethodOptions, register


@register(
    "running-average",
    "assume negative, ELR-like term",
    source="me",
    grid=("lambda", (1.0, 3.0, 7.0)),
)
class RunningAverage(Method):
    """t, a moving average of the predictions per image and label."""

    class Options(MethodOptions):
        weight: float = Field(default=3.0, ge=0, alias="lambda", description="of the ELR term")
        momentum: float = Field(default=0.7, ge=0, lt=1, description="fraction of t kept")

    def __init__(self, observed, *options, **more):
        super().__init__(observed, *options, **more)
        self.register_buffer("average", torch.zeros_like(observed, dtype=torch.float))

    def loss(self, output, batch, phi):
        t, unknown = self.average[batch.rows], batch.observed == UNOBSERVED
        bce = binary_cross_entropy_with_logits(output.logits, (batch.observed == POSITIVE).float())
        p = output.logits.sigmoid()
        elr = (1 - p * t - (1 - p) * (1 - t)).clamp(min=1e-4).log()[unknown].mean()
        return bce + self.options.weight * elr

    def update(self, batch, predicted, phi):
        self.average[batch.rows] = predicted.lerp(self.average[batch.rows], self.options.momentum)

    def pseudo_labels(self, rows):
        return self.with_observed(self.average[rows], self.observed[rows])
