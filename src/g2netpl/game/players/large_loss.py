"""Large loss matters: LL-R, LL-Ct, LL-Cp. Unobserved is negative, but for the largest losses.

A network learns the clean labels first; an assumed negative with a large loss is likely a missed
positive. In every batch the share of unobserved entries with the largest loss, which are those
with the largest prediction, is rejected, taken as positive for this step, or for good. The share
grows with the epochs: `rate` · φ; where corrections last, every epoch but the first adds as much to
them as the share grows by. (The authors speak of the growth per epoch, 0.2 %: with 10 epochs the
rate 0.02.) At least one entry of a batch is concerned from the second epoch on.
"""

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from g2netpl.base.options import Options
from g2netpl.game.batches import Batch
from g2netpl.game.label_memory import LabelMemory
from g2netpl.game.player import LabelPlayer, Predict, Proposal, Setup
from g2netpl.labels.table import POSITIVE, UNOBSERVED


class LargeLossOptions(Options):
    """What happens to how many."""

    action: Literal["reject", "temporary", "permanent"] = Field(
        default="reject", description="what happens to a large loss: left out, or taken as positive"
    )
    rate: float = Field(
        default=0.02,
        ge=0,
        le=1,
        description="share of the unobserved entries after all epochs; rate · φ on the way",
    )


def largest(scores: Tensor, among: Tensor, share: float) -> Tensor:
    """Which entries are the `share` of those `among` with the largest scores; (B, L) bool."""
    candidates = int(among.sum())
    count = min(candidates, math.ceil(share * candidates - 1e-9))
    if count == 0:
        return torch.zeros_like(among)
    chosen = scores.masked_fill(~among, -torch.inf).flatten().topk(count).indices
    flat = torch.zeros(scores.numel(), dtype=torch.bool, device=scores.device)
    flat[chosen] = True
    return flat.view_as(among)


class LargeLossPlayer(LabelPlayer):
    """Assumed negatives, without those that the network objects to most."""

    def __init__(self, setup: Setup, options: LargeLossOptions) -> None:
        self.options = options
        self.epochs = max(1, setup.epochs)
        self.corrected: LabelMemory | None = None
        if options.action == "permanent":
            self.corrected = self.remember(setup, "corrected", 0.0)

    def propose(self, batch: Batch, progress: float, predict: Predict) -> Proposal:
        """Assume negative; what was corrected for good is positive."""
        targets = (batch.observed == POSITIVE).float()
        doubtful = batch.observed == UNOBSERVED
        if self.corrected is not None:
            before = self.corrected.read(batch.rows)
            targets = torch.maximum(targets, before)
            doubtful = doubtful & (before == 0)
        share = self._share(progress)

        def entry_cost(logits: Tensor) -> Tensor:
            large = largest(logits.detach(), doubtful, share)
            learnt = targets.masked_fill(large, 1.0)
            cost = binary_cross_entropy_with_logits(logits, learnt, reduction="none")
            return cost.masked_fill(large, 0.0) if self.options.action == "reject" else cost

        return Proposal(targets, torch.ones_like(targets), entry_cost=entry_cost)

    def respond(self, batch: Batch, predicted: Tensor, progress: float) -> None:
        """LL-Cp: what had the largest loss in this step stays positive."""
        if self.corrected is None:
            return
        before = self.corrected.read(batch.rows)
        open_entries = (batch.observed == UNOBSERVED) & (before == 0)
        large = largest(predicted, open_entries, self._share(progress))
        self.corrected.write(batch.rows, before.masked_fill(large, 1.0))

    def _share(self, progress: float) -> float:
        """Of the entries that may be concerned in this step."""
        if self.corrected is None:
            return self.options.rate * progress
        return self.options.rate / self.epochs if progress > 0 else 0.0
