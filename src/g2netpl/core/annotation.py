"""Annotation models: how the observed labels of an image came to be observed. One head for each.

IndependentHead      The paper's model: every label is observed independently of the others.
                     A sigmoid per class; the loss is the method's only.
SampledPositiveHead  Ours: an observed tag is sampled from the image's positives,

                         P(tag = j | x) = E[y_j / n | x]    with n the number of positives,

                     which a softmax models and a sigmoid per class cannot. With c classes
                     sampled per image, class j is present with probability 1 − exp(−c·softmax_j).
                     The prediction is the weighted mean of these logits and those of a sigmoid
                     per class, which the method trains (docs/explanation/annotation-model.md).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from g2netpl.core.algorithm import NEGATIVE, POSITIVE
from g2netpl.core.losses import sampled_positive, soft_bce
from g2netpl.core.prior import Prior
from g2netpl.utils.errors import InputError

SIGMOID_WEIGHT = 0.5  # of the sigmoid logits in the prediction; the softmax has 1
POOLED_SHARPNESS = 1.1  # two models that agree are more certain than their mean
LEAST_SHOWN = 0.02  # lowest probability that an image shows any of the classes
_LEAST_LOG_RATE = -60.0  # whose exponential single precision can represent


@dataclass(frozen=True)
class Output:
    """What a model computes for a batch; losses of methods use `logits`."""

    logits: Tensor  # (B, L), of a sigmoid per class
    tag_logits: Tensor | None = None  # (B, L), of the softmax over classes
    features: Tensor | None = None  # (B, D), input of the head
    head: "IndependentHead | None" = None
    prior: Tensor | None = None  # (B, L), q that the head added to the logits

    @property
    def head_only_logits(self) -> Tensor:
        """The same logits, with gradients to the head only, not to the backbone."""
        if self.head is None or self.features is None:
            raise InputError(
                "uncertain_train=head: the model must end with an IndependentHead(nn.Linear(…)), "
                "or use the option uncertain_train=model"
            )
        return self.head.sigmoid_logits(self.features.detach().float(), self.prior)

    def first(self, count: int) -> "Output":
        """The first images of the batch."""
        parts: dict[str, Any] = {
            name: value[:count] for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **parts)


class IndependentHead(nn.Module):
    """A sigmoid per class.

    q of the `prior` is added to the logits, with a learnt factor per class.
    """

    def __init__(self, classifier: nn.Module, prior: Prior | None = None) -> None:
        super().__init__()
        self.classifier, self.prior = classifier, prior
        if prior is not None:
            self.factor = nn.Parameter(torch.ones(prior.classes))

    def prior_logits(self, features: Tensor, scores: Tensor | None) -> Tensor | None:
        """q (B, L), computed from the features unless it is given."""
        if self.prior is None or scores is not None:
            return scores
        q: Tensor = self.prior(features)
        return q

    def sigmoid_logits(self, features: Tensor, prior: Tensor | None = None) -> Tensor:
        """Logits (B, L) that the method's loss trains."""
        logits: Tensor = self.classifier(features).float()
        return logits if prior is None else torch.addcmul(logits, self.factor, prior)

    def forward(self, features: Tensor, prior: Tensor | None = None) -> Output:
        """Logits, and what they were computed from."""
        prior = self.prior_logits(features, prior)
        return Output(self.sigmoid_logits(features, prior), None, features, self, prior)

    def loss(
        self, output: Output, observed: Tensor, negative_weight: float = 1.0
    ) -> Tensor | float:
        """Nothing in addition to the method's loss."""
        return 0.0

    def predict_training(self, output: Output, observed: Tensor) -> Tensor:
        """Probabilities (B, L) of training images, for pseudo-labels to move to; no gradient."""
        return output.logits.detach().sigmoid()

    def predict(self, output: Output) -> Tensor:
        """Logits (B, L) of the presence of each class."""
        return output.logits

    def set_probe(self, weight: Tensor, bias: Tensor, factor: Tensor) -> None:
        """Start with a solved linear probe: x·weight + bias + factor·q."""
        _set_linear(self.classifier, weight, bias)
        if self.prior is not None:
            self.factor.data.copy_(factor)

    def parameter_groups(self, lr: float, softmax_scale: float) -> list[dict[str, object]]:
        """Parameters for an optimizer, with their learning rates; factors do not decay."""
        groups = [{"params": list(self.classifier.parameters()), "lr": lr}]
        return [*groups, *self._factor_group("factor", lr)]

    def _factor_group(self, name: str, lr: float) -> list[dict[str, object]]:
        """The factors of the prior; they stay 0 if held-out labels turned the prior off."""
        if self.prior is None:
            return []
        factor: nn.Parameter = getattr(self, name)
        return [{"params": [factor], "lr": lr * bool(factor.any()), "weight_decay": 0.0}]


class SampledPositiveHead(IndependentHead):
    """A softmax over classes for the tags, and a sigmoid per class for the method.

    `classifier` is None where a method leaves the sigmoids untrained: then the softmax predicts by
    itself.
    """

    def __init__(
        self,
        softmax: nn.Module,
        classifier: nn.Module | None,
        width: int,
        k: float,
        prior: Prior | None = None,
    ) -> None:
        super().__init__(classifier or nn.Identity(), prior)
        if k <= 0:
            raise InputError(f"k, the expected positives per image: must be above 0, got {k}")
        self.softmax, self.is_pooled = softmax, classifier is not None
        if prior is not None:
            self.tag_factor = nn.Parameter(torch.ones(prior.classes))
            if not self.is_pooled:
                del self.factor
        self.sharpness: Tensor
        self.log_count: Tensor
        self.shown_weight: Tensor
        self.shown_bias: Tensor
        self.register_buffer("sharpness", torch.tensor(1.0))
        self.register_buffer("log_count", torch.tensor(math.log(k)))
        self.register_buffer("shown_weight", torch.zeros(width))
        self.register_buffer("shown_bias", torch.tensor(1.0))

    def tag_logits(self, features: Tensor, prior: Tensor | None) -> Tensor:
        """Logits (B, L) of the softmax over classes."""
        logits: Tensor = self.softmax(features).float()
        return logits if prior is None else torch.addcmul(logits, self.tag_factor, prior)

    def forward(self, features: Tensor, prior: Tensor | None = None) -> Output:
        """Logits of both parts, and what they were computed from."""
        prior = self.prior_logits(features, prior)
        tag_logits = self.tag_logits(features, prior)
        if self.is_pooled:
            logits = self.sigmoid_logits(features, prior)
        else:
            logits = presence_logits(self._log_rates(tag_logits))
        return Output(logits, tag_logits, features, self, prior)

    def loss(
        self, output: Output, observed: Tensor, negative_weight: float = 1.0
    ) -> Tensor | float:
        """Softmax cross-entropy of the tags; observed negatives by the presence that it implies."""
        assert output.tag_logits is not None
        loss = sampled_positive(output.tag_logits, (observed == POSITIVE).float())
        is_negative = observed == NEGATIVE
        if is_negative.any():
            logits = presence_logits(self._log_rates(output.tag_logits))
            weights = negative_weight * is_negative
            loss = loss + soft_bce(logits, torch.zeros_like(logits), weights)
        return loss

    def predict_training(self, output: Output, observed: Tensor) -> Tensor:
        """Probabilities (B, L) of training images, for pseudo-labels to move to; no gradient.

        Images without a tag: the sigmoids only. The softmax is less certain about them than about
        images whose tags it has learnt, and pseudo-labels would take that for absence.
        """
        assert output.tag_logits is not None
        sigmoid = output.logits.detach()
        if not self.is_pooled:
            return sigmoid.sigmoid()
        pooled = pool(presence_logits(self._log_rates(output.tag_logits.detach())), sigmoid)
        is_tagged = (observed == POSITIVE).any(dim=1, keepdim=True)
        return torch.where(is_tagged, pooled, sigmoid).sigmoid()

    def predict(self, output: Output) -> Tensor:
        """Logits (B, L) of the presence of each class, as calibrated."""
        softmax, sigmoid = self.parts(output)
        logits = softmax if sigmoid is None else POOLED_SHARPNESS * pool(softmax, sigmoid)
        assert output.features is not None
        shown = output.features.detach().float() @ self.shown_weight + self.shown_bias
        return times_probability(logits, shown.clamp(LEAST_SHOWN, 1.0)[:, None])

    def parts(self, output: Output) -> tuple[Tensor, Tensor | None]:
        """Logits of presence by the softmax, and those of the sigmoids if there are any."""
        assert output.tag_logits is not None
        softmax = presence_logits(self._log_rates(output.tag_logits))
        return softmax, output.logits if self.is_pooled else None

    def calibrate(self, sharpness: float, count: float) -> None:
        """Set the sharpness of the softmax and the number of sampled classes per image."""
        self.sharpness.fill_(sharpness)
        self.log_count.fill_(math.log(count))

    def set_probe(self, weight: Tensor, bias: Tensor, factor: Tensor) -> None:
        """Start the softmax with a solved linear probe: x·weight + bias + factor·q."""
        _set_linear(self.softmax, weight, bias)
        if self.prior is not None:
            self.tag_factor.data.copy_(factor)
            if self.is_pooled and not factor.any():  # the prior is turned off
                self.factor.data.zero_()

    def set_shown(self, weight: Tensor, bias: float) -> None:
        """Set the probability that an image shows any class to weight · x + bias."""
        self.shown_weight.copy_(weight)
        self.shown_bias.fill_(bias)

    def reset_calibration(self, k: float) -> None:
        """Forget the calibration, to train again."""
        self.calibrate(1.0, k)
        self.set_shown(torch.zeros_like(self.shown_weight), 1.0)

    def parameter_groups(self, lr: float, softmax_scale: float) -> list[dict[str, object]]:
        """The softmax learns faster, so in long runs its rate is scaled down; 0 if it is solved."""
        scaled = lr * softmax_scale
        groups = [{"params": list(self.softmax.parameters()), "lr": scaled}]
        groups += self._factor_group("tag_factor", scaled)
        return [*super().parameter_groups(lr, 1.0), *groups] if self.is_pooled else groups

    def _log_rates(self, tag_logits: Tensor) -> Tensor:
        """Log of the expected number of times each class would be sampled, (B, L)."""
        return functional.log_softmax(tag_logits * self.sharpness, dim=1) + self.log_count


def _set_linear(layer: nn.Module, weight: Tensor, bias: Tensor) -> None:
    assert isinstance(layer, nn.Linear)
    layer.weight.data.copy_(weight.T)
    layer.bias.data.copy_(bias)


def pool(softmax: Tensor, sigmoid: Tensor) -> Tensor:
    """Weighted mean of two predictions' logits."""
    return (softmax + SIGMOID_WEIGHT * sigmoid) / (1.0 + SIGMOID_WEIGHT)


def presence_logits(log_rates: Tensor) -> Tensor:
    """log(p / (1 − p)) for p = 1 − exp(−rate), exact for rates of any size."""
    rates = log_rates.clamp(min=_LEAST_LOG_RATE).exp()
    return rates + torch.log(-torch.expm1(-rates))


def times_probability(logits: Tensor, probability: Tensor) -> Tensor:
    """The logit of probability · sigmoid(logits); the logits themselves for probability 1."""
    return logits + probability.log() - functional.softplus(logits + torch.log1p(-probability))
