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
from g2netpl.game.label_memory import OfRows, State
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
        self.rounds, self.passes = options.rounds, options.passes
        self.observed = setup.observed
        self.selected = torch.full(
            setup.observed.shape, UNOBSERVED, dtype=torch.int8, device=setup.observed.device
        )

    def begin_round(self, opinions: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Select pseudo labels anew."""
        options = self.options
        selected = torch.full_like(self.selected, UNOBSERVED)  # a checkpoint may hold the old one
        start = 0
        for mean, deviation in opinions:
            rows = torch.arange(start, start + len(mean), device=selected.device)
            unknown = self.observed.rows(rows) == UNOBSERVED
            positive = (mean >= options.positive_mean) & (deviation < options.positive_deviation)
            negative = (mean <= options.negative_mean) & (deviation < options.negative_deviation)
            chosen = selected[start : start + len(mean)]
            chosen[unknown & positive] = POSITIVE
            chosen[unknown & negative] = NEGATIVE
            start += len(mean)
        self.selected = selected

    def propose(self, batch: Batch, progress: float, predict: Predict) -> Proposal:
        """Observed and selected labels, each with weight 1."""
        known = batch.observed != UNOBSERVED
        labels = torch.where(known, batch.observed, self.selected.index_select(0, batch.rows))
        weights = (labels != UNOBSERVED).float()
        if self.options.unobserved == "negative":
            weights = weights.masked_fill(known.any(dim=1, keepdim=True), 1.0)
        return Proposal((labels == POSITIVE).float(), weights)

    def soft_labels(self, rows: Tensor | None = None) -> Tensor | None:
        """1 and 0 where observed or selected, 0.5 elsewhere."""
        if rows is None:
            return _shown(self.selected, self.observed.whole())
        return self.labels_now()(rows)

    def labels_now(self) -> OfRows:
        """The same as a function of rows."""
        selected = self.selected  # which is never changed, but replaced
        return lambda rows: _shown(selected.index_select(0, rows), self.observed.rows(rows))

    def state(self) -> State:
        """The selection of this round."""
        return {"selected": self.selected}

    def owns(self, value: Tensor) -> bool:
        """The selection is never changed, but replaced."""
        return value is self.selected

    def load_state(self, state: State) -> None:
        """Go on from `state`."""
        self.selected = state["selected"].to(self.selected, copy=True)


def _shown(selected: Tensor, observed: Tensor) -> Tensor:
    labels = torch.where(observed != UNOBSERVED, observed, selected).float()
    return labels.masked_fill(labels == UNOBSERVED, 0.5)
