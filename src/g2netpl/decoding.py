"""Image files to bytes, as loader workers do it; what cannot be read is black, with the reason."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from g2netpl.errors import UserError
from g2netpl.images import Pixels, open_image, squash
from g2netpl.views import ViewName, view


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

    def __getitem__(self, key: tuple[int, int | None]) -> tuple[Tensor, str | None]:
        row, epoch = key
        try:
            image, problem = open_image(self.paths[row], self.size), None
        except UserError as trouble:
            image, problem = Image.new("RGB", (self.size, self.size)), str(trouble)
        if epoch is None:
            return _tensor(squash(image, self.size)), problem
        names = (self.view,) if isinstance(self.view, str) else self.view
        key_of_view = (self.seed, epoch, row)
        views = [_tensor(view(name, image, self.size, key_of_view)) for name in names]
        return views[0] if len(views) == 1 else torch.stack(views), problem


def _tensor(pixels: Pixels) -> Tensor:
    """(H, W, 3) → (3, H, W)."""
    return torch.from_numpy(np.require(pixels.transpose(2, 0, 1), requirements=["C", "W"]))
