"""ROLE: a second table of label estimates that is trained together with the network.

Every label, observed or not, has an estimate g = sigmoid(logit). Both sides learn from the observed
positives and from each other. The estimates of a batch move by Adam, with moments of their own per
entry; rows outside the batch rest, where the benchmark's dense Adam lets their momentum run on.
"""

import math

import torch
from pydantic import Field
from torch import Tensor

from g2netpl.costs import expected_positives, soft_bce
from g2netpl.data import Batch
from g2netpl.game import LabelPlayer, Predict, Proposal, Setup
from g2netpl.labels import NEGATIVE, POSITIVE, UNOBSERVED
from g2netpl.options import Options
from g2netpl.store import LabelStore, OfRows, join_states, load_states

_BETAS, _EPSILON = (0.9, 0.999), 1e-8


class RoleOptions(Options):
    """What ROLE can change."""

    estimate_learning_rate: float = Field(
        default=10.0, gt=0, description="learning rate of the estimates, × the network's"
    )
    regulariser: float = Field(default=1.0, ge=0, description="weight of R, half for each side")


class RolePlayer(LabelPlayer):
    """Online estimates of all labels (SPML's ROLE)."""

    def __init__(self, setup: Setup, options: RoleOptions) -> None:
        self.observed = setup.observed
        self.expected = setup.expected_positives
        self.rate_factor = options.estimate_learning_rate
        self.begin_phase(setup.learning_rate, setup.deep)
        self.regulariser = options.regulariser
        shape, device = (len(setup.observed), setup.observed.shape[1]), setup.observed.device
        shelf = setup.shelf
        self.logits = shelf.store("logits", shape, _start_logits(setup), device)
        self.first = shelf.store("first_moment", shape, 0.0, device)
        self.second = shelf.store("second_moment", shape, 0.0, device)
        self.moves = shelf.store("moves", (shape[0], 1), 0.0, device)

    def begin_with(self, soft: OfRows) -> None:
        """Take up earlier estimates; observed entries begin as ever."""
        every = torch.arange(len(self.observed), device=self.observed.device)
        for rows in every.split(4096):  # type: ignore[no-untyped-call]
            unknown = self.observed.rows(rows) == UNOBSERVED
            earlier = soft(rows).logit(1e-6)
            self.logits.write(rows, torch.where(unknown, earlier, self.logits.read(rows)))
        self.logits.end_epoch()

    def begin_phase(self, learning_rate: float, deep: bool) -> None:
        """The estimates keep their ratio to the network's learning rate."""
        self.learning_rate = self.rate_factor * learning_rate

    def propose(self, batch: Batch, progress: float, predict: Predict) -> Proposal:
        """½CE(g, f) on every entry, and ½·(−log f) more on observed positives, as one target."""
        estimate = self.logits.read(batch.rows).sigmoid()
        positive = batch.observed == POSITIVE
        targets = torch.where(positive, 0.5 * (1.0 + estimate), estimate)
        weights = torch.where(positive, 1.0, 0.5)
        return Proposal(targets, weights, 0.5 * self.regulariser)

    def respond(self, batch: Batch, predicted: Tensor, progress: float) -> None:
        """One Adam step of the estimates on ½[pos(g) + CE(f, g)]/(B·L) + ½R(g)."""
        logits = self.logits.read(batch.rows).requires_grad_()
        positive = batch.observed == POSITIVE
        targets = torch.where(positive, 0.5 * (1.0 + predicted), predicted)
        weights = torch.where(positive, 1.0, 0.5)
        cost = soft_bce(logits, targets, weights)
        cost = cost + 0.5 * self.regulariser * expected_positives(logits, self.expected)
        (gradient,) = torch.autograd.grad(cost, logits)

        moves = self.moves.read(batch.rows) + 1.0
        first = self.first.read(batch.rows).lerp(gradient, 1.0 - _BETAS[0])
        second = self.second.read(batch.rows).lerp(gradient * gradient, 1.0 - _BETAS[1])
        unbiased = first / (1.0 - _BETAS[0] ** moves)
        size = (second / (1.0 - _BETAS[1] ** moves)).sqrt() + _EPSILON
        self.logits.write(batch.rows, logits.detach() - self.learning_rate * unbiased / size)
        for store, value in ((self.first, first), (self.second, second), (self.moves, moves)):
            store.write(batch.rows, value)

    def end_epoch(self) -> None:
        """The next epoch reads what this one wrote."""
        for store in self._stores().values():
            store.end_epoch()

    def soft_labels(self, rows: Tensor | None = None) -> Tensor | None:
        """The estimates; observed entries are given back as observed."""
        if rows is None:
            return _shown(self.logits.previous, self.observed.whole())
        return _shown(self.logits.read(rows), self.observed.rows(rows))

    def labels_now(self) -> OfRows | None:
        """The same as a function of rows."""
        read = self.logits.reader()
        return lambda rows: _shown(read(rows), self.observed.rows(rows))

    def state(self) -> dict[str, Tensor]:
        """The estimates and their Adam moments."""
        return join_states(self._stores())

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from `state`."""
        load_states(self._stores(), state)

    def _stores(self) -> dict[str, LabelStore]:
        return {
            "logits": self.logits,
            "first_moment": self.first,
            "second_moment": self.second,
            "moves": self.moves,
        }


def _shown(logits: Tensor, observed: Tensor) -> Tensor:
    return torch.where(observed == UNOBSERVED, logits.sigmoid(), observed)


def _start_logits(setup: Setup) -> OfRows:
    """Unobserved uniform in ±logit(0.6), observed + logit(0.995), observed − logit(0.005)."""
    generator = torch.Generator().manual_seed(setup.seed)
    sure = math.log(0.995 / 0.005)

    def of_rows(rows: Tensor) -> Tensor:
        observed = setup.observed.rows(rows.to(setup.observed.device))
        uniform = torch.rand(observed.shape, generator=generator).to(observed.device) * 2.0 - 1.0
        logits = uniform * math.log(0.6 / 0.4)
        logits = logits.masked_fill(observed == POSITIVE, sure)
        return logits.masked_fill(observed == NEGATIVE, -sure)

    return of_rows
