"""EM and APL: what is unknown is left unknown, and only the surest negatives are learnt.

EM maximises the entropy of the prediction wherever nothing was observed: −α·H(p). APL adds, from
the middle of the training on, negative pseudo labels: per class the unobserved entries with the
lowest predictions of the epoch before, a share that grows to θ in the last epoch, each with that
prediction as a soft target. (The authors pick entries once and keep them; here they are picked anew
every epoch.)
"""

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from g2netpl.base.options import Options
from g2netpl.game.batches import Batch
from g2netpl.game.label_memory import LabelMemory
from g2netpl.game.player import LabelPlayer, Predict, Proposal, Setup
from g2netpl.labels.table import POSITIVE, UNOBSERVED


class EntropyOptions(Options):
    """Weights of the unknown and of the pseudo negatives."""

    entropy_weight: float = Field(default=0.1, ge=0, description="α: weight of the entropy")
    negatives: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="θ: share of pseudo negatives in the last epoch; 0: none",
    )
    negatives_weight: float = Field(default=0.9, ge=0, description="β: weight of a pseudo negative")
    start: float = Field(default=0.5, ge=0, lt=1, description="share of the epochs before them")


def entropy(logits: Tensor) -> Tensor:
    """H(p) = −p log p − (1 − p) log(1 − p), from logits."""
    predicted = logits.sigmoid()
    return -predicted * logsigmoid(logits) - (1.0 - predicted) * logsigmoid(-logits)


class EntropyPlayer(LabelPlayer):
    """Observed labels as they are; the unknown keep the network in doubt."""

    def __init__(self, setup: Setup, options: EntropyOptions) -> None:
        self.options = options
        self.observed = setup.observed
        self.epoch = 1.0 / max(1, setup.epochs)  # as a share of the training
        self.predictions: LabelMemory | None = None
        if options.negatives > 0:
            self.predictions = self.remember(setup, "predictions", 0.5)
        self._limits: tuple[float, Tensor] | None = None

    def propose(self, batch: Batch, progress: float, predict: Predict) -> Proposal:
        """Observed labels, pseudo negatives with their soft target, and doubt elsewhere."""
        targets = (batch.observed == POSITIVE).float()
        unknown = batch.observed == UNOBSERVED
        weights = torch.where(unknown, self.options.entropy_weight, 1.0)
        if self.predictions is not None and progress >= self.options.start:
            before = self.predictions.read(batch.rows)
            chosen = unknown & (before <= self._thresholds(progress))
            targets = torch.where(chosen, before, targets)
            weights = weights.masked_fill(chosen, self.options.negatives_weight)
            unknown = unknown & ~chosen

        def entry_cost(logits: Tensor) -> Tensor:
            learnt = binary_cross_entropy_with_logits(logits, targets, reduction="none")
            return torch.where(unknown, -entropy(logits), learnt)

        return Proposal(targets, weights, entry_cost=entry_cost)

    def respond(self, batch: Batch, predicted: Tensor, progress: float) -> None:
        """Remember the predictions."""
        if self.predictions is not None:
            self.predictions.write(batch.rows, predicted)

    def end_epoch(self) -> None:
        """The next epoch reads what this one wrote."""
        self._limits = None
        super().end_epoch()

    def _thresholds(self, progress: float) -> Tensor:
        """Per class the prediction below which the share of the unobserved lies, (L,)."""
        assert self.predictions is not None
        if self._limits is None or self._limits[0] != progress:
            grown = (progress + self.epoch - self.options.start) / (1.0 - self.options.start)
            unknown = self.observed == UNOBSERVED
            ranked = self.predictions.previous.masked_fill(~unknown, torch.inf).sort(dim=0).values
            share = self.options.negatives * min(1.0, grown)
            count = (share * unknown.sum(dim=0)).round().long()
            last = ranked.gather(0, (count - 1).clamp(min=0)[None])[0]
            self._limits = (progress, torch.where(count > 0, last, -torch.inf))
        return self._limits[1]
