"""From images or features to batches: the order and the augmentation are functions of the seed.

The order of an epoch depends on (seed, epoch) and the augmentation of an image on (seed, epoch,
image), so the batches are the same for any number of loader workers. An image that cannot be read
is NaN; too many of them end the work.
"""

import atexit
import multiprocessing.util  # its exit handler is registered first, so that ours runs before it
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from g2netpl.images.pixels import check_unreadable, header_problem, load_resized
from g2netpl.images.transforms import Augment, apply
from g2netpl.utils import distributed
from g2netpl.utils.errors import UserError
from g2netpl.utils.files import is_full
from g2netpl.utils.image_refs import Unreachable
from g2netpl.utils.signals import STOPS, Interrupts

Item = TypeVar("Item")
Rows = npt.NDArray[np.int64]
Groups = Sequence[Rows]  # the rows of each batch
Device = torch.device | str
TOGETHER = 1024  # images that are mixed with each other at least, if they are in tar files

_WORKER_LOST = (  # words of torch about a worker that is gone
    *("is killed by signal", "exited unexpectedly", "ancdata"),
    *("shared memory", "unable to write to file", "unable to mmap"),
)


class Source(ABC):
    """Where inputs come from: arrays in memory, image files, or cached activations."""

    evaluation_batch: int = 64  # how many to evaluate at a time
    shards: Rows | None = None  # the tar file of each input; None if any order is as good
    prior: Tensor | None = None  # known about each image before any tag: q (N, L) of `core.prior`

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Inputs of each group of rows, augmented unless the epoch is None; NaN if unreadable."""

    def prior_of(self, rows: Rows, device: Device = "cpu") -> Tensor | None:
        """The prior of some rows; None if it is not given with the source."""
        return None if self.prior is None else self.prior[torch.from_numpy(rows)].to(device)


class ArraySource(Source):
    """Features, or small images, that fit into memory."""

    def __init__(self, inputs: Tensor) -> None:
        self.inputs = inputs
        self.evaluation_batch = 512 if inputs.ndim == 2 else 64

    def __len__(self) -> int:
        return len(self.inputs)

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Rows of the array, which are never augmented."""
        for rows in groups:
            index = torch.from_numpy(rows).to(self.inputs.device)
            yield self.inputs.index_select(0, index).to(device)


class Subset(Source):
    """Some rows of a source, as a source of its own (the training or validation split)."""

    def __init__(self, source: Source, rows: Rows) -> None:
        self.source, self.rows = source, rows
        self.evaluation_batch = source.evaluation_batch
        self.shards = None if source.shards is None else source.shards[rows]

    def __len__(self) -> int:
        return len(self.rows)

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Inputs of the rows."""
        return self.source.load([self.rows[group] for group in groups], epoch, device)

    def prior_of(self, rows: Rows, device: Device = "cpu") -> Tensor | None:
        """As in the source."""
        return self.source.prior_of(self.rows[rows], device)


class MirroredSubset(Subset):
    """Some rows of a source of images, each mirrored."""

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Mirror images of the rows."""
        return (inputs.flip(-1) for inputs in super().load(groups, epoch, device))


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


def plain_groups(count: int, batch_size: int) -> list[Rows]:
    """All images in file order, for evaluation."""
    starts = range(0, count, batch_size)
    return [np.arange(start, min(start + batch_size, count)) for start in starts]


def check_headers(paths: Sequence[str], most: int) -> list[str]:
    """What the first bytes of images show, which is quick; at most so many may be unreadable."""
    mine = {row: header_problem(paths[row]) for row in distributed.own_rows(len(paths)).tolist()}
    rows = sorted(item for part in distributed.gather(mine) for item in part.items())
    problems = [problem for _, problem in rows if problem]
    check_unreadable(problems, most)
    return problems


class ImageSource(Source):
    """Image files, decoded and resized by loader workers.

    Several augmentations are an axis of their own in training: (B, 2, 3, size, size). Up to
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
        augment: Augment | tuple[Augment, ...] = "paper",
        workers: int = 0,
        max_unreadable: int = 0,
        shards: Rows | None = None,
    ) -> None:
        # buffers of over 32 MB are returned to the system every time on a CPU
        self.evaluation_batch = 64 if torch.cuda.is_available() else 16
        self.shards, self.max_unreadable = shards, max_unreadable
        names = (augment,) if isinstance(augment, str) else augment
        self.dataset = _ImageDataset(tuple(paths), size, seed, names)
        self.bad: dict[int, str] = {}
        self._mean = 255.0 * torch.tensor(mean)[:, None, None]
        self._std = 255.0 * torch.tensor(std)[:, None, None]
        self._batches: list[list[tuple[int, int | None]]] = []  # (row, epoch) pairs of a pass
        self._loader: Any = DataLoader(
            self.dataset,
            batch_sampler=self._batches,  # changed for each pass; the workers stay alive
            num_workers=workers,
            persistent_workers=workers > 0,
            worker_init_fn=ignore_interrupts,
            pin_memory=torch.cuda.is_available(),
            collate_fn=_stack,
        )

    def __len__(self) -> int:
        return len(self.dataset.paths)

    def load(self, groups: Groups, epoch: int | None, device: Device = "cpu") -> Iterator[Tensor]:
        """Decoded, resized and normalised images, (B, 3, size, size), or two augmentations."""
        self._batches[:] = [[(int(row), epoch) for row in rows] for rows in groups]
        mean, std = self._mean.to(device), self._std.to(device)
        try:
            for rows, (pixels, problems) in zip(groups, start_workers(self._loader), strict=True):
                inputs = torch.sub(pixels.to(device, non_blocking=True), mean).div_(std)
                for position, problem in problems:
                    if isinstance(problem, Unreachable):
                        raise problem
                    inputs[position] = torch.nan
                    self.bad[int(rows[position])] = str(problem)
                check_unreadable(self.bad.values(), self.max_unreadable)
                yield inputs
        except (RuntimeError, OSError, EOFError) as problem:
            raise lost_worker(problem) or problem from None


def _stack(
    items: list[tuple[Tensor, UserError | None]],
) -> tuple[Tensor, list[tuple[int, UserError]]]:
    """A batch (B, 3, size, size), and what is wrong with which of its images."""
    problems = [(place, problem) for place, (_, problem) in enumerate(items) if problem is not None]
    return default_collate([pixels for pixels, _ in items]), problems


class _ImageDataset(Dataset[tuple[Tensor, UserError | None]]):
    """One file → (3, size, size) bytes, or black and why; not augmented if the epoch is None."""

    def __init__(
        self, paths: tuple[str, ...], size: int, seed: int, augment: tuple[Augment, ...]
    ) -> None:
        self.paths, self.size, self.seed, self.augment = paths, size, seed, augment

    def __getitem__(self, key: tuple[int, int | None]) -> tuple[Tensor, UserError | None]:
        (row, epoch), problem = key, None
        try:
            pixels = load_resized(self.paths[row], self.size)
        except UserError as error:
            pixels, problem = np.zeros((self.size, self.size, 3), dtype=np.uint8), error
        made = [pixels]
        if epoch is not None:
            made = [apply(name, pixels, (self.seed, epoch, row)) for name in self.augment]
        axes = (2, 0, 1) if len(made) == 1 else (0, 3, 1, 2)
        together = (made[0] if len(made) == 1 else np.stack(made)).transpose(axes)
        return torch.from_numpy(np.require(together, requirements=["C", "W"])), problem


class WorkerLost(UserError):
    """A loader worker died, or cannot send what it loaded."""


@contextmanager
def with_resume_advice(interrupts: Interrupts) -> Iterator[None]:
    """A lost worker or store inside is reported with the command that resumes the run."""
    try:
        yield
    except (WorkerLost, Unreachable) as lost:
        raise type(lost)(f"{lost}; {interrupts.advice}") from None


def ignore_interrupts(worker: int) -> None:
    """Ctrl-C is for the main process, which ends its workers itself."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    sys.excepthook = lambda *_: None  # about a connection that the main process has closed


def start_workers(loader: Iterable[Item]) -> Iterator[Item]:
    """The items of a loader. torch's handler for the death of a worker is put back.

    It would raise that at any moment of other work; the loader itself notices it within seconds.
    """
    child_died = getattr(signal, "SIGCHLD", None)  # None on Windows
    if child_died is None or threading.current_thread() is not threading.main_thread():
        return iter(loader)
    before: Any = signal.getsignal(child_died)
    items = iter(loader)
    signal.signal(child_died, before or signal.SIG_DFL)
    return items


def lost_worker(problem: Exception) -> WorkerLost | None:
    """The error to raise instead if a worker died; None for any other problem."""
    text = str(problem).splitlines()
    lines = [line for line in text if any(words in line for words in _WORKER_LOST)]
    is_cut_off = isinstance(problem, ConnectionError | EOFError | FileNotFoundError)
    if is_full(problem) or not (lines or is_cut_off):
        return None
    why = (lines[0] if lines else str(problem) or type(problem).__name__).strip().rstrip(".")
    return WorkerLost(
        f"an image loader process ended ({why}); if memory is short, use fewer --workers"
    )


@atexit.register
def _end_workers() -> None:
    """Python would ask its children to end by a signal that they ignore, and wait for ever."""
    for child in multiprocessing.active_children():
        if child.daemon:
            child.kill()
