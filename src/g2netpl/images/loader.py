"""From images or features to batches: the order and the augmentation are functions of the seed.

The order of an epoch depends on (seed, epoch) alone and the random view of an image on
(seed, epoch, image), so the batches are the same for any number of loader workers.

An image that cannot be read is NaN from here on: training passes over it, its features and its
predictions are NaN. Too many of them end the work.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from g2netpl.base.errors import UserError
from g2netpl.base.places import Unreachable
from g2netpl.base.processes import ALONE, Processes
from g2netpl.images.pixels import Pixels, Tried, check_bad, header_problem, squashed
from g2netpl.images.views import ViewName, changed
from g2netpl.images.workers import ignore_interrupts, lost_worker, started

Rows = npt.NDArray[np.int64]
Groups = Sequence[Rows]  # the rows of each batch
Device = torch.device | str
Problem = str | Unreachable  # of an image, or of all that is at its place
TOGETHER = 1024  # images that are mixed with each other at least, where they lie in shards

_STRETCH = 20_000  # images that loader processes are started for, about


class Source(Protocol):
    """Where inputs come from: arrays in memory, or image files."""

    def __len__(self) -> int: ...

    @property
    def evaluation_batch(self) -> int:
        """How many to evaluate at a time."""
        ...

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
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

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
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

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Inputs of the part's rows."""
        return self.source.load([self.rows[group] for group in groups], epoch, device)


class MirroredPart(Part):
    """Some rows of a source of images, each mirrored."""

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Mirror images of the part's rows."""
        return (inputs.flip(-1) for inputs in super().load(groups, epoch, device))


@dataclass(frozen=True)
class DrawnPart(Part):
    """Some rows of a source of images, each in the view of one epoch; of two the strong one."""

    epoch: int

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Views of the part's rows."""
        for inputs in super().load(groups, self.epoch, device):
            yield inputs[:, -1] if inputs.ndim == 5 else inputs


def epoch_groups(
    count: int, batch_size: int, seed: int, epoch: int, shards: Rows | None = None
) -> list[Rows]:
    """A random order of all images, cut into batches whose sizes differ by at most one.

    With the number of the shard of each image, those of some shards follow each other.
    """
    chance = np.random.default_rng([seed, epoch, 0x6F72])
    order = chance.permutation(count) if shards is None else _by_shards(shards, chance)
    return np.array_split(order, max(1, -(-count // batch_size)))


def _by_shards(shards: Rows, chance: np.random.Generator) -> Rows:
    """Shards in a random order; the images of those that make up a block are mixed."""
    sizes = np.bincount(shards)
    turns = chance.permutation(len(sizes))
    blocks = np.empty_like(turns)
    blocks[turns] = (np.cumsum(sizes[turns]) - sizes[turns]) // TOGETHER
    return np.lexsort((chance.random(len(shards)), blocks[shards]))


def shards_in(source: Source) -> Rows | None:
    """Which shard each input comes from; None where any order is as good."""
    if isinstance(source, Part):
        shards = shards_in(source.source)
        return None if shards is None else shards[source.rows]
    return source.shards if isinstance(source, ImageSource) else None


def plain_groups(count: int, batch_size: int) -> list[Rows]:
    """All images in file order, for evaluation."""
    return [
        np.arange(start, min(start + batch_size, count)) for start in range(0, count, batch_size)
    ]


def in_stretches(
    lists: Iterable[Sequence[str]], source: "Callable[[Sequence[str]], ImageSource]"
) -> Iterator[Part]:
    """Lists of image files, one after the other, each as a part of a source of several.

    So loader processes are not started for each list anew, and know no more paths than they need.
    """
    for stretch in _stretches(lists):
        whole, start = source([path for paths in stretch for path in paths]), 0
        for paths in stretch:
            yield Part(whole, np.arange(start, start + len(paths)))
            start += len(paths)


def _stretches(lists: Iterable[Sequence[str]]) -> Iterator[list[Sequence[str]]]:
    stretch: list[Sequence[str]] = []
    for paths in lists:
        stretch.append(paths)
        if sum(map(len, stretch)) >= _STRETCH:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def in_turns(
    look: Callable[[Tensor], Tensor],
    source: Source,
    groups: Groups,
    device: Device,
    processes: Processes = ALONE,
) -> Iterator[Tensor]:
    """What `look` makes of the plain view of each group; the ranks take the groups in turns.

    Every rank is given all of it.
    """
    rounds = [
        groups[first : first + processes.size] for first in range(0, len(groups), processes.size)
    ]
    # in the last round, a rank may look at what is not its own, for nothing
    mine = [turn[min(processes.rank, len(turn) - 1)] for turn in rounds]
    for turn, inputs in zip(rounds, source.load(mine, None, device), strict=True):
        counts = [len(group) for group in turn] + [0] * (processes.size - len(turn))
        yield from torch.split(processes.all_gather(look(inputs), counts), counts[: len(turn)])
    if processes.size > 1:
        share_bad(source, processes)


def share_bad(source: Source, processes: Processes) -> None:
    """Tell the other ranks what could not be read here, and stop where it is too much."""
    while isinstance(source, Part):
        source = source.source
    if isinstance(source, ImageSource):
        for text in processes.gather_text(json.dumps(source.bad)):
            source.bad |= {int(row): problem for row, problem in json.loads(text).items()}
        source.check_bad()


def by_headers(paths: Sequence[str], most: int, processes: Processes = ALONE) -> Tried:
    """What the first bytes of images tell, which is quick; the others may be damaged further on.

    Each rank looks at its share, and is told of all.
    """
    mine = range(processes.rank, len(paths), processes.size)
    found = {row: problem for row in mine if (problem := header_problem(paths[row]))}
    texts = processes.gather_text(json.dumps(found))
    bad = {int(row): problem for text in texts for row, problem in json.loads(text).items()}
    return Tried(bad.values(), most, [path for row, path in enumerate(paths) if row not in bad])


class ImageSource:
    """Image files, decoded and resized by loader workers.

    Several views make an axis of their own in training: (B, views, 3, size, size). Up to `max_bad`
    files may be unreadable; `bad` tells which were met, and why. With `shards` an epoch is ordered
    by them.
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
        shards: Rows | None = None,
    ) -> None:
        self.shards = shards
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
            worker_init_fn=ignore_interrupts,
            pin_memory=torch.cuda.is_available(),
            collate_fn=_stack,
        )

    def __len__(self) -> int:
        return len(self.dataset.paths)

    @property
    def evaluation_batch(self) -> int:
        """On a CPU small: buffers of over 32 MB are given back to the system every time."""
        return 64 if torch.cuda.is_available() else 16

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Decoded, resized and normalised images, (B, 3, size, size), or as many views of each."""
        mean, std = self._mean.to(device), self._std.to(device)
        for rows, decoded in zip(groups, self.decoded(groups, epoch), strict=True):
            inputs = torch.sub(decoded.pixels.to(device, non_blocking=True), mean).div_(std)
            for position, problem in decoded.problems:
                if isinstance(problem, Unreachable):
                    raise problem
                inputs[position] = torch.nan
                self.bad[int(rows[position])] = problem
            self.check_bad()
            yield inputs

    def check_bad(self) -> None:
        """Stop where more files were unreadable than may be."""
        if len(self.bad) > self.max_bad:
            paths = enumerate(self.dataset.paths)
            others = [path for row, path in paths if row not in self.bad]
            check_bad(Tried(self.bad.values(), self.max_bad, others))

    def decoded(self, groups: Groups, epoch: int | None) -> "Iterator[Decoded]":
        """What the workers send: bytes, which travel four times as fast as floats."""
        self._keys.batches = [[(int(row), epoch) for row in rows] for rows in groups]
        try:
            yield from started(self._loader)
        except (RuntimeError, OSError, EOFError) as problem:
            raise lost_worker(problem) or problem from None


class _Keys:
    """The batches of the next pass, as (row, epoch) pairs; workers stay alive between passes."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[int, int | None]]] = []

    def __iter__(self) -> Iterator[list[tuple[int, int | None]]]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


class Decoded(NamedTuple):
    """(B, 3, size, size) bytes, and what was wrong with which of them."""

    pixels: Tensor
    problems: list[tuple[int, Problem]]


def _stack(items: list[tuple[Tensor, Problem | None]]) -> Decoded:
    """A batch of images, and the problems among them."""
    problems = [(place, problem) for place, (_, problem) in enumerate(items) if problem is not None]
    pixels = default_collate([pixels for pixels, _ in items])  # straight into shared memory
    return Decoded(pixels, problems)


@dataclass(frozen=True)
class _ImageDataset(Dataset[tuple[Tensor, Problem | None]]):
    """One file → (3, size, size) bytes, or black and why; epoch None is the plain view."""

    paths: tuple[str, ...]
    size: int
    seed: int
    view: ViewName | tuple[ViewName, ...]

    def __getitem__(self, key: tuple[int, int | None]) -> tuple[Tensor, Problem | None]:
        row, epoch = key
        problem: Problem | None = None
        try:
            pixels = squashed(self.paths[row], self.size)
        except UserError as trouble:
            pixels = np.zeros((self.size, self.size, 3), dtype=np.uint8)
            problem = trouble if isinstance(trouble, Unreachable) else str(trouble)
        if epoch is None:
            return _tensor(pixels), problem
        names = (self.view,) if isinstance(self.view, str) else self.view
        views = [_tensor(changed(name, pixels, (self.seed, epoch, row))) for name in names]
        return views[0] if len(views) == 1 else torch.stack(views), problem


def _tensor(pixels: Pixels) -> Tensor:
    """(H, W, 3) → (3, H, W)."""
    return torch.from_numpy(np.require(pixels.transpose(2, 0, 1), requirements=["C", "W"]))
