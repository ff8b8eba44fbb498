"""From shares to presence: the network's side of the observation model `draw`.

What somebody named is a draw from what is in the image. So the classifier says *shares*: how likely
each class is the one that is named. How many there are to name, n(x), is a head of its own. A class
is there unless none of n draws would name it:

    presence  ŷ_j = 1 − exp(−n(x) · share_j),    so that  −log(1 − ŷ_j) = n(x) · share_j

The module gives logits of the presence, as every classifier here does: `sigmoid` of them is ŷ, and
`softplus` of them is n(x)·share_j. docs/method/observation.md has the derivation.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

_LOWEST = -60.0  # of a logarithm whose exponential single precision can hold


class Presence(nn.Module):
    """A classifier whose outputs are read as shares of `expected` things in an image."""

    def __init__(self, shares: nn.Module, expected: float) -> None:
        super().__init__()
        self.shares = shares
        self.log_count: Tensor
        self.sharpness: Tensor
        self.register_buffer("log_count", torch.tensor(math.log(expected)))
        self.register_buffer("sharpness", torch.tensor(1.0))

    def forward(self, vectors: Tensor) -> Tensor:
        """Logits (B, L) of the presence of each class."""
        shares = functional.log_softmax(self.shares(vectors).float() * self.sharpness, dim=1)
        return logits_of_rates(shares + self.log_count)

    def settle(self, sharpness: float, count: float) -> None:
        """Say from now on what these two make of the shares; `calibration` finds them."""
        self.sharpness.fill_(sharpness)
        self.log_count.fill_(math.log(count))


def logits_of_rates(log_rates: Tensor) -> Tensor:
    """log(ŷ / (1 − ŷ)) for ŷ = 1 − exp(−rate), exact for rates of any size."""
    rates = log_rates.clamp(min=_LOWEST).exp()
    return rates + torch.log(-torch.expm1(-rates))


def log_shares(logits: Tensor) -> Tensor:
    """The way back: log of rate_j / Σ rate, for logits of any classifier."""
    rates = functional.softplus(logits.clamp(min=_LOWEST))
    return rates.log() - rates.sum(dim=1, keepdim=True).log()
