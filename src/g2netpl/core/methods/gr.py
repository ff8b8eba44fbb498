"""GR, the generalized robust loss: how an unobserved label counts depends on its prediction.

With prediction p an unobserved label costs

    v(p) · [k(p) · (1 − p^q₂)/q₂ + (1 − k(p)) · (1 − (1 − p)^q₃)/q₃]

positive with probability k(p) = sigmoid(w·p + b), negative otherwise, with the weight v(p) =
exp(−(p − μ)²/(2σ²)). w, b, μ and σ move linearly from their first to their second value during
training. No gradient passes through k and v.
"""

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor
from torch.nn.functional import logsigmoid

from g2netpl.core.algorithm import POSITIVE, UNOBSERVED, Batch
from g2netpl.core.annotation import Output
from g2netpl.core.methods.base import Method, MethodOptions, register

Pair = tuple[float, float]
Width = tuple[PositiveFloat, PositiveFloat]


@register(
    "gr",
    "a robust loss whose shape follows the prediction",
    "Chen et al., IJCAI 2024",
    grid=("negative_shape", (0.5, 0.7, 1.0)),
)
class GeneralizedRobust(Method):
    """Cross-entropy of observed labels, the robust loss for unobserved ones."""

    class Options(MethodOptions):
        positive_shape: float = Field(default=0.01, gt=0, le=1, description="q₂: 0 is CE, 1 is L1")
        negative_shape: float = Field(default=1.0, gt=0, le=1, description="q₃: 0 is CE, 1 is L1")
        slope: Pair = Field(default=(0.0, 2.0), description="w of k(p), first and last")
        offset: Pair = Field(default=(-2.0, -2.0), description="b of k(p), first and last")
        centre: Pair = Field(default=(0.5, 0.8), description="μ of v(p), first and last")
        width: Width = Field(default=(2.0, 0.5), description="σ of v(p), first and last")

    def loss(self, output: Output, batch: Batch, phi: float) -> Tensor:
        options, logits = self.options, output.logits
        pairs = (options.slope, options.offset, options.centre, options.width)
        w, b, mu, sigma = (first + (last - first) * phi for first, last in pairs)
        p, fixed = logits.sigmoid(), logits.detach().sigmoid()
        is_positive = torch.sigmoid(w * fixed + b)  # k(p)
        weight = torch.exp(-0.5 * ((fixed - mu) / sigma) ** 2)  # v(p)
        robust = weight * (
            is_positive * generalized(p, options.positive_shape)
            + (1.0 - is_positive) * generalized(1.0 - p, options.negative_shape)
        )
        known = -logsigmoid(torch.where(batch.observed == POSITIVE, logits, -logits))
        return torch.where(batch.observed == UNOBSERVED, robust, known).mean()


def generalized(p: Tensor, shape: float) -> Tensor:
    """(1 − p^q)/q: cross-entropy for q → 0, 1 − p for q = 1."""
    return (1.0 - p.clamp(min=1e-7) ** shape) / shape
