"""ROLE: a second table of label estimates that is trained together with the network.

Every label, observed or not, has an estimate g = sigmoid(logit). Both sides learn from the observed
positives and from each other. The estimates move by Adam. As in the benchmark, the momentum of a
row runs on in steps whose batch it is not in, which is most of its way; since nobody looks at it
meanwhile, that is summed up when the row is read again.
"""

import math
from functools import lru_cache

import torch
from pydantic import Field
from torch import Tensor

from g2netpl.base.options import Options
from g2netpl.game.batches import Batch
from g2netpl.game.label_memory import OfRows, State
from g2netpl.game.player import LabelPlayer, Predict, Proposal, Setup
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED

_BETAS, _EPSILON = (0.9, 0.999), 1e-8
_FORGOTTEN = 200  # steps after which no momentum is left: 0.9²⁰⁰ < 1e-9
_TABLED = 1 << 14  # steps by which tables over all of them grow


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
        self.logits = self.remember(setup, "logits", _start_logits(setup))
        self.first = self.remember(setup, "first_moment", 0.0)
        self.second = self.remember(setup, "second_moment", 0.0)
        self.visits = self.remember(setup, "visits", 0.0, width=1)  # the last step of a row
        self.steps = self.shown = 0  # until now, and until the end of the last epoch
        self._in_play: tuple[Tensor, Tensor] | None = None  # logits and estimates of the batch

    def begin_with(self, soft: OfRows) -> None:
        """Take up earlier estimates; observed entries begin as ever."""
        rows = torch.arange(len(self.observed), device=self.observed.device)
        unknown, earlier = self.observed == UNOBSERVED, soft(rows).logit(1e-6)
        self.logits.write(rows, torch.where(unknown, earlier, self.logits.previous))
        self.logits.end_epoch()

    def begin_phase(self, learning_rate: float, deep: bool) -> None:
        """The estimates keep their ratio to the network's learning rate."""
        self.learning_rate = self.rate_factor * learning_rate

    def propose(self, batch: Batch, progress: float, predict: Predict) -> Proposal:
        """½CE(g, f) on every entry, and ½·(−log f) more on observed positives, as one target."""
        self._in_play = _, estimate = self._read(batch.rows)
        positive = batch.observed == POSITIVE
        targets = torch.where(positive, 0.5 * (1.0 + estimate), estimate)
        weights = torch.where(positive, 1.0, 0.5)
        return Proposal(targets, weights, 0.5 * self.regulariser)

    def respond(self, batch: Batch, predicted: Tensor, progress: float) -> None:
        """One Adam step of the estimates on ½[pos(g) + CE(f, g)]/(B·L) + ½R(g)."""
        logits, estimate = self._in_play or self._read(batch.rows)
        gradient = self._gradient(estimate, predicted, batch.observed == POSITIVE)
        rested = self.steps - self.visits.read(batch.rows)
        self.steps += 1
        kept = [(beta**rested) for beta in _BETAS]
        first = (kept[0] * self.first.read(batch.rows)).lerp(gradient, 1.0 - _BETAS[0])
        second = (kept[1] * self.second.read(batch.rows)).lerp(gradient.square(), 1.0 - _BETAS[1])
        unbiased = first / (1.0 - _BETAS[0] ** self.steps)
        size = (second / (1.0 - _BETAS[1] ** self.steps)).sqrt() + _EPSILON
        self.logits.write(batch.rows, logits - self.learning_rate * unbiased / size)
        self.first.write(batch.rows, first)
        self.second.write(batch.rows, second)
        self.visits.write(batch.rows, torch.full_like(rested, self.steps))

    def _read(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the estimates as they are now, and the estimates."""
        logits = self._reader(self.steps)(rows)
        return logits, logits.sigmoid()

    def _gradient(self, estimate: Tensor, predicted: Tensor, positive: Tensor) -> Tensor:
        """Of that cost for the logits of the estimates."""
        targets = torch.where(positive, 0.5 * (1.0 + predicted), predicted)
        gradient = (estimate - targets).mul_(torch.where(positive, 1.0, 0.5))
        gap = estimate.mean() - self.expected / estimate.shape[1]
        slope = torch.addcmul(estimate, estimate, estimate, value=-1.0)
        return gradient.add_(slope.mul_(self.regulariser * gap)).div_(estimate.numel())

    def _reader(self, steps: int) -> OfRows:
        """The estimates as they are after so many steps, as a function of rows."""
        memories = (self.logits, self.first, self.second, self.visits)
        readers = [memory.reader() for memory in memories]
        rate = self.learning_rate

        def read(rows: Tensor) -> Tensor:
            logits, first, second, visits = (reader(rows) for reader in readers)
            size = second.sqrt() + _EPSILON * _unbias(visits, _BETAS[1]).sqrt()
            return logits - rate * run_on(visits, steps) * first / size.clamp(min=1e-30)

        return read

    def end_epoch(self) -> None:
        """The next epoch reads what this one wrote."""
        self.shown, self._in_play = self.steps, None
        super().end_epoch()

    def labels_now(self) -> OfRows:
        """The estimates; observed entries are given back as observed."""
        read = self._reader(self.shown)

        def shown(rows: Tensor) -> Tensor:
            observed = self.observed[rows]
            return torch.where(observed == UNOBSERVED, read(rows).sigmoid(), observed)

        return shown

    def state(self) -> State:
        """The estimates and their Adam moments, and how many steps there were."""
        counts = {"steps": torch.tensor(self.steps), "shown": torch.tensor(self.shown)}
        return super().state() | counts

    def load_state(self, state: State) -> None:
        """Go on from `state`."""
        super().load_state(state)
        self.steps, self.shown = int(state["steps"]), int(state["shown"])


def _unbias(steps: Tensor, beta: float) -> Tensor:
    """1 − β^t."""
    return -(steps * math.log(beta)).expm1()


def run_on(visits: Tensor, steps: int) -> Tensor:
    """How far Adam goes on after a row's last visit, in units of m/√v at that visit; (B, 1).

    Σ over the steps u after the visit s of (β₁/√β₂)^(u − s) · √(1 − β₂^u) / (1 − β₁^u).
    """
    left, paces = _tables(-(-(steps + _FORGOTTEN) // _TABLED) * _TABLED, visits.device)
    last, after = visits.long(), torch.arange(1, _FORGOTTEN + 1, device=visits.device)
    each = paces.unfold(0, _FORGOTTEN, 1).index_select(0, last.flatten())
    return each.masked_fill_(after > steps - last, 0.0).mv(left)[:, None].float()


@lru_cache(maxsize=2)
def _tables(steps: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """(β₁/√β₂)^n for n from 1, and √(1 − β₂^u) / (1 − β₁^u) for all steps u from 1."""
    after = torch.arange(1, steps + 1, device=device, dtype=torch.float64)
    left: Tensor = (_BETAS[0] / math.sqrt(_BETAS[1])) ** after[:_FORGOTTEN]
    return left, _unbias(after, _BETAS[1]).sqrt() / _unbias(after, _BETAS[0])


def _start_logits(setup: Setup) -> Tensor:
    """Unobserved uniform in ±logit(0.6), observed + logit(0.995), observed − logit(0.005)."""
    generator = torch.Generator().manual_seed(setup.seed)
    observed, sure = setup.observed, math.log(0.995 / 0.005)
    uniform = torch.rand(observed.shape, generator=generator).to(observed.device) * 2.0 - 1.0
    logits = uniform * math.log(0.6 / 0.4)
    logits = logits.masked_fill(observed == POSITIVE, sure)
    return logits.masked_fill(observed == NEGATIVE, -sure)
