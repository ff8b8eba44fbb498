"""The network's move: one step on the cost of what the label player proposed."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from g2netpl.base.processes import ALONE, Processes
from g2netpl.core.losses import expected_positives, reversed_bce, sampled_positive, soft_bce
from g2netpl.game.batches import Batch, in_two_views, strong_view, weak_view
from g2netpl.game.network.network import any_batch_size, bare, batch_statistics, share_dropout
from g2netpl.game.network.presence import logits_of_rates, pool
from g2netpl.game.player import LabelPlayer, Proposal
from g2netpl.labels.table import NEGATIVE, POSITIVE

Costed = tuple[Tensor, Tensor]


def batch_cost(
    network: nn.Module,
    inputs: Tensor,
    proposal: Proposal,
    expected: float,
    gather: Callable[[Tensor], Tensor] = lambda logits: logits,
    observed: Tensor | None = None,
) -> Costed:
    """The network's cost for one batch, and its logits; `gather` adds those of other processes.

    The logits are without a gradient. `observed` is needed by a network that takes what was named
    as draws.
    """
    network_itself = bare(network)
    drawn_from, asked = None, asked_of(network)
    if observed is not None and asked:
        views = len(proposal.weights) // max(len(observed), 1)
        drawn_from = observed if views == 1 else observed.repeat(views, 1)
    if proposal.depth is None or not getattr(network_itself, "is_deep", False):
        logits = gather(network(inputs, **asked).float())
        cost = network_cost(logits, proposal, expected, drawn_from)
    else:
        logits, apart = (gather(each.float()) for each in network(inputs, apart=True, **asked))
        deep, shallow = proposal.split()
        cost = network_cost(logits, deep, expected, drawn_from)
        cost = cost + network_cost(apart, shallow, expected, drawn_from)
    return cost, to_answer(logits.detach(), drawn_from)


def asked_of(network: nn.Module) -> dict[str, bool]:
    """What is asked of a network that takes what was named as draws: each of its experts."""
    return {"experts": True} if getattr(bare(network), "draws", False) else {}


def network_cost(
    logits: Tensor, proposal: Proposal, expected: float, drawn_from: Tensor | None = None
) -> Tensor:
    """L_obs + L_unobs of the paper for one batch, as the label player proposed it.

    Under the observation model `draw` the observed labels are given, `drawn_from`: those that were
    named enter as draws from what is in their image. Where the network has two experts, the shares
    learn from what was observed, and the sigmoids from everything.
    """
    if drawn_from is not None:
        named = drawn_from == POSITIVE
        drawn, *sigmoids = experts_in(logits, named)
        cost = sampled_positive(drawn, torch.where(named, proposal.weights, 0.0))
        if not sigmoids:
            rest = replace(proposal, weights=proposal.weights.masked_fill(named, 0.0))
            return cost + network_cost(logits_of_rates(drawn), rest, expected)
        absent = drawn_from == NEGATIVE
        if absent.any():
            weights = torch.where(absent, proposal.weights, 0.0)
            cost = cost + soft_bce(logits_of_rates(drawn), proposal.targets, weights)
        return cost + network_cost(sigmoids[0], proposal, expected)
    if proposal.entry_cost is None:
        cost = soft_bce(logits, proposal.targets, proposal.weights)
    else:
        cost = (proposal.weights * proposal.entry_cost(logits)).sum() / logits.numel()
    if proposal.reversed_weights is not None:
        cost = cost + reversed_bce(logits, proposal.targets, proposal.reversed_weights)
    if proposal.regulariser > 0:
        cost = cost + proposal.regulariser * expected_positives(logits, expected)
    return cost


def to_answer(logits: Tensor, drawn_from: Tensor | None) -> Tensor:
    """The logits that the labels answer: the pool of two experts, where there are two.

    Of images without a name it is the sigmoids alone. The shares speak with less certainty of them
    than of those whose names they have learnt, and the labels would take it for absence.
    """
    if drawn_from is None:
        return logits
    log_rates, *sigmoids = experts_in(logits, drawn_from)
    drawn = logits_of_rates(log_rates)
    if not sigmoids:
        return drawn
    is_named = (drawn_from == POSITIVE).any(dim=1, keepdim=True)
    return torch.where(is_named, pool(drawn, sigmoids[0]), sigmoids[0])


def experts_in(said: Tensor, observed: Tensor) -> tuple[Tensor, ...]:
    """What each expert says, log rates and logits, which stand side by side."""
    return torch.split(said, observed.shape[1], dim=1)


@dataclass
class Tally:
    """What an epoch has come to so far."""

    cost: float = 0.0  # Σ over images of the network's cost
    images: int = 0

    def count(self, cost: float, images: int) -> None:
        """One more batch."""
        self.cost += cost * images
        self.images += images

    @property
    def mean(self) -> float:
        """The network's mean cost."""
        return self.cost / max(self.images, 1)


class NetworkStep:
    """One move of the network for each batch, together with the other ranks where there are some.

    Of images in two views it learns from the strong one, unless the player proposes other inputs,
    and the labels answer what it says of the weak one. A batch whose cost is not finite moves
    nobody, and `on_non_finite` is told.
    """

    def __init__(
        self,
        network: nn.Module,
        player: LabelPlayer,
        optimizer: torch.optim.Optimizer,
        expected: float,
        backward: Callable[[Tensor], object] = Tensor.backward,
        tally: Tally | None = None,
        on_non_finite: Callable[[Batch, float], None] | None = None,
        processes: Processes = ALONE,
    ) -> None:
        self.network, self.player, self.optimizer = network, player, optimizer
        self.expected, self.backward, self.processes = expected, backward, processes
        self.tally, self.on_non_finite = tally or Tally(), on_non_finite
        self._learn = [each for group in optimizer.param_groups for each in group["params"]]
        self._statistics = batch_statistics(network)
        self._is_answered = type(player).respond is not LabelPlayer.respond

    def seated(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The batches, each with the network told what part of it this rank sees."""
        self.network.train()
        for batch in batches:
            self._batch = batch
            if self.processes.size > 1:
                self._take_seat(batch)
            yield batch
        if self.processes.size > 1:
            self.network.train()
            share_dropout(self.network)

    def __call__(self, batch: Batch, proposal: Proposal) -> Tensor | None:
        """Take the step; gives the predictions for the labels to answer, None if there was none."""
        for parameter in self._learn:
            parameter.grad = None
        shapes = proposal.targets.shape, proposal.weights.shape
        assert shapes[0] == shapes[1], f"targets and weights of {self.player.method}: {shapes}"
        seen = strong_view(batch.inputs) if proposal.inputs is None else proposal.inputs
        with any_batch_size(self.network, len(seen)):
            cost, logits = batch_cost(
                self.network, seen, proposal, self.expected, self._gather, batch.observed
            )
        value = cost.item()
        outside = ((proposal.targets - 0.5).abs() > 0.5 + 1e-5).any()  # NaN is the network's fault
        assert not outside, f"targets of {self.player.method} must be between 0 and 1"
        if self.on_non_finite is not None and not math.isfinite(value):
            self.on_non_finite(batch, value)
            return None
        # the mean over ranks of what each knows a part of
        self.backward(cost if self.processes.size == 1 else cost * self.processes.size)
        self.processes.all_reduce_mean(self._statistics)
        self.optimizer.step()
        self.tally.count(value, len(batch))
        if self._is_answered and self._asks_anew(batch, proposal):
            asked = asked_of(self.network)
            said = self._said(batch.inputs, **asked)
            return to_answer(said, batch.observed if asked else None).sigmoid()
        return logits.sigmoid()

    def predict(self, inputs: Tensor) -> Tensor:
        """Predictions without a gradient and without moving batch-norm statistics."""
        return self._said(inputs).sigmoid()

    def _said(self, inputs: Tensor, **asked: bool) -> Tensor:
        training = self.network.training
        self.network.eval()
        with torch.no_grad():
            logits = bare(self.network)(weak_view(inputs), **asked).float()
            gathered = self.processes.all_gather(logits, self._batch.counts)
        self.network.train(training)
        return gathered

    def _asks_anew(self, batch: Batch, proposal: Proposal) -> bool:
        """Whether labels answer another prediction than that of the step."""
        other_view = proposal.inputs is None and in_two_views(batch.inputs)
        return other_view or self.player.needs.prediction == "fresh"

    def _gather(self, logits: Tensor) -> Tensor:
        """The logits of all ranks, view by view where an image has several."""
        if self.processes.size == 1:
            return logits
        views = logits.view(-1, len(self._batch.inputs), logits.shape[1])
        return torch.cat([self.processes.all_gather(view, self._batch.counts) for view in views])

    def _take_seat(self, batch: Batch) -> None:
        """A rank that sees nothing of a batch is not to learn from it."""
        counts, rank = batch.counts, self.processes.rank
        self.network.train(counts[rank] > 0)
        share_dropout(self.network, sum(counts[:rank]), sum(counts[rank + 1 :]))
