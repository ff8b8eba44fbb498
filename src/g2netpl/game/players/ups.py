"""UPS for many labels: pseudo labels that are both sure and steady; our form.

The network is trained in rounds, each from the same start. Between two rounds every training image
is predicted several times with dropout on. An unobserved entry becomes positive where the mean of
its predictions is high and their deviation small, negative where the mean is low and the deviation
smaller still; the rest stays as it was. Each selection is made anew from all unobserved entries.
Unobserved labels of labelled images count as negative until they are selected as positive
(`unobserved=negative`, AN), or not before they are selected (`ignore`, IU).
"""

from collections.abc import Iterable
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from g2netpl.base.options import Options
from g2netpl.game.batches import Batch
from g2netpl.game.label_memory import OfRows
from g2netpl.game.player import LabelPlayer, Predict, Proposal, Setup
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED


class UpsOptions(Options):
    """When a label is sure and steady, and how often the network is asked."""

    rounds: int = Field(default=2, ge=1, description="trainings, each from the same start")
    passes: int = Field(default=10, ge=2, description="predictions with dropout between rounds")
    dropout: float = Field(default=0.3, gt=0, lt=1, description="before the last layer")
    positive_mean: float = Field(default=0.7, gt=0.5, lt=1, description="positive from here on")
    positive_deviation: float = Field(default=0.05, gt=0, description="and steadier than this")
    negative_mean: float = Field(default=0.05, gt=0, lt=0.5, description="negative down from here")
    negative_deviation: float = Field(default=0.005, gt=0, description="and steadier than this")
    unobserved: Literal["negative", "ignore"] = Field(
        default="negative", description="unselected labels of labelled images"
    )


class UpsPlayer(LabelPlayer):
    """Observed labels, and what the round before was sure about."""

    def __init__(self, setup: Setup, options: UpsOptions) -> None:
        self.options = options
        self.observed = setup.observed
        self.selected = self.remember(setup, "selected", float(UNOBSERVED))

    def begin_round(self, opinions: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Select pseudo labels anew."""
        options = self.options
        start = 0
        for mean, deviation in opinions:
            rows = torch.arange(start, start + len(mean), device=self.observed.device)
            unknown = self.observed[rows] == UNOBSERVED
            positive = (mean >= options.positive_mean) & (deviation < options.positive_deviation)
            negative = (mean <= options.negative_mean) & (deviation < options.negative_deviation)
            selected = torch.full_like(mean, UNOBSERVED, dtype=torch.float32)
            selected[unknown & positive] = POSITIVE
            selected[unknown & negative] = NEGATIVE
            self.selected.write(rows, selected)
            start += len(mean)
        self.selected.end_epoch()

    def propose(self, batch: Batch, progress: float, predict: Predict) -> Proposal:
        """Observed and selected labels, each with weight 1."""
        known = batch.observed != UNOBSERVED
        labels = torch.where(known, batch.observed, self.selected.read(batch.rows))
        weights = (labels != UNOBSERVED).float()
        if self.options.unobserved == "negative":
            weights = weights.masked_fill(known.any(dim=1, keepdim=True), 1.0)
        return Proposal((labels == POSITIVE).float(), weights)

    def labels_now(self) -> OfRows:
        """1 and 0 where observed or selected, 0.5 elsewhere."""
        read = self.selected.reader()

        def shown(rows: Tensor) -> Tensor:
            observed = self.observed[rows]
            labels = torch.where(observed != UNOBSERVED, observed, read(rows))
            return labels.masked_fill(labels == UNOBSERVED, 0.5)

        return shown
