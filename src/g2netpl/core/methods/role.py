"""ROLE: a table of label estimates is trained together with the model.

Every label has an estimate g = sigmoid(logit), a trained parameter. Model and estimates learn from
the observed positives and from each other; the estimates by Adam with their own learning rate.
"""

import copy
import math
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from g2netpl.core.algorithm import NEGATIVE, POSITIVE, Batch
from g2netpl.core.annotation import Output
from g2netpl.core.losses import expected_positives, soft_bce
from g2netpl.core.methods.base import Method, MethodOptions, register
from g2netpl.utils.errors import InputError

_MOST_LABELS = 300_000_000  # each takes 16 bytes: estimate, gradient and two moments


@register(
    "role",
    "estimate every label online, together with the model",
    "Cole et al., CVPR 2021",
    grid=("regulariser", (0.03, 0.1, 1.0)),
)
class ROLE(Method):
    """Online estimation of all labels."""

    class Options(MethodOptions):
        estimate_learning_rate: float = Field(
            default=10.0, gt=0, description="learning rate of the estimates, × the model's"
        )
        regulariser: float = Field(default=1.0, ge=0, description="weight of R, half for each side")

    def __init__(self, observed: Tensor, *options: Any, **more: Any) -> None:
        super().__init__(observed, *options, **more)
        if observed.numel() > _MOST_LABELS:
            raise InputError(f"method role: {observed.numel():,} labels, at most {_MOST_LABELS:,}")
        generator = torch.Generator().manual_seed(self.seed)
        uniform = torch.rand(observed.shape, generator=generator).to(observed.device) * 2.0 - 1.0
        logits, certain = uniform * math.log(0.6 / 0.4), math.log(0.995 / 0.005)
        logits = logits.masked_fill(observed == POSITIVE, certain)
        self._set_logits(logits.masked_fill(observed == NEGATIVE, -certain))

    def _set_logits(self, logits: Tensor) -> None:
        self.logits = nn.Parameter(logits)
        self.adam = torch.optim.Adam([self.logits])

    def keep_rows(self, rows: Tensor) -> None:
        super().keep_rows(rows)
        self._set_logits(self.logits.detach()[rows])

    def start_phase(self, lr: float, deep: bool) -> None:
        """The estimates keep their ratio to the model's learning rate."""
        self.adam.param_groups[0]["lr"] = self.options.estimate_learning_rate * lr

    def loss(self, output: Output, batch: Batch, phi: float) -> Tensor:
        """½CE(g, f) on every label, ½·(−log f) more on observed positives, and ½R(f)."""
        return self._side(output.logits, self.logits.detach()[batch.rows].sigmoid(), batch.observed)

    def update(self, batch: Batch, predicted: Tensor, phi: float) -> None:
        """One Adam step on ½CE(f, g), ½·(−log g) more on observed positives, and ½R(g)."""
        self.adam.zero_grad()
        loss = self._side(self.logits[batch.rows], predicted, batch.observed)
        loss.backward()  # type: ignore[no-untyped-call]
        self.adam.step()

    def _side(self, logits: Tensor, other: Tensor, observed: Tensor) -> Tensor:
        """The loss of one side, given the other's probabilities; both parts as one target."""
        positive = observed == POSITIVE
        targets = torch.where(positive, 0.5 * (1.0 + other), other)
        weight: float = 0.5 * self.options.regulariser
        loss = soft_bce(logits, targets, torch.where(positive, 1.0, 0.5))
        return loss + weight * expected_positives(logits, self.k)

    def pseudo_labels(self, rows: Tensor) -> Tensor:
        return self.with_observed(self.logits.detach()[rows].sigmoid(), self.observed[rows])

    def init_pseudo_labels(self, rows: Tensor, labels: Tensor) -> None:
        estimates = self.with_observed(labels, self.observed[rows])
        with torch.no_grad():
            self.logits[rows] = estimates.clamp(0.005, 0.995).logit()

    def get_extra_state(self) -> Any:
        return self.adam.state_dict()

    def set_extra_state(self, state: Any) -> None:
        self.adam.load_state_dict(copy.deepcopy(state))  # it would share the tensors
