"""The equations of the pseudo-labels, in the order of the paper. Pure functions on tensors.

Symbols: q = ŷ is the network's prediction (`predicted`), û the pseudo-label (`soft`; the paper
writes ŷ_u), y its latent (`latent`; y_u), û = F(y), λ the penalty that drives û to 0 or 1, φ the
fraction of epochs finished (`progress`), ξ the confidence-aware weight of an unobserved label.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

LabelCost = Literal["additive", "exponential"]
_TINY = 1e-7  # keeps the logarithms of saturated pseudo-labels finite


# --- Eq. 1: the maps F from the latent y to the pseudo-label û -----------------------------------


@dataclass(frozen=True)
class SigmoidMap:
    """F(y) = 1 / (1 + e^−y), for which F′ = û(1 − û)."""

    start: float = 0.0  # the latent whose û is 0.5

    def soft_and_slope(self, latent: Tensor) -> tuple[Tensor, Tensor | float]:
        """û = F(y), and F′(y) / (û(1 − û)), which is 1 everywhere."""
        return latent.sigmoid(), 1.0

    def soft(self, latent: Tensor) -> Tensor:
        """û only, which is cheaper."""
        return latent.sigmoid()

    def latent(self, soft: Tensor) -> Tensor:
        """The inverse: y = F⁻¹(û) = log(û / (1 − û)), finite for û = 0 and 1."""
        return soft.logit(_TINY)


@dataclass(frozen=True)
class GaussianMap:
    """F = cumulative distribution of a Gaussian with mean 0.5 and deviation σ (Eq. 4)."""

    sigma: float = 1.0
    start: float = 0.5

    def soft_and_slope(self, latent: Tensor) -> tuple[Tensor, Tensor | float]:
        """û and F′/(û(1−û)), finite everywhere, from one complementary error function.

        With z = (y − 0.5)/σ and a = |z|/√2 the smaller tail is Φ(−|z|) = ½ erfc(a), and the slope
        is the density over both tails. Beyond a = 6, where û is within 1e-16 of 0 or 1, the
        density would underflow; there the slope grows in proportion to |z|, as its asymptote does.
        """
        z = (latent - 0.5).mul_(1.0 / (self.sigma * math.sqrt(2.0)))
        near = z.abs()
        beyond = near.mul(1.0 / 6.0).clamp_(min=1.0)
        near.clamp_(max=6.0)
        tails = torch.erfc(near)  # twice the smaller one
        slope = near.square_().neg_().exp_().mul_(beyond)
        peak = 1.0 / (self.sigma * math.sqrt(2.0 * math.pi))  # the density at its mean
        slope.div_(torch.addcmul(tails, tails, tails, value=-0.5)).mul_(2.0 * peak)
        return torch.rsub(tails, 0.5, alpha=0.5).copysign_(z).add_(0.5), slope

    def soft(self, latent: Tensor) -> Tensor:
        """û only."""
        z = (0.5 - latent).mul_(1.0 / (self.sigma * math.sqrt(2.0)))
        return torch.erfc(z, out=z).mul_(0.5)

    def latent(self, soft: Tensor) -> Tensor:
        """The inverse: y = ½ + σ·Φ⁻¹(û), finite for û = 0 and 1."""
        quantile: Tensor = torch.special.ndtri(soft.clamp(_TINY, 1.0 - _TINY))
        return 0.5 + self.sigma * quantile


# --- Eq. 2 and 5: the cost of the labels ---------------------------------------------------------


def penalty_at(predicted: Tensor, penalty: float | Tensor, width: float | None) -> float | Tensor:
    """λ(q): constant, or with a width s, λ·exp(−(q − ½)²/(2s²)), large where q is unreliable."""
    if width is None:
        return penalty
    return penalty * torch.exp(-((predicted - 0.5) ** 2) / (2.0 * width * width))


def cross_entropy(target: Tensor, soft: Tensor) -> Tensor:
    """CE(t, x) = −t log x − (1 − t) log(1 − x), finite for x = 0 and 1."""
    clipped = soft.clamp(_TINY, 1.0 - _TINY)
    return -target * clipped.log() - (1.0 - target) * torch.log1p(-clipped)


def label_cost(
    soft: Tensor, predicted: Tensor, penalty: float | Tensor, cost: LabelCost = "additive"
) -> Tensor:
    """What the labels minimise, per entry: CE(q, û) + λû(1−û), or e^(λû(1−û)) · CE(q, û)."""
    spread = penalty * soft * (1.0 - soft)
    if cost == "additive":
        return cross_entropy(predicted, soft) + spread
    return torch.as_tensor(spread).exp() * cross_entropy(predicted, soft)


# --- Eq. 3: its gradient with respect to the latent ----------------------------------------------


def label_gradient(
    soft: Tensor,
    slope: Tensor | float,
    predicted: Tensor,
    penalty: float | Tensor,
    cost: LabelCost = "additive",
) -> Tensor:
    """∂ cost / ∂y, with `slope` = F′/(û(1−û)) so that no division by û(1−û) is left."""
    spread = torch.addcmul(soft, soft, soft, value=-1.0)  # û(1 − û)
    tilted = torch.addcmul(spread, spread, soft, value=-2.0)  # (1 − 2û) · û(1 − û)
    if cost == "additive":
        gradient = soft - predicted
        if isinstance(penalty, Tensor):
            gradient.addcmul_(tilted, penalty)
        else:
            gradient.add_(tilted, alpha=penalty)
        return gradient.mul_(slope)
    gradient = (soft - predicted) + penalty * tilted * cross_entropy(predicted, soft)
    return torch.as_tensor(penalty * spread).exp() * gradient * slope


# --- the exact best response: argmin of the cost over û ------------------------------------------


def best_response(
    predicted: Tensor,
    penalty: float | Tensor,
    cost: LabelCost = "additive",
    current: Tensor | None = None,
) -> Tensor:
    """The û that minimises the labels' cost for given predictions; the same for every F.

    For λ so large that q = ½ has two equally good answers, `current` decides the side to stay on
    (without it: the positive one).
    """
    centred = predicted - 0.5
    side = torch.where(centred < 0, -1.0, 1.0)
    if current is not None:
        side = torch.where((centred == 0) & (current < 0.5), -1.0, side)
    if cost == "exponential":
        return _exponential_response(predicted, penalty, side)
    return _additive_offset(centred, penalty, side).add_(0.5).clamp_(0.0, 1.0)


def _additive_offset(centred: Tensor, penalty: float | Tensor, side: Tensor) -> Tensor:
    """u = û − ½ from the depressed cubic 2λu³ + (1 − λ/2)u − (q − ½) = 0, i.e. u³ + au = c."""
    strength = torch.as_tensor(penalty, dtype=centred.dtype, device=centred.device)
    strength = strength.clamp(min=1e-6)  # for λ = 0 û = q
    strength = torch.where((strength - 2.0).abs() < 1e-6, 2.0 - 2e-6, strength)  # a is never 0
    linear = (1.0 - strength / 2.0) / (2.0 * strength)  # a
    constant = centred / (2.0 * strength)  # c
    scale = (linear.abs() / 3.0).sqrt()  # s
    ratio = constant / (2.0 * scale**3).clamp(min=torch.finfo(centred.dtype).tiny)
    # λ < 2: one real root, in the form that keeps its digits for small λ
    single = 2.0 * scale * torch.sinh(torch.asinh(ratio) / 3.0)
    # λ > 2: the outer root on q's side is the global minimum
    size = ratio.abs()
    far = torch.cosh(torch.acosh(size.clamp(min=1.0)) / 3.0)
    near = torch.cos(torch.acos(size.clamp(max=1.0)) / 3.0)
    outer = side * 2.0 * scale * torch.where(size > 1.0, far, near)
    return torch.where(linear > 0, single, outer)


def _exponential_response(predicted: Tensor, penalty: float | Tensor, side: Tensor) -> Tensor:
    """Bisection on h(û) = λ(1−2û)·û(1−û)·CE(q, û) + û − q.

    Mirrored so that q ≥ ½; then h(q) ≤ 0 and h(1) ≥ 0 bracket the root on q's side of ½.
    """
    target = 0.5 + (predicted - 0.5).abs()
    low, high = target.clone(), torch.ones_like(target)
    if not bool(torch.as_tensor(penalty).lt(2.8).all()):
        low = low.clamp(min=0.5 + 1e-6)  # above 2/ln 2 the point ½ itself is a maximum
    for _ in range(26):  # down to the resolution of single precision
        middle = 0.5 * (low + high)
        tilt = (1.0 - 2.0 * middle) * middle * (1.0 - middle)
        is_below = penalty * tilt * cross_entropy(target, middle) + middle < target
        low, high = torch.where(is_below, middle, low), torch.where(is_below, high, middle)
    root = torch.where(target >= 1.0, 1.0, 0.5 * (low + high))
    return 0.5 + side * (root - 0.5)


def regret(
    soft: Tensor, predicted: Tensor, penalty: float | Tensor, cost: LabelCost = "additive"
) -> Tensor:
    """How much the labels would gain by jumping to their best response, per entry, ≥ 0."""
    best = best_response(predicted, penalty, cost, current=soft)
    gain = label_cost(soft, predicted, penalty, cost) - label_cost(best, predicted, penalty, cost)
    return gain.clamp(min=0.0)


# --- Eq. 8: the confidence-aware scheduler -------------------------------------------------------


def confidence_weight(
    soft: Tensor, progress: float, beta: float, gamma: float, scale: float = 1.0
) -> Tensor:
    """ξ(û, φ) = β (1 − γe^(−10|2û−1|)) / (1 + γe^(−10|2û−1|)) + (1 − β) φ, times `scale`."""
    # with d = γe^(−10|2û−1|) the fraction is 2/(1 + d) − 1, and 1/(1 + d) a sigmoid
    shift = math.log(gamma) if gamma > 0 else -math.inf
    confidence = (soft - 0.5).abs_().mul_(20.0).sub_(shift).sigmoid_()
    return confidence.mul_(2.0 * beta * scale).add_(((1.0 - beta) * progress - beta) * scale)
