"""The paper's player: a soft pseudo label û = F(y) for every unobserved entry.

It proposes û with the confidence-aware weight ξ, and responds by lowering its own cost, which
pulls û to 0 or 1 and keeps it near the network's prediction. Where the paper leaves a choice open,
the choice is an option; `docs/method/decisions.md` says why the defaults are what they are.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from g2netpl.base.errors import InputError
from g2netpl.core.equations import (
    GaussianMap,
    LabelMap,
    SigmoidMap,
    best_response,
    confidence_weight,
    label_gradient,
    penalty_at,
    regret,
)
from g2netpl.game.batches import Batch
from g2netpl.game.label_memory import LabelMemory, OfRows
from g2netpl.game.player import LabelPlayer, Predict, Proposal, Setup
from g2netpl.game.players.soft_options import PartWeights, SoftOptions
from g2netpl.labels.table import NEGATIVE, UNOBSERVED


class SoftPlayer(LabelPlayer):
    """Soft pseudo labels that play against the network."""

    def __init__(self, setup: Setup, options: SoftOptions) -> None:
        self.options = options
        self.observed = setup.observed
        self.only_positives = not bool((setup.observed == NEGATIVE).any())
        self.begin_phase(setup.learning_rate, setup.deep)
        self.penalty = self._penalty_per_class(setup)
        self.map: LabelMap = (
            SigmoidMap() if options.map == "sigmoid" else GaussianMap(options.sigma)
        )
        # with the exact response F has no effect, and the memory holds û itself
        self.holds_latents = options.response != "best_response"
        start = self.map.start if self.holds_latents else 0.5
        self.latents = self.remember(setup, "latents", start)
        self.velocities: LabelMemory | None = None
        if options.momentum > 0:
            self.velocities = self.remember(setup, "velocities", 0.0)
        self._in_play: tuple[Tensor, Tensor, Tensor | float] | None = None

    def begin_with(self, soft: Callable[[Tensor], Tensor]) -> None:
        """Take up an earlier game where its labels were left."""
        rows = torch.arange(len(self.observed), device=self.observed.device)
        labels = soft(rows)
        self.latents.write(rows, self.map.latent(labels) if self.holds_latents else labels)
        self.latents.end_epoch()

    def begin_phase(self, learning_rate: float, deep: bool) -> None:
        """The weights of the parts depend on what learns."""
        self.weights = PartWeights.of(self.options, self.observed, deep=deep)
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
        latent = self.latents.read(batch.rows)
        soft, slope = self._soft_and_slope(latent)
        self._in_play = (latent, soft, slope)
        known = batch.observed != UNOBSERVED
        targets = self._with_observed(soft, batch.observed, known)
        weights = confidence_weight(
            soft, progress, self.options.beta, self.options.gamma, self.weights.unobserved
        )
        depth = None
        if self.deep and self.options.doubt_teaches == "classifier":
            depth = (2.0 * targets).sub_(1.0).abs_()  # 1 where observed
        if self.options.order == "literal":
            reversed_weights = weights.masked_fill_(known, 0.0)
            weights = self._with_weights_of_observed(
                torch.zeros_like(weights), batch.observed, known
            )
            return Proposal(
                targets, weights, self.weights.regulariser, reversed_weights, depth=depth
            )
        weights = self._with_weights_of_observed(weights, batch.observed, known)
        return Proposal(targets, weights, self.weights.regulariser, depth=depth)

    def respond(self, batch: Batch, predicted: Tensor, progress: float) -> None:
        """Lower the labels' cost: a step down its gradient (Eq. 3), or the exact minimum."""
        if self._in_play is None or self.options.response == "frozen":
            return
        latent, soft, slope = self._in_play
        if self.options.response == "best_response":
            latent = best_response(predicted, self._penalty_at(predicted), self.options.cost, soft)
        else:
            size = self.options.step_size * progress**self.options.step_growth
            penalty = self._penalty_at(predicted)
            move = label_gradient(soft, slope, predicted, penalty, self.options.cost)
            if self.velocities is not None:
                move = self.options.momentum * self.velocities.read(batch.rows) + move
                self.velocities.write(batch.rows, move)
            latent = torch.sub(latent, move, alpha=size)
        self.latents.write(batch.rows, latent)

    def end_epoch(self) -> None:
        """The next epoch reads what this one wrote."""
        self._in_play = None
        super().end_epoch()

    def labels_now(self) -> OfRows:
        """û, observed entries at their value."""
        read = self.latents.reader()
        return lambda rows: self._shown(read(rows), self.observed[rows])

    def _shown(self, latent: Tensor, observed: Tensor) -> Tensor:
        soft = self.map.soft(latent) if self.holds_latents else latent
        return self._with_observed(soft, observed, observed != UNOBSERVED)

    def regret(self, rows: Tensor, predicted: Tensor) -> float | None:
        """Mean over the unobserved entries of these images of cost(û) − cost(best response)."""
        unknown = self.observed[rows] == UNOBSERVED
        if not bool(unknown.any()):
            return None
        soft, _ = self._soft_and_slope(self.latents.read(rows))
        gain = regret(soft, predicted, self._penalty_at(predicted), self.options.cost)
        return float(gain[unknown].mean())

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
        return weights.masked_fill_(observed == NEGATIVE, self.weights.negative)

    def _soft_and_slope(self, latent: Tensor) -> tuple[Tensor, Tensor | float]:
        return self.map.soft_and_slope(latent) if self.holds_latents else (latent, 1.0)

    def _penalty_at(self, predicted: Tensor) -> float | Tensor:
        width = self.options.penalty_width if self.options.penalty_shape == "gaussian" else None
        return penalty_at(predicted, self.penalty, width)
