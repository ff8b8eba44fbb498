"""Scores of a user's classes that are known before any tag, as logits q to add to a head's logits.

    logit_j = w_j · x + b_j + s_j · q_j        q = log(score / 0.01), within ±4.6

s_j is learnt by the head. q = 0 means "nothing is known": a class without a match, a missing cell.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from g2netpl.utils.errors import InputError

LEAST_SCORE = 1e-4
NEUTRAL_SCORE = 0.01  # a class that is as likely as not to be sampled as one of a hundred
BOUND = 4.6  # ±log of a hundred


class Prior(nn.Module):
    """What is known before any tag: from the features, or given with the images."""

    is_matched: Tensor
    """(L,) bool: whether anything is known about each class."""

    @property
    def classes(self) -> int:
        """L."""
        return len(self.is_matched)


class NamePrior(Prior):
    """Scores by the backbone's own ImageNet classifier, for classes matched by their names.

    `weight` (C, D) and `bias` (C,) are the classifier's; `groups` (L, C) has the weights of its
    classes for each of the L classes (`class_names.class_weights`). None of them is trained.
    """

    def __init__(self, weight: Tensor, bias: Tensor, groups: Tensor) -> None:
        super().__init__()
        self.weight: Tensor
        self.bias: Tensor
        self.columns: Tensor
        self.groups: Tensor
        columns = (groups > 0).any(dim=0).nonzero().flatten()
        self.register_buffer("weight", weight.detach().half())
        self.register_buffer("bias", bias.detach().float())
        self.register_buffer("columns", columns)
        self.register_buffer("groups", groups[:, columns].float())
        self.register_buffer("is_matched", (groups > 0).any(dim=1))

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor], prefix: str = "") -> "NamePrior":
        """The prior of a checkpoint; names are not matched again."""
        weight, bias, columns, part = (
            state[f"{prefix}{name}"] for name in ("weight", "bias", "columns", "groups")
        )
        groups = part.new_zeros(len(part), len(bias)).index_copy_(1, columns, part)
        return cls(weight, bias, groups)

    @torch.no_grad()
    def forward(self, features: Tensor) -> Tensor:
        """q (B, L)."""
        logits = functional.linear(features.float(), self.weight.float(), self.bias)
        scores = logits.softmax(dim=1)[:, self.columns] @ self.groups.T
        return log_scores(scores) * self.is_matched


class ScoresPrior(Prior):
    """Scores that come with the images: those of any other tagger."""

    def __init__(self, is_matched: Tensor) -> None:
        super().__init__()
        self.register_buffer("is_matched", is_matched)

    def forward(self, features: Tensor) -> Tensor:
        """Without the scores there is no prediction."""
        raise InputError(
            "the model was trained with --prior FILE: give the scores of these images (predict)"
        )


def prior_from_state(state: Mapping[str, Tensor], prefix: str = "head.prior.") -> Prior | None:
    """The prior of a saved model; names are not matched again."""
    if f"{prefix}is_matched" not in state:
        return None
    if f"{prefix}weight" in state:
        return NamePrior.from_state(state, prefix)
    return ScoresPrior(state[f"{prefix}is_matched"])


def log_scores(scores: Tensor) -> Tensor:
    """q of scores in [0, 1]; 0 where a score is missing (NaN)."""
    q = scores.clamp(min=LEAST_SCORE).log() - math.log(NEUTRAL_SCORE)
    return q.clamp(-BOUND, BOUND).nan_to_num(nan=0.0)
