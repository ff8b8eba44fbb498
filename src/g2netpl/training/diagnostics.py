"""How far model and pseudo-labels are from an equilibrium, measured after every epoch.

    regret        what pseudo-labels would gain by their best response, mean per unobserved label
    movement      mean |û − û of the previous epoch| over unobserved labels
    flips         fraction of unobserved labels that crossed 0.5
    `unresolved`   fraction of unobserved labels with 0.25 < û < 0.75
    soft_histogram  unobserved labels by û, 20 bins over [0, 1]
    soft_positives, predicted_positives   mean Σ_j û_j and Σ_j ŷ_j, to compare with k
    gradient_norm of the loss, with fixed û

Regret, predictions and gradient are computed on a fixed sample of training images (about 5 %, at
most 1,024), the rest on all of them. Methods without pseudo-labels have the last two only.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from g2netpl.core.algorithm import NEGATIVE, POSITIVE
from g2netpl.core.inference import readable_batch
from g2netpl.core.methods.base import Method
from g2netpl.core.models import Model, evaluating
from g2netpl.images.loader import Source
from g2netpl.runs.records import EquilibriumMetrics
from g2netpl.utils import distributed

_BINS = 20
_CELLS = 1 << 24  # labels that are read at a time


class Diagnostics:
    """Reads model and method after each epoch, and keeps the pseudo-labels of the one before."""

    def __init__(self, model: Model, method: Method, source: Source, seed: int) -> None:
        self.model, self.method, self.source = model, method, source
        count = len(source)
        size = min(count, max(32, min(1024, count // 20)))
        order = np.random.default_rng([seed, 0x7062]).permutation(count)
        self.sample = np.sort(order[:size])
        observed = method.observed
        self._negatives = int((observed == NEGATIVE).count_nonzero())
        self._positives = int((observed == POSITIVE).count_nonzero())
        self.before: Tensor | None = None  # (N, L), rounded to float16

    def remember(self) -> None:
        """Keep the pseudo-labels as those of the epoch before."""
        blocks = [self.method.pseudo_labels(rows) for rows in self._blocks()]
        kept = [block.half() for block in blocks if block is not None]
        self.before = torch.cat(kept) if kept else None

    def read(self, phi: float) -> EquilibriumMetrics:
        """All of the above; with several ranks the mean over them."""
        with torch.no_grad():
            labels = self._labels()
        return _mean_over_ranks({**labels, **self._sample(phi)})

    def _labels(self) -> EquilibriumMetrics:
        entries = self.method.observed.numel() - self._negatives - self._positives
        before = self.before
        if before is None or entries == 0:
            return EquilibriumMetrics(
                unresolved=None, soft_positives=None, soft_histogram=None, movement=None, flips=None
            )
        # observed labels are 0 or 1 and do not move: they count in the outer bins only
        unresolved, positives, movement, flips = 0, 0.0, 0.0, 0
        histogram = torch.zeros(_BINS, dtype=torch.int64, device=before.device)
        for rows in self._blocks():
            soft = self.method.pseudo_labels(rows)
            assert soft is not None
            now, earlier = soft.half(), before[rows]
            before[rows] = now
            unresolved += int(((soft - 0.5).abs() < 0.25).count_nonzero())
            positives += float(soft.sum())
            bins = (soft * _BINS).to(torch.uint8).clamp_(max=_BINS - 1)
            histogram += torch.bincount(bins.flatten(), minlength=_BINS)
            flips += int(((now > 0.5) != (earlier > 0.5)).count_nonzero())
            movement += float((now.float() - earlier.float()).abs_().sum())
        histogram[0] -= self._negatives
        histogram[-1] -= self._positives
        return {
            "unresolved": unresolved / entries,
            "soft_positives": positives / len(self.method.observed),
            "soft_histogram": histogram.tolist(),
            "movement": movement / entries,
            "flips": flips / entries,
        }

    def _blocks(self) -> Iterator[Tensor]:
        """All rows, some at a time."""
        count, classes = self.method.observed.shape
        rows = torch.arange(count, device=self.method.observed.device)
        yield from rows.split(max(1, _CELLS // classes))  # type: ignore[no-untyped-call]

    def _sample(self, phi: float) -> EquilibriumMetrics:
        """Forward and backward on the sample, in evaluation mode; nothing moves."""
        model, method, device = self.model, self.method, self.method.observed.device
        size = min(self.source.evaluation_batch, 128)
        groups = np.array_split(self.sample, -(-len(self.sample) // size))
        positives, regret, entries = 0.0, 0.0, 0
        model.zero_grad()
        with evaluating(model), distributed.local_only():
            for rows, images in zip(groups, self.source.load(groups, None, device), strict=True):
                batch = readable_batch(self.source, rows, images, method.observed)
                if not len(batch):
                    continue
                output = method(model, batch)
                tags = model.head.loss(output, batch.observed, method.negative_weight)
                loss: Any = tags + method.loss(output, batch, phi)
                if loss.requires_grad:
                    (loss * (len(batch) / len(self.sample))).backward()
                predicted = model.head.predict_training(output, batch.observed)
                positives += float(predicted.sum())
                gain = method.regret(batch.rows, predicted)
                if gain is not None:
                    regret += float(gain.sum())
                    entries += gain.numel()
        gradients = [each.grad.norm() for each in model.parameters() if each.grad is not None]
        model.zero_grad()
        return {
            "regret": regret / entries if entries else None,
            "predicted_positives": positives / max(len(self.sample), 1),
            "gradient_norm": float(torch.stack(gradients).norm()) if gradients else 0.0,
        }


def _mean_over_ranks(reading: EquilibriumMetrics) -> EquilibriumMetrics:
    """The mean of numbers, the sum of histograms."""
    readings: Any = distributed.gather(reading)
    mean: Any = reading
    for key in reading if len(readings) > 1 else ():
        values = [each[key] for each in readings]
        how = np.sum if key == "soft_histogram" else np.mean
        mean[key] = None if None in values else how(values, axis=0).tolist()
    return mean  # type: ignore[no-any-return]
