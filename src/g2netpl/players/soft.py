"""The paper's player: a soft pseudo label û = F(y) for every unobserved entry.

It proposes û with the confidence-aware weight ξ, and responds by lowering its own cost, which
pulls û to 0 or 1 and keeps it near the network's prediction. Where the paper leaves a choice open,
the choice is an option; `docs/decisions.md` says why the defaults are what they are.
"""

from collections.abc import Callable
from typing import Literal

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from g2netpl.data import Batch
from g2netpl.equations import (
    GaussianMap,
    LabelCost,
    LabelMap,
    SigmoidMap,
    best_response,
    confidence_weight,
    label_gradient,
    penalty_at,
    regret,
)
from g2netpl.errors import InputError
from g2netpl.game import LabelPlayer, Predict, Proposal, Setup
from g2netpl.labels import NEGATIVE, UNOBSERVED
from g2netpl.options import Options, none_from_text
from g2netpl.store import LabelStore, OfRows, join_states, load_states


class SoftOptions(Options):
    """The choices of the game."""

    response: Literal["gradient", "best_response", "frozen"] = Field(
        default="gradient",
        description="how labels answer: steps on the latent, the exact argmin, or (control) not",
    )
    steps: int = Field(default=1, ge=1, description="gradient steps per visit of an image")
    step_size: float = Field(default=4.0, ge=0, description="η, size of a gradient step")
    step_growth: float = Field(
        default=2.0, ge=0, description="the step is η·φ^growth; 0 keeps it constant"
    )
    momentum: float = Field(
        default=0.0, ge=0, lt=1, description="of the latent's steps, kept for every label"
    )
    map: Literal["sigmoid", "cdf", "step"] = Field(
        default="cdf", description="F: sigmoid, Gaussian CDF, or step (hard labels, best_response)"
    )
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
    averaging: Literal["entries", "own"] = Field(
        default="entries",
        description="entries: all parts over B·L; own: L_unobs and R × the observed fraction",
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
    memory: Literal["stored", "stateless"] = Field(
        default="stored",
        description="keep û over epochs, or answer each batch's own prediction (best_response)",
    )

    _none = field_validator("regulariser", "unobserved_weight", "negative_weight", mode="before")(
        none_from_text
    )

    @field_validator("penalty", mode="before")
    @classmethod
    def _list_from_text(cls, value: object) -> object:
        return value.strip("[]").split(",") if isinstance(value, str) and "," in value else value

    @model_validator(mode="after")
    def _choices_fit(self) -> "SoftOptions":
        if self.map == "step" and self.response == "gradient":
            raise ValueError("map=step has no gradient; use response=best_response with it")
        if self.memory == "stateless" and self.response != "best_response":
            raise ValueError("memory=stateless needs response=best_response")
        if self.momentum > 0 and self.response != "gradient":
            raise ValueError("momentum needs response=gradient")
        penalties = self.penalty if isinstance(self.penalty, tuple) else (self.penalty,)
        if not penalties or min(penalties) < 0:
            raise ValueError(f"penalty: must be 0 or more, got {self.penalty}")
        return self


class SoftPlayer(LabelPlayer):
    """Soft pseudo labels that play against the network."""

    def __init__(self, setup: Setup, options: SoftOptions) -> None:
        self.options = options
        self.observed = setup.observed
        self.only_positives = not setup.observed.has_negatives
        self.fresh = options.prediction == "fresh"
        known = setup.observed.known_fraction if len(setup.observed) else 1.0
        # own averages: Σ_obs/(B·L) + w·f·Σ_unobs/(B·L) + v·f·R, f the data's observed fraction,
        # so that the parts keep their weights in a batch that has nothing observed
        self.scale = known if options.averaging == "own" else 1.0
        self.begin_phase(setup.learning_rate, setup.deep)
        self.penalty = self._penalty_per_class(setup)
        self.map: LabelMap = (
            SigmoidMap() if options.map == "sigmoid" else GaussianMap(options.sigma)
        )
        # with the exact response F has no effect, and the store holds û itself
        self.holds_latents = options.response != "best_response"
        start = self.map.start if self.holds_latents else 0.5
        shape, device = (len(setup.observed), setup.observed.shape[1]), setup.observed.device
        self.store = setup.shelf.store("latents", shape, start, device)
        self.velocities: LabelStore | None = None
        if options.momentum > 0:
            self.velocities = setup.shelf.store("velocities", shape, 0.0, device)
        self._in_play: tuple[Tensor, Tensor, Tensor | float] | None = None

    def begin_with(self, soft: Callable[[Tensor], Tensor]) -> None:
        """Take up an earlier game where its labels were left."""
        if self.options.memory == "stateless":
            return
        every = torch.arange(len(self.observed), device=self.observed.device)
        for rows in every.split(4096):  # type: ignore[no-untyped-call]
            labels = soft(rows)
            self.store.write(rows, self.map.latent(labels) if self.holds_latents else labels)
        self.store.end_epoch()

    def begin_phase(self, learning_rate: float, deep: bool) -> None:
        """The weights of the parts, which depend on what learns: see docs/decisions.md."""
        weight, regulariser = self.options.unobserved_weight, self.options.regulariser
        classes = max(1, self.observed.shape[1])
        many = max(1.0, classes / 10.0)
        labelled = min(1.0, self.observed.positives_per_image)
        if weight is None:
            weight = 0.1 * many ** (labelled - 1.0) if deep else 0.1
        if regulariser is None:
            regulariser = 10.0 / classes**1.5 * (many**labelled if deep else 1.0)
        self.unobserved_weight = weight * self.scale
        self.regulariser = regulariser * self.scale
        # most unobserved labels are negative: to observe one of them says little more
        given, least = self.options.negative_weight, min(weight, 1.0)
        known = self.observed.known_fraction
        self.negative_weight = least + (1.0 - least) * known if given is None else given
        self.deep = deep

    def _penalty_per_class(self, setup: Setup) -> float | Tensor:
        penalty = self.options.penalty
        if isinstance(penalty, float):
            return penalty
        classes = setup.observed.shape[1]
        if len(penalty) != classes:
            raise InputError(
                f"penalty: expected 1 or {classes} values (classes), got {len(penalty)}"
            )
        return torch.tensor(penalty, dtype=torch.float32, device=setup.observed.device)

    def propose(self, batch: Batch, progress: float, predict: Predict) -> Proposal:
        """û as target and w·ξ(û, φ) as weight where nothing was observed (Eq. 7 and 8)."""
        if self.options.memory == "stateless":
            soft = self._respond_exactly(predict(batch.inputs), None)
            self._in_play = None
        else:
            latent = self.store.read(batch.rows)
            soft, slope = self._soft_and_slope(latent)
            self._in_play = (latent, soft, slope)
        known = batch.observed != UNOBSERVED
        targets = self._with_observed(soft, batch.observed, known)
        beta, gamma = self.options.beta, self.options.gamma
        weights = confidence_weight(soft, progress, beta, gamma, self.unobserved_weight)
        depth = None
        if self.deep and self.options.doubt_teaches == "classifier":
            depth = (2.0 * targets).sub_(1.0).abs_()  # 1 where observed
        if self.options.order == "literal":
            reversed_weights = weights.masked_fill_(known, 0.0)
            weights = self._with_weights_of_observed(
                torch.zeros_like(weights), batch.observed, known
            )
            return Proposal(targets, weights, self.regulariser, reversed_weights, depth=depth)
        weights = self._with_weights_of_observed(weights, batch.observed, known)
        return Proposal(targets, weights, self.regulariser, depth=depth)

    def respond(self, batch: Batch, predicted: Tensor, progress: float) -> None:
        """Lower the labels' cost: steps down its gradient (Eq. 3), or the exact minimum."""
        if self._in_play is None or self.options.response == "frozen":
            return
        latent, soft, slope = self._in_play
        if self.options.response == "best_response":
            latent = self._respond_exactly(predicted, soft)
        else:
            size = self.options.step_size * progress**self.options.step_growth
            penalty = self._penalty_at(predicted)
            velocity = None if self.velocities is None else self.velocities.read(batch.rows)
            for step in range(self.options.steps):
                if step > 0:
                    soft, slope = self._soft_and_slope(latent)
                move = label_gradient(soft, slope, predicted, penalty, self.options.cost)
                if velocity is not None:
                    move = velocity = self.options.momentum * velocity + move
                latent = torch.sub(latent, move, alpha=size)
            if self.velocities is not None and velocity is not None:
                self.velocities.write(batch.rows, velocity)
        self.store.write(batch.rows, latent)

    def end_epoch(self) -> None:
        """The next epoch reads what this one wrote."""
        self._in_play = None
        self.store.end_epoch()
        if self.velocities is not None:
            self.velocities.end_epoch()

    def soft_labels(self, rows: Tensor | None = None) -> Tensor | None:
        """û for every training image, or for some, observed entries at their value."""
        if self.options.memory == "stateless":
            return None
        if rows is None:
            return self._shown(self.store.previous, self.observed.whole())
        return self._shown(self.store.read(rows), self.observed.rows(rows))

    def labels_now(self) -> OfRows | None:
        """The same as a function of rows."""
        if self.options.memory == "stateless":
            return None
        read = self.store.reader()
        return lambda rows: self._shown(read(rows), self.observed.rows(rows))

    def _shown(self, latent: Tensor, observed: Tensor) -> Tensor:
        soft = self.map.soft(latent) if self.holds_latents else latent
        return self._with_observed(soft, observed, observed != UNOBSERVED)

    def regret(self, rows: Tensor, predicted: Tensor) -> float | None:
        """Mean over the unobserved entries of these images of cost(û) − cost(best response)."""
        unknown = self.observed.rows(rows) == UNOBSERVED
        if self.options.memory == "stateless" or not bool(unknown.any()):
            return None
        soft, _ = self._soft_and_slope(self.store.read(rows))
        if self.options.map == "step":  # hard labels cannot do better than the right side
            gain = (soft - self._respond_exactly(predicted, soft)).abs()
        else:
            gain = regret(soft, predicted, self._penalty_at(predicted), self.options.cost)
        return float(gain[unknown].mean())

    def state(self) -> dict[str, Tensor]:
        """The latents of all images, and their velocities."""
        return join_states(self._stores())

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from `state`."""
        load_states(self._stores(), state)

    def _stores(self) -> dict[str, LabelStore]:
        moving = {} if self.velocities is None else {"velocities": self.velocities}
        return {"latents": self.store, **moving}

    def _with_observed(self, soft: Tensor, observed: Tensor, known: Tensor) -> Tensor:
        """û where nothing was observed, the observed value elsewhere."""
        if self.only_positives:  # by far the most frequent case, and cheaper
            return soft.masked_fill(known, 1.0)
        return torch.where(known, observed, soft)

    def _with_weights_of_observed(self, weights: Tensor, observed: Tensor, known: Tensor) -> Tensor:
        """1 where a positive was observed, the weight of a negative where one was."""
        weights = weights.masked_fill_(known, 1.0)
        if self.only_positives:
            return weights
        return weights.masked_fill_(observed == NEGATIVE, self.negative_weight)

    def _soft_and_slope(self, latent: Tensor) -> tuple[Tensor, Tensor | float]:
        return self.map.soft_and_slope(latent) if self.holds_latents else (latent, 1.0)

    def _penalty_at(self, predicted: Tensor) -> float | Tensor:
        width = self.options.penalty_width if self.options.penalty_shape == "gaussian" else None
        return penalty_at(predicted, self.penalty, width)

    def _respond_exactly(self, predicted: Tensor, current: Tensor | None) -> Tensor:
        soft = best_response(predicted, self._penalty_at(predicted), self.options.cost, current)
        if self.options.map != "step":
            return soft
        undecided = torch.full_like(soft, 0.5) if current is None else current
        return torch.where(predicted == 0.5, undecided, (soft > 0.5).float())
