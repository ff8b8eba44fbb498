"""ASL, the asymmetric loss: unobserved labels are negative, and easy negatives count less."""

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import logsigmoid

from g2netpl.core.algorithm import POSITIVE, Batch
from g2netpl.core.annotation import Output
from g2netpl.core.methods.base import Method, MethodOptions, register


@register(
    "asl",
    "assume negative; easy negatives count less (asymmetric loss)",
    source="Ridnik et al., ICCV 2021",
    grid=("negative_focus", (2.0, 4.0, 6.0)),
)
class AsymmetricLoss(Method):
    """(1 − p)^γ+ · −log p, and q^γ− · −log(1 − q) with q = max(p − shift, 0)."""

    class Options(MethodOptions):
        negative_focus: float = Field(default=4.0, ge=0, description="γ−: focus of negatives")
        positive_focus: float = Field(default=1.0, ge=0, description="γ+: focus of positives")
        shift: float = Field(default=0.05, ge=0, lt=1, description="negatives below cost nothing")

    def loss(self, output: Output, batch: Batch, phi: float) -> Tensor:
        options, p = self.options, output.logits.sigmoid()
        positive = batch.observed == POSITIVE
        q = (p - options.shift).clamp(min=0.0, max=1 - 1e-7)
        entropy = torch.where(positive, -logsigmoid(output.logits), -torch.log1p(-q))
        focus = torch.where(positive, (1 - p) ** options.positive_focus, q**options.negative_focus)
        return (focus.detach() * entropy).mean()  # no gradient through focus, as the authors do
