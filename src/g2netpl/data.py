"""From images or features to batches: the order and the augmentation are functions of the seed.

The order of an epoch depends on (seed, epoch) alone and the random view of an image on
(seed, epoch, image), so the batches are the same for any number of loader workers.

An image that cannot be read is NaN from here on: training passes over it, its features and its
predictions are NaN. Too many of them end the work.
"""

import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from g2netpl.errors import UserError
from g2netpl.images import Pixels, check_bad, open_image, squash
from g2netpl.views import ViewName, view

Rows = npt.NDArray[np.int64]
Device = torch.device | str


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

    @property
    def evaluation_batch(self) -> int:
        """How many to evaluate at a time."""
        ...

    def load(
        self, groups: Sequence[Rows], epoch: int | None, device: Device = "cpu"
    ) -> Iterator[Tensor]:
        """Inputs of each group of rows; with an epoch the augmented view, without the plain one.

        What cannot be read is NaN.
        """
        ...


class ArraySource:
    """Features, or small images, that fit into memory."""

    def __init__(self, inputs: Tensor) -> None:
        self.inputs = inputs

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def evaluation_batch(self) -> int:
        """Features are small, images in memory are not."""
        return 512 if self.inputs.ndim == 2 else 64

    def load(
        self, groups: Sequence[Rows], epoch: int | None, device: Device = "cpu"
    ) -> Iterator[Tensor]:
        """Rows of the array; there is no augmented view."""
        for rows in groups:
            index = torch.from_numpy(rows).to(self.inputs.device)
            yield self.inputs.index_select(0, index).to(device)


@dataclass(frozen=True)
class Part:
    """Some rows of a source, seen as a source of its own (the training or validation part)."""

    source: Source
    rows: Rows

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def evaluation_batch(self) -> int:
        """As in the source."""
        return self.source.evaluation_batch

    def load(
        self, groups: Sequence[Rows], epoch: int | None, device: Device = "cpu"
    ) -> Iterator[Tensor]:
        """Inputs of the part's rows."""
        return self.source.load([self.rows[group] for group in groups], epoch, device)


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
    groups = epoch_groups(len(source), batch_size, seed, epoch)
    for rows, inputs in zip(groups, source.load(groups, epoch, observed.device), strict=True):
        batch = readable_batch(rows, inputs, observed)
        if len(batch):
            yield batch


def readable_batch(rows: Rows, inputs: Tensor, observed: Tensor) -> Batch:
    """A batch of inputs and what was observed, without the images that cannot be read."""
    readable = ~inputs.flatten(1)[:, 0].isnan()
    if not bool(readable.all()):
        rows, inputs = rows[readable.cpu().numpy()], inputs[readable]
    index = torch.from_numpy(rows).to(observed.device)
    return Batch(index, inputs, observed.index_select(0, index))


class ImageSource:
    """Image files, decoded and resized by loader workers.

    Several views make an axis of their own in training: (B, views, 3, size, size). Up to `max_bad`
    files may be unreadable; `bad` tells which were met, and why.
    """

    def __init__(
        self,
        paths: Sequence[str],
        size: int,
        mean: Sequence[float],
        std: Sequence[float],
        seed: int = 0,
        view: ViewName | tuple[ViewName, ...] = "paper",
        workers: int = 0,
        max_bad: int = 0,
    ) -> None:
        self.dataset = _ImageDataset(tuple(paths), size, seed, view)
        self.max_bad = max_bad
        self.bad: dict[int, str] = {}
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

    @property
    def evaluation_batch(self) -> int:
        """On a CPU small: buffers of over 32 MB are given back to the system every time."""
        return 64 if torch.cuda.is_available() else 16

    def load(
        self, groups: Sequence[Rows], epoch: int | None, device: Device = "cpu"
    ) -> Iterator[Tensor]:
        """Decoded, resized and normalised images, (B, 3, size, size), or as many views of each."""
        mean, std = self._mean.to(device), self._std.to(device)
        for rows, decoded in zip(groups, self.decoded(groups, epoch), strict=True):
            inputs = torch.sub(decoded.pixels.to(device, non_blocking=True), mean).div_(std)
            for position, problem in decoded.problems:
                inputs[position] = torch.nan
                self.bad[int(rows[position])] = problem
            check_bad(self.bad.values(), self.max_bad)
            yield inputs

    def decoded(self, groups: Sequence[Rows], epoch: int | None) -> Iterator["Decoded"]:
        """What the workers send: bytes, which travel four times as fast as floats."""
        self._keys.batches = [[(int(row), epoch) for row in rows] for rows in groups]
        yield from self._loader


class _Keys:
    """The batches of the next pass, as (row, epoch) pairs; workers stay alive between passes."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[int, int | None]]] = []

    def __iter__(self) -> Iterator[list[tuple[int, int | None]]]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


def _ignore_interrupts(worker: int) -> None:
    """Ctrl-C is for the main process, which ends its workers itself, without a word from them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.excepthook = lambda *_: None  # a connection that the main process has closed


class Decoded(NamedTuple):
    """(B, 3, size, size) bytes, and what was wrong with which of them."""

    pixels: Tensor
    problems: list[tuple[int, str]]


def _stack(items: list[tuple[Tensor, str | None]]) -> Decoded:
    """A batch of images, and the problems among them."""
    problems = [(place, problem) for place, (_, problem) in enumerate(items) if problem is not None]
    pixels = default_collate([pixels for pixels, _ in items])  # straight into shared memory
    return Decoded(pixels, problems)


@dataclass(frozen=True)
class _ImageDataset(Dataset[tuple[Tensor, str | None]]):
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
