"""Activations of the frozen blocks of a backbone, cached for each image and augmentation.

Rows are read from the file when they are needed, so there may be more of them than memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from g2netpl.images.loader import Device, Groups, Rows
from g2netpl.images.transforms import is_mirrored

Activations = npt.NDArray[np.float16]  # (N, …) in a file


@dataclass(frozen=True)
class Mirroring:
    """The mirror image as often as the image, as if the whole model were trained."""

    plain: Activations
    mirrored: Activations
    seed: int

    def at(self, rows: Rows, epoch: int) -> Activations:
        """One of the two for each row, as float16."""
        turned = np.array([is_mirrored((self.seed, epoch, int(row))) for row in rows], dtype=bool)
        values = self.plain[rows]
        values[turned] = self.mirrored[rows[turned]]
        return values


@dataclass(frozen=True)
class InTurn:
    """The strong augmentations of the first epochs, used again in later ones."""

    drawn: Sequence[Activations]

    def at(self, rows: Rows, epoch: int) -> Activations:
        """The augmentation of the epoch."""
        return self.drawn[epoch % len(self.drawn)][rows]


Look = Mirroring | InTurn


@dataclass(frozen=True)
class ActivationSource:
    """Cached activations as a source; training uses one augmentation, or a weak and a strong."""

    plain: Activations
    looks: Sequence[Look] = ()

    evaluation_batch: ClassVar[int] = 64

    def __len__(self) -> int:
        return len(self.plain)

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Activations (B, …) of each group of rows, or two of each (B, 2, …), as float32."""
        for rows in groups:
            values = self._augmented(rows, epoch).astype(np.float32)
            yield torch.from_numpy(values).to(device)

    def _augmented(self, rows: Rows, epoch: int | None) -> Activations:
        if epoch is None or not self.looks:
            return self.plain[rows]
        values = [look.at(rows, epoch) for look in self.looks]
        return values[0] if len(values) == 1 else np.stack(values, axis=1)
