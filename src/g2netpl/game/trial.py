"""A method on trial: what every label player must keep to, tried on a few random images.

`g2netpl methods NAME --check` tells what fails, and the tests hold every row of METHODS to it.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from g2netpl.base.errors import InputError
from g2netpl.game.batches import Batch
from g2netpl.game.loop import play_epoch
from g2netpl.game.methods import find_method, make_player
from g2netpl.game.network.network import build_network
from g2netpl.game.observed import ObservedLabels
from g2netpl.game.player import LabelPlayer, Predict, Proposal, Setup, kept_state, take_up
from g2netpl.game.proposal_check import check_form, check_numbers
from g2netpl.labels.table import UNOBSERVED

_WIDTH, _RATE, _EXPECTED = 5, 0.05, 1.5
Check = Callable[["Trial"], Iterator[str]]


@dataclass(frozen=True)
class Trial:
    """A method with its options, and the observed labels (N, L) that it is tried on."""

    method: str
    options: Mapping[str, Any]
    observed: Tensor
    batch_size: int = 4
    seed: int = 0

    @classmethod
    def of(cls, method: str, options: Mapping[str, Any] | None = None) -> "Trial":
        """On eleven images of four classes, one of them never observed, as the method can take."""
        random = torch.Generator().manual_seed(0)
        observed = torch.randint(-1, 2, (11, 4), generator=random).to(torch.int8)
        observed[:, 3] = UNOBSERVED
        observed[0] = UNOBSERVED
        if find_method(method).full_labels_only:
            observed = observed.clamp(min=0)
        return cls(method, options or {}, observed)

    def player(self) -> LabelPlayer:
        """One that has not played yet."""
        observed = ObservedLabels.of(self.observed.clone())
        return make_player(self.method, self.options, Setup(observed, _EXPECTED, _RATE, self.seed))

    def batches(self, only: slice = slice(None)) -> list[Batch]:
        """Those of an epoch, in a fixed order."""
        random = torch.Generator().manual_seed(self.seed)
        inputs = torch.randn(len(self.observed), _WIDTH, generator=random)
        rows = torch.split(torch.randperm(len(inputs), generator=random), self.batch_size)
        made = [Batch(r, inputs[r], self.observed[r].clone(), n) for n, r in enumerate(rows)]
        return made[only]

    def predicted(self, rows: Tensor, epoch: int) -> Tensor:
        """What some network might say of images in an epoch: of many labels surely the same."""
        random = torch.Generator().manual_seed(self.seed)
        kind = torch.rand(self.observed.shape, generator=random)
        random.manual_seed(self.seed * 1_000 + epoch)
        said = torch.rand(self.observed.shape, generator=random)
        said = torch.where(kind < 0.3, 0.98 + 0.01 * said, said)
        return torch.where(kind > 0.7, 0.01 + 0.01 * said, said)[rows]

    def play(
        self, player: LabelPlayer, epoch: int, only: slice = slice(None), *, ends: bool = True
    ) -> list[tuple[Tensor, ...]]:
        """Some batches of an epoch, against given predictions; gives what was proposed."""
        found = []
        for batch in self.batches(only):
            said = self.predicted(batch.rows, epoch)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(batch.number)  # as in a training: by the place, not the way there
                proposal = player.propose(batch, epoch / 10, _saying(said))
                found.append(_tensors(proposal, said))
                player.respond(batch, said.clone(), epoch / 10)
        if ends:
            player.end_epoch()
        return found

    def network(self) -> nn.Module:
        """A small one, on the inputs of the batches."""
        return build_network("features", self.observed.shape[1], width=_WIDTH, seed=self.seed)


def proposals_are_proper(trial: Trial) -> Iterator[str]:
    """A proposal for every batch has the right shape and numbers, and gives a finite cost."""
    player, network = trial.player(), trial.network()
    optimizer = torch.optim.Adam(network.parameters(), lr=_RATE)
    for epoch in range(3):
        cost = play_epoch(network, player, trial.batches(), optimizer, epoch / 3, _EXPECTED)
        if not math.isfinite(cost):
            yield f"the network's cost is {cost} in epoch {epoch + 1}"
            return
    for batch in trial.batches():
        said = trial.predicted(batch.rows, 3)
        proposal = player.propose(batch, 0.5, _saying(said))
        check_form(player, batch, proposal)
        check_numbers(player, proposal)


def observed_stays(trial: Trial) -> Iterator[str]:
    """What is observed is not written into."""
    player = trial.player()
    for epoch in range(2):
        for batch in trial.batches():
            before, said = batch.observed.clone(), trial.predicted(batch.rows, epoch)
            player.propose(batch, 0.5, _saying(said))
            player.respond(batch, said, 0.5)
            if not torch.equal(batch.observed, before):
                yield "it writes into batch.observed; write into a copy of it (.clone())"
                return
        player.end_epoch()


def a_resume_is_exact(trial: Trial) -> Iterator[str]:
    """A player that takes up the state of another, amid an epoch, proposes what that one does."""
    player = trial.player()
    for epoch in range(1, 6):
        trial.play(player, epoch)
    if player.needs.rounds > 1:
        player.begin_round(_opinions(trial))
    trial.play(player, 6, slice(1), ends=False)
    state = kept_state(player)
    wrong = [name for name, value in state.items() if not isinstance(value, Tensor)]
    if wrong:
        yield f"state: {wrong[0]!r} is no tensor, which cannot be saved; use torch.tensor(…)"
        return
    other = trial.player()
    take_up(other, state)
    for epoch, rest in ((6, slice(1, None)), (7, slice(None)), (8, slice(None))):
        pairs = zip(trial.play(player, epoch, rest), trial.play(other, epoch, rest), strict=True)
        if not all(_are_equal(one, two) for one, two in pairs):
            yield (
                "after a resume it proposes something else: keep what it learns in self.remember(…)"
                ", or add it to state and take it back in load_state"
            )
            return


def soft_labels_are_sound(trial: Trial) -> Iterator[str]:
    """Soft labels, if there are any: (B, L) in 0 … 1, observed ones as observed, and they stay."""
    player, rows = trial.player(), torch.arange(len(trial.observed))
    trial.play(player, 1)
    read = player.labels_now()
    if read is None:
        return
    if not hasattr(player, "observed"):
        yield "it has labels_now, so it must set self.observed = setup.observed in __init__"
        return
    soft = read(rows)
    if soft.shape != trial.observed.shape:
        expected, came = tuple(trial.observed.shape), tuple(soft.shape)
        yield f"labels_now: expected one for each image and class, {expected}, got {came}"
        return
    if not bool(((soft >= 0) & (soft <= 1)).all()):
        yield "labels_now: expected 0 to 1, got others"
    known = trial.observed != UNOBSERVED
    if not torch.equal(soft[known].float(), trial.observed[known].float()):
        yield "labels_now: observed entries must have their value, 0 or 1"
    before = soft.clone()
    trial.play(player, 2)
    if not torch.equal(read(rows), before):
        yield (
            "labels_now: what it gave has moved in the epoch after; take reader() of the memory, "
            "or a copy"
        )
    regret = player.regret(rows, trial.predicted(rows, 2))
    if regret is not None and not math.isfinite(regret):
        yield f"regret: expected a number, got {regret}"


CHECKS: dict[str, Check] = {
    "proposals": proposals_are_proper,
    "observed labels": observed_stays,
    "resume": a_resume_is_exact,
    "soft labels": soft_labels_are_sound,
}


def faults(trial: Trial) -> dict[str, list[str]]:
    """What fails, by the name of the check; an empty list where nothing does."""
    found: dict[str, list[str]] = {}
    for name, check in CHECKS.items():
        try:
            found[name] = list(check(trial))
        except InputError as mistake:
            found[name] = [str(mistake)]
    return found


def _saying(said: Tensor) -> Predict:
    return lambda inputs: said


def _opinions(trial: Trial) -> Iterator[tuple[Tensor, Tensor]]:
    rows = torch.arange(len(trial.observed))
    yield trial.predicted(rows, 5), 0.01 * trial.predicted(rows, 6)


def _tensors(proposal: Proposal, said: Tensor) -> tuple[Tensor, ...]:
    """All that a proposal says, copied."""
    found = [proposal.targets, proposal.weights, torch.tensor(float(proposal.regulariser))]
    found += [each for each in (proposal.reversed_weights, proposal.depth) if each is not None]
    if proposal.entry_cost is not None:
        found.append(proposal.entry_cost(said.logit(eps=1e-3)))
    return tuple(each.detach().clone() for each in found)


def _are_equal(one: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> bool:
    """To the last bit; what is no number equals itself."""
    same = (torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(one, other, strict=False))
    return len(one) == len(other) and all(same)
