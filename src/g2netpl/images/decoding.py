"""Image files to bytes, as loader workers do it; what cannot be read is black, with the reason."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from g2netpl.base.errors import UserError
from g2netpl.images.cache import ImageCache
from g2netpl.images.jpeg import Decoder
from g2netpl.images.pixels import Pixels, squashed
from g2netpl.images.views import ViewName, changed


class Decoded(NamedTuple):
    """(B, 3, size, size) bytes, and what was wrong with which of them."""

    pixels: Tensor
    problems: list[tuple[int, str]]


def stack(items: list[tuple[Tensor, str | None]]) -> Decoded:
    """A batch of images, and the problems among them."""
    problems = [(place, problem) for place, (_, problem) in enumerate(items) if problem is not None]
    pixels = default_collate([pixels for pixels, _ in items])  # straight into shared memory
    return Decoded(pixels, problems)


@dataclass(frozen=True)
class ImageDataset(Dataset[tuple[Tensor, str | None]]):
    """One file → (3, size, size) bytes, or black and why; epoch None is the plain view."""

    paths: tuple[str, ...]
    size: int
    seed: int
    view: ViewName | tuple[ViewName, ...]
    decoder: Decoder = "pillow"
    cache: ImageCache | None = None

    def __getitem__(self, key: tuple[int, int | None]) -> tuple[Tensor, str | None]:
        row, epoch = key
        try:
            pixels, problem = self._squashed(row), None
        except UserError as trouble:
            pixels, problem = np.zeros((self.size, self.size, 3), dtype=np.uint8), str(trouble)
        if epoch is None:
            return _tensor(pixels), problem
        names = (self.view,) if isinstance(self.view, str) else self.view
        views = [_tensor(changed(name, pixels, (self.seed, epoch, row))) for name in names]
        return views[0] if len(views) == 1 else torch.stack(views), problem

    def _squashed(self, row: int) -> Pixels:
        kept = None if self.cache is None else self.cache.get(row)
        if kept is not None:
            return kept
        pixels = squashed(self.paths[row], self.size, self.decoder)
        if self.cache is not None:
            self.cache.put(row, pixels)
        return pixels


def _tensor(pixels: Pixels) -> Tensor:
    """(H, W, 3) → (3, H, W)."""
    return torch.from_numpy(np.require(pixels.transpose(2, 0, 1), requirements=["C", "W"]))
