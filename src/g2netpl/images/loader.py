"""From images or features to batches: the order and the augmentation are functions of the seed.

The order of an epoch depends on (seed, epoch) and the augmentation of an image on (seed, epoch,
image), so the batches are the same for any number of loader workers. An image that cannot be read
is NaN; too many of them end the work.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from g2netpl.images.pixels import Pixels, Tried, check_bad, header_problem, load_resized
from g2netpl.images.transforms import ViewName, apply
from g2netpl.images.workers import ignore_interrupts, lost_worker, start_workers
from g2netpl.utils import distributed
from g2netpl.utils.errors import UserError
from g2netpl.utils.image_refs import Unreachable

Rows = npt.NDArray[np.int64]
Groups = Sequence[Rows]  # the rows of each batch
Device = torch.device | str
Problem = str | Unreachable  # of an image, or of the store it is in
TOGETHER = 1024  # images that are mixed with each other at least, if they are in tar files

_STRETCH = 20_000  # images that loader workers are started for, about


class Source(Protocol):
    """Where inputs come from: arrays in memory, or image files."""

    def __len__(self) -> int: ...

    @property
    def evaluation_batch(self) -> int:
        """How many to evaluate at a time."""
        ...

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Inputs of each group of rows, augmented unless the epoch is None; NaN if unreadable."""
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

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Rows of the array, which are never augmented."""
        for rows in groups:
            index = torch.from_numpy(rows).to(self.inputs.device)
            yield self.inputs.index_select(0, index).to(device)


@dataclass(frozen=True)
class Part:
    """Some rows of a source, as a source of its own (the training or validation split)."""

    source: Source
    rows: Rows

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def evaluation_batch(self) -> int:
        """As in the source."""
        return self.source.evaluation_batch

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Inputs of the part's rows."""
        return self.source.load([self.rows[group] for group in groups], epoch, device)


@dataclass(frozen=True)
class WithPrior:
    """A source with what is known about each image before any tag: q (N, L) of `core.prior`."""

    source: Source
    q: Tensor

    def __len__(self) -> int:
        return len(self.source)

    @property
    def evaluation_batch(self) -> int:
        """As in the source."""
        return self.source.evaluation_batch

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Inputs of the source."""
        return self.source.load(groups, epoch, device)


def prior_of(source: Source, rows: Rows) -> Tensor | None:
    """q of some rows; None if it is not given with the source."""
    if isinstance(source, Part):
        return prior_of(source.source, source.rows[rows])
    return source.q[torch.from_numpy(rows)] if isinstance(source, WithPrior) else None


class MirroredPart(Part):
    """Some rows of a source of images, each mirrored."""

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Mirror images of the part's rows."""
        return (inputs.flip(-1) for inputs in super().load(groups, epoch, device))


@dataclass(frozen=True)
class DrawnPart(Part):
    """Some rows of a source of images, augmented as in one epoch; of a pair, the strong one."""

    epoch: int

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Augmented images of the part's rows."""
        for inputs in super().load(groups, self.epoch, device):
            yield inputs[:, -1] if inputs.ndim == 5 else inputs


def epoch_groups(
    count: int, batch_size: int, seed: int, epoch: int, shards: Rows | None = None
) -> list[Rows]:
    """A random order of all images, cut into batches whose sizes differ by at most one.

    With the tar file of each image, images of the same tar files follow each other.
    """
    random = np.random.default_rng([seed, epoch, 0x6F72])
    order = random.permutation(count) if shards is None else _by_shards(shards, random)
    return np.array_split(order, max(1, -(-count // batch_size)))


def _by_shards(shards: Rows, random: np.random.Generator) -> Rows:
    """Tar files in a random order; images are mixed in blocks of about `TOGETHER`."""
    sizes = np.bincount(shards)
    order = random.permutation(len(sizes))
    blocks = np.empty_like(order)
    blocks[order] = (np.cumsum(sizes[order]) - sizes[order]) // TOGETHER
    return np.lexsort((random.random(len(shards)), blocks[shards]))


def shards_in(source: Source) -> Rows | None:
    """The number of the tar file of each input; None if any order is as good."""
    if isinstance(source, Part):
        shards = shards_in(source.source)
        return None if shards is None else shards[source.rows]
    if isinstance(source, WithPrior):
        return shards_in(source.source)
    return source.shards if isinstance(source, ImageSource) else None


def plain_groups(count: int, batch_size: int) -> list[Rows]:
    """All images in file order, for evaluation."""
    return [
        np.arange(start, min(start + batch_size, count)) for start in range(0, count, batch_size)
    ]


def in_stretches(
    lists: Iterable[Sequence[str]], source: Callable[[Sequence[str]], Source]
) -> Iterator[Part]:
    """Lists of image files, each as a part of a source of several lists.

    So loader workers are not started for each list, and know no more paths than they need.
    """
    stretch: list[Sequence[str]] = []

    def parts() -> Iterator[Part]:
        whole, start = source([path for paths in stretch for path in paths]), 0
        for paths in stretch:
            yield Part(whole, np.arange(start, start + len(paths)))
            start += len(paths)

    for paths in lists:
        stretch.append(paths)
        if sum(map(len, stretch)) >= _STRETCH:
            yield from parts()
            stretch = []
    if stretch:
        yield from parts()


def by_headers(paths: Sequence[str], most: int) -> Tried:
    """What the first bytes of images show, which is quick; the ranks share the images."""
    own = {row: header_problem(paths[row]) for row in distributed.own_rows(len(paths)).tolist()}
    found = [item for part in distributed.gather(own) for item in part.items()]
    return Tried([problem for _, problem in sorted(found) if problem], most)


class ImageSource:
    """Image files, decoded and resized by loader workers.

    Several augmentations are an axis of their own in training: (B, views, 3, size, size). Up to
    `max_unreadable` files may be unreadable; `bad` says which were, and why. With `shards`, an
    epoch is ordered by tar files.
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
        max_unreadable: int = 0,
        shards: Rows | None = None,
    ) -> None:
        self.shards = shards
        self.dataset = _ImageDataset(tuple(paths), size, seed, view)
        self.max_unreadable = max_unreadable
        self.bad: dict[int, str] = {}
        self._mean = 255.0 * torch.tensor(mean)[:, None, None]
        self._std = 255.0 * torch.tensor(std)[:, None, None]
        self._batches: list[list[tuple[int, int | None]]] = []  # (row, epoch) pairs of a pass
        self._loader: Any = DataLoader(
            self.dataset,
            batch_sampler=_Batches(self._batches),
            num_workers=workers,
            persistent_workers=workers > 0,
            worker_init_fn=ignore_interrupts,
            pin_memory=torch.cuda.is_available(),
            collate_fn=_stack,
        )

    def __len__(self) -> int:
        return len(self.dataset.paths)

    @property
    def evaluation_batch(self) -> int:
        """Small on a CPU: buffers of over 32 MB are returned to the system every time."""
        return 64 if torch.cuda.is_available() else 16

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Decoded, resized and normalised images, (B, 3, size, size), or several views of each."""
        mean, std = self._mean.to(device), self._std.to(device)
        for rows, decoded in zip(groups, self.decoded(groups, epoch), strict=True):
            inputs = torch.sub(decoded.pixels.to(device, non_blocking=True), mean).div_(std)
            for position, problem in decoded.problems:
                if isinstance(problem, Unreachable):
                    raise problem
                inputs[position] = torch.nan
                self.bad[int(rows[position])] = problem
            check_bad(Tried(self.bad.values(), self.max_unreadable))
            yield inputs

    def decoded(self, groups: Groups, epoch: int | None) -> "Iterator[_Decoded]":
        """What the workers send: bytes, which travel four times as fast as floats."""
        self._batches[:] = [[(int(row), epoch) for row in rows] for rows in groups]
        try:
            yield from start_workers(self._loader)
        except (RuntimeError, OSError, EOFError) as problem:
            raise lost_worker(problem) or problem from None


@dataclass(frozen=True)
class _Batches:
    """The batches of the next pass; the workers stay alive between passes."""

    batches: list[list[tuple[int, int | None]]]

    def __iter__(self) -> Iterator[list[tuple[int, int | None]]]:
        return iter([*self.batches])

    def __len__(self) -> int:
        return len(self.batches)


class _Decoded(NamedTuple):
    """(B, 3, size, size) bytes, and what was wrong with which of them."""

    pixels: Tensor
    problems: list[tuple[int, Problem]]


def _stack(items: list[tuple[Tensor, Problem | None]]) -> _Decoded:
    """A batch of images, and the problems among them."""
    problems = [(place, problem) for place, (_, problem) in enumerate(items) if problem is not None]
    return _Decoded(default_collate([pixels for pixels, _ in items]), problems)


@dataclass(frozen=True)
class _ImageDataset(Dataset[tuple[Tensor, Problem | None]]):
    """One file → (3, size, size) bytes, or black and why; not augmented if the epoch is None."""

    paths: tuple[str, ...]
    size: int
    seed: int
    view: ViewName | tuple[ViewName, ...]

    def __getitem__(self, key: tuple[int, int | None]) -> tuple[Tensor, Problem | None]:
        row, epoch = key
        problem: Problem | None = None
        try:
            pixels = load_resized(self.paths[row], self.size)
        except UserError as error:
            pixels = np.zeros((self.size, self.size, 3), dtype=np.uint8)
            problem = error if isinstance(error, Unreachable) else str(error)
        if epoch is None:
            return _tensor(pixels), problem
        names = (self.view,) if isinstance(self.view, str) else self.view
        views = [_tensor(apply(name, pixels, (self.seed, epoch, row))) for name in names]
        return views[0] if len(views) == 1 else torch.stack(views), problem


def _tensor(pixels: Pixels) -> Tensor:
    """(H, W, 3) → (3, H, W)."""
    return torch.from_numpy(np.require(pixels.transpose(2, 0, 1), requirements=["C", "W"]))
