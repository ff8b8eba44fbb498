"""The linear probe, solved: a convex problem has one answer, so no number of epochs is chosen.

    minimise  mean over tagged images of  −Σ over tags log softmax  +  λ/2 ‖W‖²
                                          +  Σ_j (s_j − f)² / (2 σ² N)

over W, b and the factors s of the prior: the tag loss of the sampled-positive head. N is the number
of tagged images. Features are scaled to one mean squared norm, so that λ means the same for every
backbone. L-BFGS in the span of the tagged images' features, where the minimum lies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from g2netpl.core.algorithm import POSITIVE

_SQUARED_NORM = 1000.0
FACTOR_DEVIATION = 0.5  # σ: how far the factor of a class is expected from the common one


@dataclass(frozen=True)
class Probe:
    """A solved linear probe: tag logits x·W + b + s·q."""

    weight: Tensor  # (D, L)
    bias: Tensor  # (L,)
    factor: Tensor  # (L,)

    def tag_logits(self, features: Tensor, prior: Tensor | None) -> Tensor:
        """Logits (B, L) of the softmax over classes."""
        logits = torch.addmm(self.bias, features, self.weight)
        return logits if prior is None else torch.addcmul(logits, self.factor, prior)


def tag_loss(tag_logits: Tensor, observed: Tensor) -> Tensor:
    """−Σ over its tags of log softmax, for each image (B,); the mean over tags where several."""
    is_tag = (observed == POSITIVE).to(tag_logits.dtype)
    log_probability = functional.log_softmax(tag_logits, dim=1)
    return -(is_tag * log_probability).sum(dim=1) / is_tag.sum(dim=1).clamp(min=1.0)


def to_span(features: Tensor) -> tuple[Tensor, Tensor | None]:
    """The features in an orthonormal basis (D, N) of their span, if images are fewer than D."""
    if len(features) >= features.shape[1]:
        return features, None
    basis = torch.linalg.qr(features.T).Q
    return features @ basis, basis


def solve_path(
    features: Tensor,
    prior: Tensor | None,
    observed: Tensor,
    weight_decays: Sequence[float],
    factor: float = 1.0,
    tolerance: float = 1e-4,
    iterations: int = 300,
) -> list[Probe]:
    """Solved probes for falling weight decays, each started from the one before.

    All images must have a tag. `tolerance` is that of the largest gradient.
    """
    scale = (features.square().sum(dim=1).mean() / _SQUARED_NORM).sqrt().clamp(min=1e-12)
    inputs, basis = to_span(features / scale)
    count, classes = observed.shape
    shape, is_free = (inputs.shape[1], classes), prior is not None
    start = torch.zeros(shape[0] * classes + 2 * classes)
    start[-classes:] = factor
    unknown = start.requires_grad_()

    def split() -> tuple[Tensor, Tensor, Tensor]:
        weight, bias, factors = unknown[: -2 * classes], *unknown[-2 * classes :].view(2, classes)
        return weight.view(shape), bias, factors

    def loss(decay: float) -> Tensor:
        weight, bias, factors = split()
        logits = torch.addmm(bias, inputs, weight)
        if prior is not None:
            logits = torch.addcmul(logits, factors, prior)
        total = tag_loss(logits, observed).mean() + 0.5 * decay * weight.square().sum()
        if is_free:
            spread = 2.0 * FACTOR_DEVIATION**2 * count
            total = total + (factors - factor).square().sum() / spread
        return total

    probes = []
    for decay in weight_decays:
        optimizer: Any = torch.optim.LBFGS(
            [unknown],
            max_iter=iterations,
            tolerance_grad=tolerance,
            tolerance_change=1e-9,
            history_size=20,
            line_search_fn="strong_wolfe",
        )

        def closure(decay: float = decay) -> Tensor:
            unknown.grad = None
            value = loss(decay)
            value.backward()  # type: ignore[no-untyped-call]
            return value

        optimizer.step(closure)
        weight, bias, factors = (part.detach().clone() for part in split())
        weight = weight if basis is None else basis @ weight
        factors = factors if is_free else torch.zeros_like(factors)
        probes.append(Probe(weight / scale, bias, factors))
    return probes
