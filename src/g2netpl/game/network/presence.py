"""From shares to presence: the network's side of the observation model `draw`.

What somebody named is a draw from what is in the image. So the classifier says *shares*: how likely
each class is the one that is named. A class is there unless none of n draws would name it, n being
the number of things to name:

    presence  ŷ_j = 1 − exp(−n · share_j),    so that  −log(1 − ŷ_j) = n · share_j

The module gives logits of the presence, as every classifier here does: `sigmoid` of them is ŷ, and
`softplus` of them is n·share_j. docs/method/observation.md has the derivation.

Where photos without a name look other than those with one, some of them may show no class at all:
all chances of a photo are multiplied by a(x), the chance that it shows anything (`runs.chances`).

In the game there is a second expert, a sigmoid per class, which learns from the soft labels. What
the network says is the pool of both, the weighted mean of their logits.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

POOLED = 0.5  # weight of the sigmoids in the pool; that of the shares is 1
LEAST_SHOWN = 0.02  # chance that a photo shows anything
_LOWEST = -60.0  # of a logarithm whose exponential single precision can hold


class Presence(nn.Module):
    """A classifier of vectors whose outputs are read as shares of `expected` things in an image.

    With `sigmoids`, a classifier too, it says what the two of them say together.
    """

    def __init__(
        self, shares: nn.Module, expected: float, width: int, sigmoids: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.shares = shares
        self.sigmoids = sigmoids
        self.log_count: Tensor
        self.sharpness: Tensor
        self.register_buffer("log_count", torch.tensor(math.log(expected)))
        self.register_buffer("sharpness", torch.tensor(1.0))
        self.shown: Tensor
        self.shown_alike: Tensor
        self.register_buffer("shown", torch.zeros(width))
        self.register_buffer("shown_alike", torch.tensor(1.0))

    def forward(self, vectors: Tensor) -> Tensor:
        """Logits (B, L) of the presence of each class."""
        logits = pool(*self.expert_logits(vectors))
        told = vectors.detach().float() @ self.shown + self.shown_alike
        return times_chance(logits, told.clamp(LEAST_SHOWN, 1.0)[:, None])

    def expert_logits(self, vectors: Tensor) -> tuple[Tensor, ...]:
        """Logits (B, L) of each expert."""
        log_rates, *sigmoids = self.experts(vectors)
        return logits_of_rates(log_rates), *sigmoids

    def experts(self, vectors: Tensor) -> tuple[Tensor, ...]:
        """Log rates (B, L) by the shares and, where there are any, logits by the sigmoids."""
        drawn = self._log_rates(vectors)
        return (drawn,) if self.sigmoids is None else (drawn, self.sigmoids(vectors).float())

    def _log_rates(self, vectors: Tensor) -> Tensor:
        shares = functional.log_softmax(self.shares(vectors).float() * self.sharpness, dim=1)
        return shares + self.log_count

    def settle(self, sharpness: float, count: float) -> None:
        """Say from now on what these two make of the shares; `runs.chances` finds them."""
        self.sharpness.fill_(sharpness)
        self.log_count.fill_(math.log(count))

    def learn_shown(self, weights: Tensor, alike: float) -> None:
        """Take a(x), the chance that an image shows anything, to be weights · x + alike."""
        self.shown.copy_(weights)
        self.shown_alike.fill_(alike)

    def begin_anew(self, expected: float) -> None:
        """Forget what was settled after an earlier training: as the classifier was trained."""
        self.settle(1.0, expected)
        self.learn_shown(torch.zeros_like(self.shown), 1.0)


def pool(drawn: Tensor, sigmoids: Tensor | None = None) -> Tensor:
    """What the experts say together: the mean of their logits, the sigmoids' weighted by POOLED."""
    return drawn if sigmoids is None else (drawn + POOLED * sigmoids) / (1.0 + POOLED)


def times_chance(logits: Tensor, chance: Tensor) -> Tensor:
    """The logit of chance · sigmoid(logits); the logits themselves where the chance is 1."""
    return logits + chance.log() - functional.softplus(logits + torch.log1p(-chance))


def logits_of_rates(log_rates: Tensor) -> Tensor:
    """log(ŷ / (1 − ŷ)) for ŷ = 1 − exp(−rate), exact for rates of any size."""
    rates = log_rates.clamp(min=_LOWEST).exp()
    return rates + torch.log(-torch.expm1(-rates))
