"""What a training knows about its images, on its device.

Up to half a gigabyte the labels are a matrix (N, L) of bytes. Beyond that only the known ones are
kept, and the labels of a batch are put together when they are asked for.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from g2netpl.labels.entries import NEGATIVE, POSITIVE, UNOBSERVED, Entries, LabelMatrix

LARGEST_MATRIX = 512 << 20  # bytes
_PER_ENTRY = 5  # bytes
_BLOCK = 4096  # rows


class Runs(NamedTuple):
    """The known labels, image after image, as in `Entries`."""

    starts: Tensor  # (N + 1,) int64
    columns: Tensor  # int32
    signs: Tensor  # int8


@dataclass(frozen=True, eq=False)
class ObservedLabels:
    """N images × L classes: 1 positive, 0 negative, −1 unobserved. Build it with `of`."""

    shape: tuple[int, int]
    held: Tensor | Runs

    @classmethod
    def of(
        cls,
        labels: "LabelMatrix | Entries | Tensor | ObservedLabels",
        device: torch.device | str | None = None,
    ) -> "ObservedLabels":
        """Labels in any form; a tensor that stays a matrix is not copied."""
        if isinstance(labels, ObservedLabels):
            return labels if device is None else labels.to(device)
        count, classes = labels.shape
        cells = count * classes
        held: Tensor | Runs
        if isinstance(labels, Entries):
            if cells <= max(LARGEST_MATRIX, _PER_ENTRY * labels.known):
                held = torch.from_numpy(labels.matrix())
            else:
                arrays = (labels.starts, labels.columns, labels.signs)
                held = Runs(*(torch.from_numpy(array.copy()) for array in arrays))
        else:
            held = labels if isinstance(labels, Tensor) else torch.from_numpy(np.array(labels))
            if cells > LARGEST_MATRIX:
                held = _smaller(held)
        found = cls((count, classes), held)
        return found if device is None else found.to(device)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self._some.device

    @cached_property
    def has_negatives(self) -> bool:
        """Whether any label is known to be absent."""
        return bool((self._some == NEGATIVE).any())

    @cached_property
    def known_fraction(self) -> float:
        """Share of the entries that somebody observed; 0 where there are no entries."""
        known = int((self._some != UNOBSERVED).count_nonzero())  # a sum would widen it
        return known / max(self.shape[0] * self.shape[1], 1)

    @cached_property
    def positives_per_image(self) -> float:
        """Mean number of labels known to be there."""
        return int((self._some == POSITIVE).count_nonzero()) / max(self.shape[0], 1)

    def to(self, device: torch.device | str) -> "ObservedLabels":
        """The same on another device."""
        if isinstance(self.held, Tensor):
            return ObservedLabels(self.shape, self.held.to(device))
        return ObservedLabels(self.shape, Runs(*(each.to(device) for each in self.held)))

    def rows(self, index: Tensor) -> Tensor:
        """The labels of some images, (B, L) int8."""
        if isinstance(self.held, Tensor):
            return self.held.index_select(0, index)
        starts, columns, signs = self.held
        begins = starts.index_select(0, index)
        lengths = starts.index_select(0, index + 1) - begins
        before = lengths.cumsum(0) - lengths
        places = (begins - before).repeat_interleave(lengths)
        places += torch.arange(len(places), device=places.device)
        image = torch.arange(len(index), device=places.device).repeat_interleave(lengths)
        labels = signs.new_full((len(index), self.shape[1]), UNOBSERVED)
        labels[image, columns[places].long()] = signs[places]
        return labels

    def blocks(self) -> Iterator[Tensor]:
        """The numbers of all rows, some thousand at a time."""
        yield from torch.arange(len(self), device=self.device).split(_BLOCK)  # type: ignore[no-untyped-call]

    def whole(self) -> Tensor:
        """The labels of all images, (N, L) int8."""
        if isinstance(self.held, Tensor):
            return self.held
        return self.rows(torch.arange(len(self), device=self.device))

    @property
    def _some(self) -> Tensor:
        """A tensor that has all known labels."""
        return self.held if isinstance(self.held, Tensor) else self.held.signs


def _smaller(matrix: Tensor) -> Tensor | Runs:
    """A matrix, or its known labels where they take less."""
    known = matrix != UNOBSERVED
    lengths = known.sum(dim=1)
    if _PER_ENTRY * int(lengths.sum()) >= matrix.numel():
        return matrix
    starts = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    columns = known.nonzero()[:, 1].int()
    return Runs(starts, columns, matrix[known])
