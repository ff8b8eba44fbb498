"""What the frozen blocks of a backbone make of each image: computed once, read row by row.

They are kept beside the features, a table for each view (`kept_tables`). Rows are read from the
file when they are asked for, so there may be more of them than memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from g2netpl.images.loader import Device, Groups, Rows
from g2netpl.images.views import is_mirrored

Activations = npt.NDArray[np.float16]  # (N, …) in a file


@dataclass(frozen=True)
class Mirroring:
    """As often the mirror image as the image, drawn as where the whole network learns."""

    plain: Activations
    mirrored: Activations
    seed: int

    def at(self, rows: Rows, epoch: int) -> Activations:
        """One of the two for each row, as float16."""
        keys = [(self.seed, epoch, int(row)) for row in rows]
        turned = np.array([is_mirrored(key) for key in keys], dtype=bool)
        found = self.plain[rows]
        found[turned] = self.mirrored[rows[turned]]
        return found


@dataclass(frozen=True)
class InTurn:
    """Views that were drawn for the first epochs, and come again in later ones."""

    drawn: Sequence[Activations]

    def at(self, rows: Rows, epoch: int) -> Activations:
        """The view whose turn it is."""
        return self.drawn[epoch % len(self.drawn)][rows]


Look = Mirroring | InTurn


@dataclass(frozen=True)
class ActivationSource:
    """Activations of images; a training has a look at each, or two: a weak one and a strong one."""

    plain: Activations
    looks: Sequence[Look] = ()

    evaluation_batch: ClassVar[int] = 64

    def __len__(self) -> int:
        return len(self.plain)

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Activations (B, …) of each group of rows, or two views (B, 2, …), as float32."""
        for rows in groups:
            found = self._seen(rows, epoch).astype(np.float32)
            yield torch.from_numpy(found).to(device)

    def _seen(self, rows: Rows, epoch: int | None) -> Activations:
        if epoch is None or not self.looks:
            return self.plain[rows]
        seen = [look.at(rows, epoch) for look in self.looks]
        return seen[0] if len(seen) == 1 else np.stack(seen, axis=1)
