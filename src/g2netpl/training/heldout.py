"""Choosing without validation labels: by the likelihood of tags that were held out.

−log softmax of a held-out tag needs no negatives and no complete labels. Folds over the tagged
images, groups kept together, score every candidate; the default stays unless another candidate is
better by more than the standard error of the difference. Below 30 tagged images nothing is chosen.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from g2netpl.core.algorithm import POSITIVE
from g2netpl.training.probe import Probe, solve_path, tag_loss, to_span

LEAST_TAGGED = 30
_MOST_TAGGED = 2000
DECAYS = (10.0, 3.2, 1.0, 0.32, 0.1)  # × `usual_decay`
SHARPNESS = (1.0, 0.6, 0.7, 0.8, 0.9, 1.1, 1.25, 1.5, 1.75, 2.0)


@dataclass(frozen=True)
class Choice:
    """What held-out tags chose, and how many images they were on; 0: nothing was chosen."""

    weight_decay: float
    factor: float  # of the prior; 0: without it
    sharpness: float = 1.0
    tagged: int = 0

    def __str__(self) -> str:
        if not self.tagged:
            return f"nothing chosen: fewer than {LEAST_TAGGED} tagged images; defaults"
        return (
            f"chosen by the tags of {self.tagged:,} held-out images: weight decay "
            f"{self.weight_decay:.2g}, prior × {self.factor:g}, sharpness {self.sharpness:g}"
        )


def usual_decay(tagged: int) -> float:
    """The weight decay of the solved probe unless tags choose another: less with more tags."""
    return 6.0 / math.sqrt(max(1, tagged))


def split_folds(
    groups: Tensor, folds: int, repeats: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows to fit on and rows held out; every row is held out once per repeat."""
    group = _numbered(groups)
    count = int(group.max()) + 1
    random = torch.Generator().manual_seed(seed)
    for _ in range(repeats):
        fold = (torch.randperm(count, generator=random) % folds)[group]
        for held in range(min(folds, count)):
            yield (fold != held).nonzero().flatten(), (fold == held).nonzero().flatten()


def choose(losses: Tensor, default: int, groups: Tensor | None = None) -> int:
    """The best of some candidates by their held-out losses (candidates, N), or the default.

    The mean difference to the default must exceed its standard error, over groups of images.
    """
    best = int(losses.mean(dim=1).argmin())
    gain = losses[default] - losses[best]
    if groups is not None:
        group = _numbered(groups)
        gain = gain.new_zeros(int(group.max()) + 1).index_add_(0, group, gain)
    if len(gain) < 2:
        return default
    error = float(gain.std()) / math.sqrt(len(gain))
    return best if float(gain.mean()) > error else default


def _numbered(groups: Tensor) -> Tensor:
    numbers: Tensor = torch.unique(groups, return_inverse=True)[1]
    return numbers


def choose_probe(
    features: Tensor,
    prior: Tensor | None,
    observed: Tensor,
    groups: Tensor | None = None,
    *,
    factors: Sequence[float] = (1.0, 0.0),
    folds: int = 5,
    repeats: int = 1,
    seed: int = 0,
) -> Choice:
    """Weight decay, factor of the prior and sharpness; the first factor is the default."""
    rows = (observed == POSITIVE).any(dim=1).nonzero().flatten()
    tagged, usual = len(rows), usual_decay(len(rows))
    factors = (0.0,) if prior is None else factors
    group = torch.arange(tagged) if groups is None else groups[rows]
    if tagged < LEAST_TAGGED or int(_numbered(group).max()) + 1 < 2 * folds:
        return Choice(usual, factors[0])
    if tagged > _MOST_TAGGED:  # the decay is relative to the number of tags, so some are enough
        random = torch.Generator().manual_seed(seed)
        some = torch.randperm(tagged, generator=random)[:_MOST_TAGGED].sort().values
        rows, group = rows[some], group[some]
    x, labels = to_span(features[rows])[0], observed[rows]
    q = None if prior is None else prior[rows]
    candidates = [(factor, decay) for factor in factors for decay in DECAYS]
    logits = torch.zeros(repeats, len(candidates), *labels.shape)
    for number, (fit, held) in enumerate(split_folds(group, folds, repeats, seed)):
        for which, factor in enumerate(factors):
            known = None if q is None or factor == 0 else q[fit]
            rest = None if q is None or factor == 0 else q[held]
            decays = [usual_decay(len(rows)) * times for times in DECAYS]
            probes = solve_path(x[fit], known, labels[fit], decays, factor, 3e-4)
            for place, probe in enumerate(probes, start=which * len(DECAYS)):
                logits[number // folds, place, held] = probe.tag_logits(x[held], rest)

    def losses(repeated: Tensor, sharpness: float = 1.0) -> Tensor:
        return torch.stack([tag_loss(sharpness * part, labels) for part in repeated]).mean(dim=0)

    table = torch.stack([losses(logits[:, place]) for place in range(len(candidates))])
    chosen = choose(table, DECAYS.index(1.0), group)
    sharper = torch.stack([losses(logits[:, chosen], sharpness) for sharpness in SHARPNESS])
    sharpness = SHARPNESS[choose(sharper, 0, group)]
    factor, times = candidates[chosen]
    return Choice(usual * times, factor, sharpness, tagged)


def solve_chosen(features: Tensor, prior: Tensor | None, observed: Tensor, choice: Choice) -> Probe:
    """The probe of all tagged images."""
    rows = (observed == POSITIVE).any(dim=1).nonzero().flatten()
    q = None if prior is None or choice.factor == 0 else prior[rows]
    (probe,) = solve_path(features[rows], q, observed[rows], [choice.weight_decay], choice.factor)
    return probe
