"""The linear probe on frozen features, solved: a convex problem has one answer and no epochs.

    minimise  mean over labelled images of  loss(x·W + b + s·q)  +  λ/2 ‖W‖²
                                            +  Σ_j (s_j − f)² / (2 σ² N)

over W, b and the factors s of the prior. N is the number of labelled images, and the loss is that
of the annotation model: −log softmax of the tags (`tag_loss`), or binary cross-entropy of the
observed labels (`label_loss`). L-BFGS solves it. Features are standardised and scaled to one norm,
so that λ means the same for every backbone.

Weight decay λ, the prior's factor f and the sharpness of the softmax are chosen by labels that were
held out, in folds over the labelled images; groups stay together. No complete labels and, for tags,
no negatives are needed. The default stays unless another value is better by more than the standard
error of the difference. Below 30 labelled images nothing is chosen.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from g2netpl.core.algorithm import NEGATIVE, POSITIVE, UNOBSERVED
from g2netpl.core.annotation import SampledPositiveHead
from g2netpl.core.inference import compute_all, one_thread
from g2netpl.images.loader import Subset

if TYPE_CHECKING:
    from g2netpl.training.trainer import Trainer

LEAST_LABELLED = 30
FACTOR_DEVIATION = 0.5  # σ: how far the factor of a class is expected from the common one
DECAYS = (3.2, 1.0, 0.32, 0.1)  # × `default_decay`
SHARPNESS = (1.0, 0.6, 0.7, 0.8, 0.9, 1.1, 1.25, 1.5, 1.75, 2.0)
_SQUARED_NORM = 1000.0
_MOST_LABELLED = 1000  # images that weight decay, factor and sharpness are chosen by
_FOLDS = 5
_MOST_NUMBERS = 500_000_000  # in the features of the labelled images
_KEPT, _KEPT_BESIDE_SOFTMAX = 0.3, 0.03  # of the weight decay, in the epochs after the solution
_ITERATIONS = 300

Loss = Callable[[Tensor, Tensor], Tensor]  # of logits and observed labels (B, L): (B,)


@dataclass(frozen=True)
class Probe:
    """A solved linear probe: logits x·W + b + s·q."""

    weight: Tensor  # (D, L)
    bias: Tensor  # (L,)
    factor: Tensor  # (L,)

    def logits(self, features: Tensor, prior: Tensor | None) -> Tensor:
        """Logits (B, L)."""
        logits = torch.addmm(self.bias, features, self.weight)
        return logits if prior is None else torch.addcmul(logits, self.factor, prior)


@dataclass(frozen=True)
class Choice:
    """What held-out labels chose, and how many images they were on; 0: nothing was chosen."""

    weight_decay: float
    factor: float  # of the prior; 0: without it
    sharpness: float = 1.0
    images: int = 0

    def __str__(self) -> str:
        if not self.images:
            return f"defaults (fewer than {LEAST_LABELLED} labelled images to choose by)"
        return (
            f"chosen by the labels of {self.images:,} held-out images: weight decay "
            f"{self.weight_decay:.2g}, prior × {self.factor:g}, sharpness {self.sharpness:g}"
        )


def tag_loss(logits: Tensor, observed: Tensor, negative_weight: float = 0.0) -> Tensor:
    """−log softmax of the tags of each image (B,); the mean over tags if there are several.

    An observed negative costs `negative_weight` · softmax.
    """
    is_tag = (observed == POSITIVE).to(logits.dtype)
    log_probability = functional.log_softmax(logits, dim=1)
    loss = -(is_tag * log_probability).sum(dim=1) / is_tag.sum(dim=1).clamp(min=1.0)
    if negative_weight > 0:
        loss = loss + negative_weight * (log_probability.exp() * (observed == NEGATIVE)).sum(dim=1)
    return loss


def label_loss(logits: Tensor, observed: Tensor) -> Tensor:
    """Binary cross-entropy of each image (B,), summed over its observed labels."""
    is_known = observed != UNOBSERVED
    targets = observed.clamp(min=0).to(logits.dtype)
    losses = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return (losses * is_known).sum(dim=1)


def can_solve(trainer: "Trainer") -> bool:
    """Whether a run has a convex problem: a linear head on frozen features that fit into memory."""
    config, visible = trainer.config, trainer.data.visible.values
    positives, negatives = (visible == POSITIVE).sum(), (visible == NEGATIVE).sum()
    is_linear = trainer.phases[0].mode == "linear" and config.hidden == 0
    labelled = int((visible != UNOBSERVED).any(axis=1).sum())
    return bool(
        config.solver == "lbfgs"
        and is_linear
        and trainer.method.dropout == 0
        and positives
        and (trainer.annotation == "sampled" or negatives >= positives)
        and labelled * trainer.inputs.backbone.width <= _MOST_NUMBERS
    )


def solve_head(trainer: "Trainer") -> tuple[Choice, float]:
    """Choose by held-out labels, and start the head with the probe of all labelled images.

    A softmax is not trained any further. A sigmoid per class is, by the method, with a part of the
    weight decay that was chosen: the second result, for a loss divided by B·L.
    """
    head, observed = trainer.full_model.head, torch.tensor(trainer.data.visible.values)
    loss: Loss = label_loss
    is_labelled = (observed != UNOBSERVED).any(dim=1)
    if isinstance(head, SampledPositiveHead):
        has_negatives = bool((observed == NEGATIVE).any())
        weight = trainer.method.negative_weight * trainer.k if has_negatives else 0.0
        loss = partial(tag_loss, negative_weight=weight)
        is_labelled = (observed == POSITIVE).any(dim=1)
    rows = is_labelled.nonzero().flatten()
    source = Subset(trainer.inputs.training("linear"), rows.numpy())

    def with_prior(features: Tensor, prior: Tensor | None) -> Tensor:
        q = head.prior_logits(features, prior)
        return features if q is None else torch.cat([features, q], dim=1)

    inputs = torch.from_numpy(compute_all(trainer.model_of("linear"), with_prior, source))
    readable, width = inputs.isfinite().all(dim=1), trainer.inputs.backbone.width
    features, rows = inputs[readable, :width], rows[readable]
    q = None if head.prior is None else inputs[readable, width:]
    groups, names = None, trainer.data.visible.groups
    if names is not None:
        groups = torch.from_numpy(np.unique(names, return_inverse=True)[1])[rows]
    choice = choose(loss, features, q, observed[rows], groups, trainer.config.seed)
    q = q if choice.factor else None
    probe = solve(loss, features, q, observed[rows], choice.weight_decay, choice.factor)
    head.set_probe(probe.weight, probe.bias, probe.factor)
    if isinstance(head, SampledPositiveHead):
        head.calibrate(choice.sharpness, trainer.k)
    has_softmax = isinstance(head, SampledPositiveHead)
    return choice, kept_decay(choice.weight_decay, features, observed.shape[1], has_softmax)


def kept_decay(decay: float, features: Tensor, classes: int, has_softmax: bool) -> float:
    """The weight decay of sigmoids in the epochs after the solution."""
    variance = float(features.var(dim=0).sum()) / _SQUARED_NORM
    return (_KEPT_BESIDE_SOFTMAX if has_softmax else _KEPT) * decay * variance / classes


def default_decay(images: int) -> float:
    """The weight decay unless held-out labels choose another: less with more images."""
    return 6.0 / math.sqrt(max(1, images))


@one_thread()
def solve(
    loss: Loss,
    features: Tensor,
    prior: Tensor | None,
    observed: Tensor,
    weight_decay: float,
    factor: float = 1.0,
    tolerance: float = 1e-4,
) -> Probe:
    """The probe of some images, all of them labelled. `tolerance`: of the largest gradient."""
    inputs, mean, scale, basis = _prepare(features)
    (probe,) = _solve_path(loss, inputs, prior, observed, [weight_decay], factor, tolerance)
    weight = probe.weight if basis is None else basis @ probe.weight
    weight = weight / scale[:, None]
    return Probe(weight, probe.bias - mean @ weight, probe.factor)


def _prepare(features: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Features (N, ≤ D) with one variance in all columns of `features`; mean, scale and basis.

    If images are fewer than columns, the result has the coordinates in the span of the images,
    where the solution is.
    """
    mean, deviation = features.mean(dim=0), features.std(dim=0, correction=0)
    usual = deviation.square().mean().sqrt().clamp(min=1e-12)
    deviation = deviation.where(deviation > 1e-4 * usual, torch.inf)  # a constant says nothing
    varying = max(1, int(deviation.isfinite().sum()))
    scale = deviation * math.sqrt(varying / _SQUARED_NORM)
    inputs = (features - mean) / scale
    if len(features) >= features.shape[1]:
        return inputs, mean, scale, None
    basis = torch.linalg.qr(inputs.T).Q
    return inputs @ basis, mean, scale, basis


def _solve_path(
    loss: Loss,
    inputs: Tensor,
    prior: Tensor | None,
    observed: Tensor,
    weight_decays: Sequence[float],
    factor: float,
    tolerance: float,
) -> list[Probe]:
    """A probe for each of some falling weight decays, started from the one before."""
    count, classes = observed.shape
    weight = torch.zeros(inputs.shape[1], classes, requires_grad=True)
    bias = torch.zeros(classes, requires_grad=True)
    factors = torch.full((classes,), factor * (prior is not None), requires_grad=prior is not None)
    probes = []
    for decay in weight_decays:
        optimizer: Any = torch.optim.LBFGS(
            [weight, bias] if prior is None else [weight, bias, factors],
            max_iter=_ITERATIONS,
            tolerance_grad=tolerance,
            tolerance_change=1e-9,
            history_size=20,
            line_search_fn="strong_wolfe",
        )

        def closure(decay: float = decay, optimizer: Any = optimizer) -> Tensor:
            optimizer.zero_grad()
            logits = Probe(weight, bias, factors).logits(inputs, prior)
            spread = (factors - factor).square().sum() / (2.0 * FACTOR_DEVIATION**2 * count)
            cost = loss(logits, observed).mean() + 0.5 * decay * weight.square().sum()
            cost = cost if prior is None else cost + spread
            cost.backward()  # type: ignore[no-untyped-call]
            return cost

        optimizer.step(closure)
        probes.append(Probe(*(part.detach().clone() for part in (weight, bias, factors))))
    return probes


@one_thread()
def choose(
    loss: Loss,
    features: Tensor,
    prior: Tensor | None,
    observed: Tensor,
    groups: Tensor | None = None,
    seed: int = 0,
) -> Choice:
    """Weight decay, factor of the prior and sharpness by held-out labels; all rows are labelled."""
    count = len(features)
    groups = torch.arange(count) if groups is None else groups
    default = Choice(default_decay(count), 0.0 if prior is None else 1.0)
    if count < LEAST_LABELLED or len(set(groups.tolist())) < 2 * _FOLDS:
        return default
    if count > _MOST_LABELLED:  # the decay is relative to the number, so some are enough
        random = torch.Generator().manual_seed(seed)
        rows = torch.randperm(count, generator=random)[:_MOST_LABELLED].sort().values
        features, observed, groups = features[rows], observed[rows], groups[rows]
        prior = None if prior is None else prior[rows]
    inputs = _prepare(features)[0]
    decays = [default_decay(len(inputs)) * times for times in DECAYS]

    def held_out(prior: Tensor | None) -> Tensor:
        """Logits (decays, N, L) of every image by probes that have not seen it."""
        logits = torch.zeros(len(decays), *observed.shape)
        for fit, held in _folds(groups, seed):
            q, rest = (None, None) if prior is None else (prior[fit], prior[held])
            probes = _solve_path(loss, inputs[fit], q, observed[fit], decays, 1.0, 3e-4)
            logits[:, held] = torch.stack([probe.logits(inputs[held], rest) for probe in probes])
        return logits

    def best(candidates: Sequence[Tensor], default: int = 0) -> int:
        return _best([loss(logits, observed) for logits in candidates], default, groups)

    candidates, factor = list(held_out(prior)), default.factor
    chosen = best(candidates, DECAYS.index(1.0))
    logits = candidates[chosen]
    if prior is not None:
        candidates = list(held_out(None))
        other = best(candidates, DECAYS.index(1.0))
        if best([logits, candidates[other]]):
            logits, factor, chosen = candidates[other], 0.0, other
    sharpness = SHARPNESS[best([logits * times for times in SHARPNESS])]
    return Choice(default.weight_decay * DECAYS[chosen], factor, sharpness, len(features))


def _folds(groups: Tensor, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows to fit on and rows held out; every row is held out once."""
    group = torch.unique(groups, return_inverse=True)[1]
    random = torch.Generator().manual_seed(seed)
    fold = (torch.randperm(int(group.max()) + 1, generator=random) % _FOLDS)[group]
    for held in range(_FOLDS):
        yield (fold != held).nonzero().flatten(), (fold == held).nonzero().flatten()


def _best(losses: Sequence[Tensor], default: int, groups: Tensor) -> int:
    """The best candidate by its held-out losses (N,), or the default.

    The mean difference to the default must exceed its standard error, over groups of images.
    """
    best = min(range(len(losses)), key=lambda place: float(losses[place].mean()))
    gain = losses[default] - losses[best]
    group = torch.unique(groups, return_inverse=True)[1]
    gain = gain.new_zeros(int(group.max()) + 1).index_add_(0, group, gain)
    error = float(gain.std()) / math.sqrt(len(gain))
    return best if float(gain.mean()) > error else default
