"""How far the two players are from an equilibrium, measured after every epoch.

    regret        what the labels would still gain by their best response, mean per unobserved entry
    movement      mean |û − û of the epoch before| over unobserved entries
    flips         share of unobserved entries that crossed 0.5
    undecided     share of unobserved entries with 0.25 < û < 0.75
    soft_histogram  unobserved entries by û, 20 bins over [0, 1]
    soft_positives, predicted_positives   mean Σ_j û_j and Σ_j ŷ_j, to be held against k
    gradient_norm of the network's cost at frozen û

Regret, predictions and gradient are taken on a fixed probe of training images (about 5 %, at
most 1,024), the rest over all of them. Players without soft labels have the last two alone.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from g2netpl.game.batches import readable_batch
from g2netpl.game.label_memory import OfRows
from g2netpl.game.network.network import bare
from g2netpl.game.network_step import batch_cost
from g2netpl.game.player import LabelPlayer
from g2netpl.images.loader import Source
from g2netpl.labels.table import NEGATIVE, POSITIVE
from g2netpl.runs.records import Reading

_NO_LABELS: Reading = {
    "movement": None,
    "flips": None,
    "undecided": None,
    "soft_positives": None,
    "soft_histogram": None,
}
_BINS = 20
_CELLS = 1 << 24  # labels that are looked at together


class Equilibrium:
    """Takes one reading per epoch; remembers how to read the soft labels of the epoch before."""

    def __init__(self, source: Source, observed: Tensor, expected: float, seed: int) -> None:
        count = len(source)
        size = min(count, max(32, min(1024, count // 20)))
        order = np.random.default_rng([seed, 0x7062]).permutation(count)
        self.rows = np.sort(order[:size])
        self.source = source
        self.observed = observed
        self.expected = expected
        self._known: tuple[int, int, int] | None = None
        self._before: OfRows | None = None

    def remember(self, player: LabelPlayer) -> None:
        """Take the player's labels as those of the epoch before."""
        self._before = player.labels_now()

    def read(self, network: nn.Module, player: LabelPlayer, progress: float) -> Reading:
        """The state of the game after an epoch."""
        return {**self._labels(player), **self._probe(network, player, progress)}

    def _labels(self, player: LabelPlayer) -> Reading:
        now, before = player.labels_now(), self._before
        self._before = now
        if now is None:
            return _NO_LABELS
        entries, known_negatives, known_positives = self._counted()
        if entries == 0:
            return _NO_LABELS
        # observed entries are 0 or 1 and do not move: they count in the outer bins alone
        undecided, positives, movement, flips = 0, 0.0, 0.0, 0
        histogram = np.zeros(_BINS, dtype=np.int64)
        for rows in self._blocks():
            soft = now(rows)
            undecided += int(((soft - 0.5).abs_() < 0.25).count_nonzero())
            positives += float(soft.sum())
            histogram += _histogram(soft)
            if before is not None:
                earlier = before(rows)
                flips += int(((soft > 0.5) != (earlier > 0.5)).count_nonzero())
                movement += float((soft - earlier).abs_().sum())
        histogram[0] -= known_negatives
        histogram[-1] -= known_positives
        return {
            "undecided": undecided / entries,
            "soft_positives": positives / len(self.observed),
            "soft_histogram": histogram.tolist(),
            "movement": None if before is None else movement / entries,
            "flips": None if before is None else flips / entries,
        }

    def _counted(self) -> tuple[int, int, int]:
        """How many entries are unobserved, observed negative and observed positive."""
        if self._known is None:
            negatives = int((self.observed == NEGATIVE).count_nonzero())
            positives = int((self.observed == POSITIVE).count_nonzero())
            self._known = (self.observed.numel() - negatives - positives, negatives, positives)
        return self._known

    def _blocks(self) -> Iterator[Tensor]:
        """All rows, not many at a time."""
        count, classes = self.observed.shape
        rows = torch.arange(count, device=self.observed.device)
        yield from rows.split(max(1, _CELLS // classes))  # type: ignore[no-untyped-call]

    def _probe(self, network: nn.Module, player: LabelPlayer, progress: float) -> Reading:
        """One forward and backward over the probe, in eval mode, moving nothing."""
        network = bare(network)  # every rank looks at the whole probe

        def predict(inputs: Tensor) -> Tensor:
            with torch.no_grad():
                predicted: Tensor = network(inputs).float().sigmoid()
            return predicted

        training = network.training
        network.eval()
        device = self.observed.device
        sums = torch.zeros((), device=device)
        gains: list[float | None] = []
        network.zero_grad()
        size = min(self.source.evaluation_batch, 128)
        groups = np.array_split(self.rows, -(-len(self.rows) // size)) if len(self.rows) else []
        for rows, inputs in zip(groups, self.source.load(groups, None, device), strict=True):
            batch = readable_batch(rows, inputs, self.observed)
            if not len(batch):
                continue
            proposal = player.propose(batch, progress, predict)
            share = len(batch) / len(self.rows)
            cost, logits = batch_cost(
                network, batch.inputs, proposal, self.expected, observed=batch.observed
            )
            predicted = logits.sigmoid()
            (cost * share).backward()  # type: ignore[no-untyped-call]
            sums += predicted.sum()
            gain = player.regret(batch.rows, predicted)
            gains.append(None if gain is None else gain * share)
        gradients = [p.grad.norm() for p in network.parameters() if p.grad is not None]
        norm = float(torch.stack(gradients).norm()) if gradients else 0.0
        network.zero_grad()
        network.train(training)
        return {
            "regret": None if None in gains else sum(gain or 0.0 for gain in gains),
            "predicted_positives": float(sums) / max(len(self.rows), 1),
            "gradient_norm": norm,
        }


def _histogram(soft: Tensor) -> list[int]:
    bins = (soft * _BINS).to(torch.uint8).clamp_(max=_BINS - 1)
    counts: list[int] = torch.bincount(bins.flatten(), minlength=_BINS).tolist()
    return counts
