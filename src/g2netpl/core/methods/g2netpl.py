"""G²NetPL, the paper's method: a soft pseudo-label û = F(y) for every unobserved label.

The model learns from û with the confidence-aware weight ξ(û, φ): `loss`. In turn û lowers its own
cost, which pulls it to 0 or 1 and keeps it near the prediction: `update`, by one gradient step
where the paper has an argmin. The formulas are in `equations`. Where the paper leaves a choice
open, the choice is an option; dev/log/where-the-paper-is-silent.md has the reasons.

g2netpl        our weights; with positive-only labels on top of the sampled-positive model
g2netpl-paper  our literal reading of the paper, with every weight 1
plmcl          the authors' other paper: momentum, and û = sigmoid(y)
"""

from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from g2netpl.core import equations
from g2netpl.core.algorithm import NEGATIVE, POSITIVE, UNOBSERVED, Batch
from g2netpl.core.annotation import Output
from g2netpl.core.equations import GaussianMap, LabelCost, SigmoidMap
from g2netpl.core.losses import expected_positives, reversed_bce, soft_bce
from g2netpl.core.methods.base import Method, MethodOptions, register
from g2netpl.core.models import Model
from g2netpl.utils.errors import InputError

_PAPER, _GRID = "Abdelfattah et al., BMVC 2022", ("unobserved_weight", (0.05, 0.1, 0.2))


class G2NetPLOptions(MethodOptions):
    """Hyperparameters, and choices that the paper leaves open."""

    response: Literal["gradient", "best_response", "fixed"] = Field(
        default="gradient", description="update of û: gradient step, exact minimum, or fixed (none)"
    )
    step_size: float = Field(default=4.0, ge=0, description="η, size of a gradient step")
    step_growth: float = Field(default=2.0, ge=0, description="g: the step is η·φ^g")
    momentum: float = Field(default=0.0, ge=0, lt=1, description="momentum of the gradient steps")
    map: Literal["sigmoid", "cdf"] = Field(default="cdf", description="F: sigmoid or Gaussian CDF")
    sigma: float = Field(default=1.0, gt=0, description="σ of the Gaussian CDF")
    cost: LabelCost = Field(default="additive", description="cost of û: Eq. 2 or Eq. 5")
    penalty: float | tuple[float, ...] = Field(
        default=1.0, description="λ, one number or one per class: the pull to 0 or 1"
    )
    penalty_shape: Literal["constant", "gaussian"] = Field(
        default="constant", description="gaussian: λ(q) is largest where the prediction is 0.5"
    )
    penalty_width: float = Field(default=0.2, gt=0, description="s of the gaussian λ(q)")
    beta: float = Field(default=0.8, ge=0, le=1, description="β of ξ: confidence against time")
    gamma: float = Field(default=0.3, ge=0, le=1, description="γ of ξ: discount of uncertain û")
    uncertain_train: Literal["head", "model"] = Field(
        default="head", description="what uncertain û train; head: the backbone only by |2û − 1|"
    )
    unobserved_weight: float | None = Field(
        default=None, ge=0, description="w of L_unobs; none: 0.1, × N^(m − 1) for a deep model"
    )  # N = max(1, L / 10), m ≤ 1 observed positives per image; deep: the backbone is trained
    negative_weight: float | None = Field(
        default=None, ge=0, description="of an observed negative; none: w + (1 − w)·f"
    )  # f, the fraction of labels that is observed
    regulariser: float | None = Field(
        default=None, ge=0, description="v of R; none: 10 / L^1.5, × N^m for a deep model"
    )
    order: Literal["pseudo_target", "as_printed"] = Field(
        default="pseudo_target",
        description="CE(û, ŷ) as in the paper's text, or CE(ŷ, û) as printed",
    )
    prediction: Literal["reuse", "fresh"] = Field(
        default="reuse", description="ŷ of the update: from the step, or a new forward pass"
    )

    @model_validator(mode="after")
    def _check(self) -> "G2NetPLOptions":
        if self.momentum > 0 and self.response != "gradient":
            raise ValueError("momentum needs response=gradient")
        penalties = self.penalty if isinstance(self.penalty, tuple) else (self.penalty,)
        if not penalties or min(penalties) < 0:
            raise ValueError(f"penalty: must be 0 or more, got {self.penalty}")
        return self


@register(
    "g2netpl",
    "soft pseudo-labels that follow the predictions; our weights",
    _PAPER,
    annotation="auto",
    grid=_GRID,
)
@register(
    "g2netpl-paper",
    "soft pseudo-labels that follow the predictions; literal reading, all sums over B·L",
    _PAPER,
    grid=("unobserved_weight", (0.03, 0.1, 1.0)),
    step_size=1.0,
    step_growth=0.0,
    penalty_shape="gaussian",
    beta=0.5,
    gamma=1.0,
    uncertain_train="model",
    unobserved_weight=1.0,
    negative_weight=1.0,
    regulariser=1.0,
    prediction="fresh",
)
@register(
    "plmcl",
    "pseudo-labels with momentum and û = sigmoid(y), after that paper's abstract",
    "Abdelfattah et al., arXiv 2208.09999",
    grid=_GRID,
    map="sigmoid",
    momentum=0.9,
    step_size=0.4,
    uncertain_train="model",
    negative_weight=1.0,
)
class G2NetPL(Method):
    """Pseudo-labels and model minimise their own costs in turn."""

    Options = G2NetPLOptions
    latent: Tensor  # (N, L): y; with the exact response û itself
    velocity: Tensor  # (N, L), with momentum

    def __init__(self, observed: Tensor, *options: Any, **more: Any) -> None:
        super().__init__(observed, *options, **more)
        chosen, classes = self.options, observed.shape[1]
        self.map = SigmoidMap() if chosen.map == "sigmoid" else GaussianMap(chosen.sigma)
        self.has_latent = chosen.response != "best_response"  # F has no effect on the minimum
        start = self.map.start if self.has_latent else 0.5
        self.register_buffer("latent", torch.full(observed.shape, start, device=observed.device))
        if chosen.momentum > 0:
            self.register_buffer("velocity", torch.zeros_like(self.latent))
        self.penalty: float | Tensor = chosen.penalty
        if isinstance(chosen.penalty, tuple):
            if len(chosen.penalty) != classes:
                given = f"expected 1 or {classes} values (classes), got {len(chosen.penalty)}"
                raise InputError(f"penalty: {given}")
            self.penalty = torch.tensor(chosen.penalty, device=observed.device)
        self.has_negatives = bool((observed == NEGATIVE).any())
        self.observed_fraction = float((observed != UNOBSERVED).float().mean())
        self.tags_per_image = int((observed == POSITIVE).count_nonzero()) / max(1, len(observed))
        self.start_phase(0.0, deep=False)
        self._last: Any = None  # rows of the last `loss` and what it read: `update` needs it again

    def start_phase(self, lr: float, deep: bool) -> None:
        """Weights of the parts of the loss: given, or by rules for any number of classes."""
        options, classes = self.options, max(1, self.observed.shape[1])
        many, tagged = max(1.0, classes / 10.0), min(1.0, self.tags_per_image)
        w, v, negative = options.unobserved_weight, options.regulariser, options.negative_weight
        if w is None:
            w = 0.1 * many ** (tagged - 1.0) if deep else 0.1
        if v is None:
            v = 10.0 / classes**1.5 * (many**tagged if deep else 1.0)
        if negative is None:  # most unobserved labels are negative: observing one adds little
            negative = min(w, 1.0) + (1.0 - min(w, 1.0)) * self.observed_fraction
        self.unobserved_weight, self.regulariser, self.negative_weight = w, v, negative
        self.deep = deep

    def resolved_options(self) -> dict[str, Any]:
        names = ("unobserved_weight", "regulariser", "negative_weight")
        return super().resolved_options() | {name: getattr(self, name) for name in names}

    def loss(self, output: Output, batch: Batch, phi: float) -> Tensor:
        """L_obs + w·Σ ξ(û, φ)·CE(û, ŷ) + v·R (Eq. 6 to 8)."""
        options, logits, known = self.options, output.logits, batch.observed != UNOBSERVED
        _, soft, _ = self._read(batch.rows)
        targets = torch.where(known, batch.observed, soft)  # L_obs and L_unobs in one sum
        w, beta, gamma = self.unobserved_weight, options.beta, options.gamma
        weights = equations.confidence_weight(soft, phi, beta, gamma, w).masked_fill_(known, 1.0)
        if self.has_negatives:
            weights.masked_fill_(batch.observed == NEGATIVE, self.negative_weight)
        if self.deep and options.uncertain_train == "head":
            confidence = (2.0 * targets - 1.0).abs()  # 1 where observed; × the backbone's gradient
            logits = torch.lerp(output.head_only_logits, logits, confidence)
        if options.order == "pseudo_target":
            loss = soft_bce(logits, targets, weights)
        else:
            loss = soft_bce(logits, targets, weights * known)
            loss = loss + reversed_bce(logits, targets, weights * ~known)
        if self.regulariser > 0:
            loss = loss + self.regulariser * expected_positives(output.logits, self.k)
        return loss

    def predict(self, model: Model, batch: Batch, output: Output) -> Tensor:
        """Predictions of the step, or of a new forward pass after it."""
        if self.options.prediction == "fresh":
            return self.predict_again(model, batch)
        return super().predict(model, batch, output)

    def update(self, batch: Batch, predicted: Tensor, phi: float) -> None:
        """Lower the cost of û = F(y): one gradient step on y (Eq. 3), or the exact minimum."""
        options, penalty = self.options, self._penalty_at(predicted)
        latent, soft, slope = self._read(batch.rows)
        self._last = None
        if options.response == "fixed":
            return
        if options.response == "best_response":
            best = equations.best_response(predicted, penalty, options.cost, current=soft)
            self.latent[batch.rows] = best
            return
        move = equations.label_gradient(soft, slope, predicted, penalty, options.cost)
        if options.momentum > 0:
            move = options.momentum * self.velocity[batch.rows] + move
            self.velocity[batch.rows] = move
        size = options.step_size * phi**options.step_growth
        self.latent.index_copy_(0, batch.rows, torch.sub(latent, move, alpha=size))

    def pseudo_labels(self, rows: Tensor) -> Tensor:
        latent = self.latent[rows]
        soft = self.map.soft(latent) if self.has_latent else latent
        return self.with_observed(soft, self.observed[rows])

    def init_pseudo_labels(self, rows: Tensor, labels: Tensor) -> None:
        self.latent[rows] = self.map.latent(labels) if self.has_latent else labels
        self._last = None

    def regret(self, rows: Tensor, predicted: Tensor) -> Tensor:
        """cost(û) − cost(best response) of the unobserved labels."""
        soft, penalty = self._read(rows)[1], self._penalty_at(predicted)
        gain = equations.regret(soft, predicted, penalty, self.options.cost)
        return gain[self.observed[rows] == UNOBSERVED]

    def _read(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor | float]:
        """y, û = F(y) and F′/(û(1 − û))."""
        if self._last is None or self._last[0] is not rows:
            latent = self.latent.index_select(0, rows)
            soft_and_slope = self.map.soft_and_slope(latent) if self.has_latent else (latent, 1.0)
            self._last = rows, (latent, *soft_and_slope)
        read: tuple[Tensor, Tensor, Tensor | float] = self._last[1]
        return read

    def _penalty_at(self, predicted: Tensor) -> float | Tensor:
        width = self.options.penalty_width if self.options.penalty_shape == "gaussian" else None
        return equations.penalty_at(predicted, self.penalty, width)
