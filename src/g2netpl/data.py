"""From images or features to batches: the order and the augmentation are functions of the seed.

The order of an epoch depends on (seed, epoch) alone and the random view of an image on
(seed, epoch, image), so the batches are the same for any number of loader workers.
"""

import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from g2netpl.errors import UserError

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Some training images and what was observed about them. It holds no truth."""

    rows: Tensor  # (B,) int64: position of each image in the training part
    inputs: Tensor  # (B, …) images or features
    observed: Tensor  # (B, L) int8: 1, 0, −1

    def __len__(self) -> int:
        return len(self.rows)


class Source(Protocol):
    """Where inputs come from: arrays in memory, or image files."""

    def __len__(self) -> int: ...

    def load(self, groups: Sequence[Rows], epoch: int | None) -> Iterator[Tensor]:
        """Inputs of each group of rows; with an epoch the augmented view, without the plain one."""
        ...


class ArraySource:
    """Features, or small images, that fit into memory."""

    def __init__(self, inputs: Tensor) -> None:
        self.inputs = inputs

    def __len__(self) -> int:
        return len(self.inputs)

    def load(self, groups: Sequence[Rows], epoch: int | None) -> Iterator[Tensor]:
        """Rows of the array; there is no augmented view."""
        for rows in groups:
            yield self.inputs.index_select(0, torch.from_numpy(rows).to(self.inputs.device))


@dataclass(frozen=True)
class Part:
    """Some rows of a source, seen as a source of its own (the training or validation part)."""

    source: Source
    rows: Rows

    def __len__(self) -> int:
        return len(self.rows)

    def load(self, groups: Sequence[Rows], epoch: int | None) -> Iterator[Tensor]:
        """Inputs of the part's rows."""
        return self.source.load([self.rows[group] for group in groups], epoch)


def epoch_groups(count: int, batch_size: int, seed: int, epoch: int) -> list[Rows]:
    """A random order of all images, cut into batches whose sizes differ by at most one."""
    order = np.random.default_rng([seed, epoch, 0x6F72]).permutation(count)
    return np.array_split(order, max(1, -(-count // batch_size)))


def plain_groups(count: int, batch_size: int) -> list[Rows]:
    """All images in file order, for evaluation."""
    return [
        np.arange(start, min(start + batch_size, count)) for start in range(0, count, batch_size)
    ]


def training_batches(
    source: Source, observed: Tensor, batch_size: int, seed: int, epoch: int
) -> Iterator[Batch]:
    """The batches of one epoch, on the device of `observed`."""
    device = observed.device
    groups = epoch_groups(len(source), batch_size, seed, epoch)
    for rows, inputs in zip(groups, source.load(groups, epoch), strict=True):
        index = torch.from_numpy(rows).to(device)
        yield Batch(index, inputs.to(device, non_blocking=True), observed.index_select(0, index))


class ImageSource:
    """Image files, decoded and resized by loader workers."""

    def __init__(
        self,
        paths: Sequence[str],
        size: int,
        mean: Sequence[float],
        std: Sequence[float],
        seed: int = 0,
        flip: bool = True,
        workers: int = 0,
    ) -> None:
        self.dataset = _ImageDataset(tuple(paths), size, seed, flip)
        self._mean = 255.0 * torch.tensor(mean)[:, None, None]
        self._std = 255.0 * torch.tensor(std)[:, None, None]
        self._keys = _Keys()
        self._loader: Any = DataLoader(
            self.dataset,
            batch_sampler=self._keys,
            num_workers=workers,
            persistent_workers=workers > 0,
            worker_init_fn=_ignore_interrupts,
            pin_memory=torch.cuda.is_available(),
            collate_fn=_stack,
        )

    def __len__(self) -> int:
        return len(self.dataset.paths)

    def load(self, groups: Sequence[Rows], epoch: int | None) -> Iterator[Tensor]:
        """Decoded, resized and normalised images, (B, 3, size, size)."""
        self._keys.batches = [[(int(row), epoch) for row in rows] for rows in groups]
        for inputs in self._loader:
            if isinstance(inputs, UserError):  # raised here, a worker would wrap it
                raise inputs
            yield inputs.float().sub_(self._mean).div_(self._std)  # bytes travel four times faster


class _Keys:
    """The batches of the next pass, as (row, epoch) pairs; workers stay alive between passes."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[int, int | None]]] = []

    def __iter__(self) -> Iterator[list[tuple[int, int | None]]]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


def _ignore_interrupts(worker: int) -> None:
    """Ctrl-C is for the main process, which ends its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _stack(items: list[Tensor | UserError]) -> Tensor | UserError:
    """A batch of images, or the first problem among them."""
    images = []
    for item in items:
        if isinstance(item, UserError):
            return item
        images.append(item)
    return torch.stack(images)


@dataclass(frozen=True)
class _ImageDataset(Dataset[Tensor | UserError]):
    """One file → (3, size, size) bytes; `(row, epoch)` is the key, epoch None the plain view."""

    paths: tuple[str, ...]
    size: int
    seed: int
    flip: bool

    def __getitem__(self, key: tuple[int, int | None]) -> Tensor | UserError:
        from g2netpl.images import open_image, squash

        row, epoch = key
        try:
            pixels = squash(open_image(self.paths[row]), self.size)  # (H, W, 3) uint8
        except UserError as problem:
            return problem
        if epoch is not None and self.flip:
            random = np.random.default_rng([self.seed, epoch, row, 0x666C])
            if random.random() < 0.5:
                pixels = pixels[:, ::-1]
        return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))
