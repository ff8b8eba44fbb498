"""Hill and SPLC: unobserved labels are negative, unless the model strongly disagrees."""

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import logsigmoid

from g2netpl.core.algorithm import POSITIVE, UNOBSERVED, Batch
from g2netpl.core.annotation import Output
from g2netpl.core.methods.base import Method, MethodOptions, register

_SOURCE = "Zhang et al., arXiv 2112.07368"


@register(
    "hill",
    "assume negative; likely false negatives count less",
    _SOURCE,
    grid=("peak", (1.1, 1.3, 1.5)),
)
class Hill(Method):
    """Focal margin loss for positives, (λ − p)·p² for the rest."""

    class Options(MethodOptions):
        peak: float = Field(default=1.5, gt=1, description="λ of (λ − p)·p²")
        margin: float = Field(default=1.0, ge=0, description="subtracted from a positive's logit")
        focus: float = Field(default=2.0, ge=0, description="γ of the positives")

    def loss(self, output: Output, batch: Batch, phi: float) -> Tensor:
        options, p = self.options, output.logits.sigmoid()
        of_positive = focal(output.logits - options.margin, options.focus)
        of_negative = (options.peak - p) * p**2
        return torch.where(batch.observed == POSITIVE, of_positive, of_negative).mean()


@register(
    "splc",
    "assume negative; labels that the model predicts positive are corrected",
    _SOURCE,
    grid=("threshold", (0.5, 0.6, 0.75)),
)
class SPLC(Method):
    """Focal margin loss; an unobserved label above the threshold counts as positive."""

    class Options(MethodOptions):
        threshold: float = Field(default=0.6, gt=0, lt=1, description="positive above this p")
        start: float = Field(default=0.1, ge=0, lt=1, description="fraction of epochs before that")
        margin: float = Field(default=1.0, ge=0, description="subtracted from a positive's logit")
        focus: float = Field(default=2.0, ge=0, description="γ of positives and negatives")

    def loss(self, output: Output, batch: Batch, phi: float) -> Tensor:
        options, logits = self.options, output.logits
        positive = batch.observed == POSITIVE
        shifted = logits - torch.where(positive, options.margin, 0.0)  # none for corrected labels
        if phi >= options.start:
            predicted = logits.detach().sigmoid() > options.threshold
            positive = positive | ((batch.observed == UNOBSERVED) & predicted)
        of_positive, of_negative = focal(shifted, options.focus), focal(-logits, options.focus)
        return torch.where(positive, of_positive, of_negative).mean()


def focal(logits: Tensor, focus: float) -> Tensor:
    """(1 − p)^γ · −log p with p = sigmoid(logits)."""
    return (1.0 - logits.sigmoid()) ** focus * -logsigmoid(logits)
