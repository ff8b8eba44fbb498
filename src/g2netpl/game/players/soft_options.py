"""The options of the game: readings of the paper where it leaves a choice open, and numbers.

Readings are `response`, `map`, `cost`, `penalty_shape`, `doubt_teaches`, `order` and `prediction`;
docs/method/decisions.md says which we took, and why. `PartWeights` are what weights come to.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field, field_validator, model_validator
from torch import Tensor

from g2netpl.base.options import Options, list_from_text, none_from_text
from g2netpl.core.equations import LabelCost
from g2netpl.labels.table import POSITIVE, UNOBSERVED


class SoftOptions(Options):
    """Readings of the paper, and the numbers of the game."""

    response: Literal["gradient", "best_response", "frozen"] = Field(
        default="gradient",
        description="how labels answer: a step on the latent, the exact argmin, or (control) not",
    )
    step_size: float = Field(default=4.0, ge=0, description="η, size of a gradient step")
    step_growth: float = Field(
        default=2.0, ge=0, description="the step is η·φ^growth; 0 keeps it constant"
    )
    momentum: float = Field(
        default=0.0, ge=0, lt=1, description="of the latent's steps, kept for every label"
    )
    map: Literal["sigmoid", "cdf"] = Field(default="cdf", description="F: sigmoid or Gaussian CDF")
    sigma: float = Field(default=1.0, gt=0, description="σ of the Gaussian CDF")
    cost: LabelCost = Field(default="additive", description="the labels' cost, Eq. 2 or Eq. 5")
    penalty: float | tuple[float, ...] = Field(
        default=1.0, description="λ, one number or one per class: the pull to 0 or 1"
    )
    penalty_shape: Literal["constant", "gaussian"] = Field(
        default="constant", description="gaussian: λ(q) is largest where the prediction is 0.5"
    )
    penalty_width: float = Field(default=0.2, gt=0, description="s of the gaussian λ(q)")
    beta: float = Field(default=0.8, ge=0, le=1, description="β of ξ: confidence against time")
    gamma: float = Field(default=0.3, ge=0, le=1, description="γ of ξ: how little doubt counts")
    doubt_teaches: Literal["classifier", "network"] = Field(
        default="classifier",
        description="who learns from soft labels in doubt; with classifier, the backbone does only "
        "as far as they are sure, |2û − 1|",
    )
    unobserved_weight: float | None = Field(
        default=None,
        ge=0,
        description="weight of L_unobs; none: 0.1, and where the backbone learns "
        "0.1 · (L / 10)^(m − 1) for L > 10 classes, m ≤ 1 observed positives per image",
    )
    negative_weight: float | None = Field(
        default=None,
        ge=0,
        description="weight of an observed negative, a positive being 1; none: that of an "
        "unobserved label, w, and the more the more was observed: w + (1 − w)·f",
    )
    regulariser: float | None = Field(
        default=None,
        ge=0,
        description="weight of R; none: 10 / L^1.5, L the number of classes, and where the "
        "backbone learns × (L / 10)^m for L > 10",
    )
    order: Literal["pseudo_target", "literal"] = Field(
        default="pseudo_target", description="CE(û, ŷ) as the words say, or CE(ŷ, û) as printed"
    )
    prediction: Literal["reuse", "fresh"] = Field(
        default="reuse", description="answer the forward of the step, or a new one after it"
    )

    _none = field_validator("regulariser", "unobserved_weight", "negative_weight", mode="before")(
        none_from_text
    )
    _list = field_validator("penalty", mode="before")(list_from_text)

    @model_validator(mode="after")
    def _choices_fit(self) -> "SoftOptions":
        if self.momentum > 0 and self.response != "gradient":
            raise ValueError("momentum needs response=gradient")
        penalties = self.penalty if isinstance(self.penalty, tuple) else (self.penalty,)
        if not penalties or min(penalties) < 0:
            raise ValueError(f"penalty: must be 0 or more, got {self.penalty}")
        return self


@dataclass(frozen=True, slots=True)
class PartWeights:
    """The weights of L_unobs, of an observed negative and of R; an observed positive has 1.

    Why they are what they are: docs/method/decisions.md.
    """

    unobserved: float
    negative: float
    regulariser: float

    @staticmethod
    def of(options: SoftOptions, observed: Tensor, *, deep: bool) -> "PartWeights":
        """As the options say, or by the rules that hold from 10 classes to 80 and more.

        `deep` tells whether the backbone learns too.
        """
        images, classes = len(observed), max(1, observed.shape[1])
        known = (
            int((observed != UNOBSERVED).count_nonzero()) / (images * classes) if images else 1.0
        )
        many = max(1.0, classes / 10.0)
        labelled = min(1.0, int((observed == POSITIVE).count_nonzero()) / max(images, 1))
        unobserved, regulariser = options.unobserved_weight, options.regulariser
        if unobserved is None:
            unobserved = 0.1 * many ** (labelled - 1.0) if deep else 0.1
        if regulariser is None:
            regulariser = 10.0 / classes**1.5 * (many**labelled if deep else 1.0)
        negative = options.negative_weight
        if negative is None:  # most unobserved labels are negative: to observe one says little more
            least = min(unobserved, 1.0)
            negative = least + (1.0 - least) * known
        return PartWeights(unobserved, negative, regulariser)
