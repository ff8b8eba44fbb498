"""The batches of an epoch: some images, and what was observed about them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from g2netpl.base.processes import ALONE, Processes
from g2netpl.images.loader import Rows, Source, epoch_groups, shards_in, share_bad


@dataclass(frozen=True)
class Batch:
    """Some training images and what was observed about them. It holds no truth."""

    rows: Tensor  # (B,) int64: position of each image in the training part
    inputs: Tensor  # (B, …) images, in two views (B, 2, …), or features; our own share of them
    observed: Tensor  # (B, L) int8: 1, 0, −1
    number: int = 0  # of the batch in its epoch
    counts: tuple[int, ...] = ()  # with several processes: how many of the images each has

    def __len__(self) -> int:
        return len(self.rows)


def weak_view(inputs: Tensor) -> Tensor:
    """What labels answer: of images in two views, (B, 2, …), the weak one; else the inputs."""
    return inputs[:, 0] if in_two_views(inputs) else inputs


def strong_view(inputs: Tensor) -> Tensor:
    """What the network learns from: of images in two views the strong one; else the inputs."""
    return inputs[:, 1] if in_two_views(inputs) else inputs


def in_two_views(inputs: Tensor) -> bool:
    """Whether these are images, or maps of them, in a weak and a strong view, (B, 2, C, H, W)."""
    return inputs.ndim == 5


def stacked_views(inputs: Tensor) -> Tensor:
    """Both views of each image for one forward: the weak ones, then the strong ones, (2B, …)."""
    return inputs.transpose(0, 1).flatten(0, 1) if in_two_views(inputs) else inputs


def training_batches(
    source: Source,
    observed: Tensor,
    batch_size: int,
    seed: int,
    epoch: int,
    *,
    first: int = 0,
    processes: Processes = ALONE,
) -> Iterator[Batch]:
    """The batches of one epoch from the first asked for, on the device of `observed`."""
    groups = epoch_groups(len(source), batch_size, seed, epoch, shards_in(source))[first:]
    shares = [processes.shares(rows) for rows in groups]
    # a rank without an image looks at one that is not its own, for nothing
    mine = [
        share[processes.rank] if len(share[processes.rank]) else share[0][:1] for share in shares
    ]
    loaded = source.load(mine, epoch, observed.device)
    for number, (share, inputs) in enumerate(zip(shares, loaded, strict=True), start=first):
        if processes.size == 1:
            batch = readable_batch(share[0], inputs, observed, number)
        else:
            batch = _shared_batch(share, inputs, observed, number, processes, source)
        if len(batch):
            yield batch


def _shared_batch(
    share: list[Rows],
    inputs: Tensor,
    observed: Tensor,
    number: int,
    processes: Processes,
    source: Source,
) -> Batch:
    """All rows that some rank could read, with the inputs of this one."""
    rows, counts = torch.from_numpy(np.concatenate(share)), [len(rows) for rows in share]
    here, nothing = ~inputs.flatten(1)[:, 0].isnan(), torch.zeros_like(inputs[:1])
    if processes.all_max(int((~here[: counts[processes.rank]]).any())):
        readable = processes.all_gather(here.to(torch.uint8), counts).bool()
        rows, inputs = rows[readable.cpu()], inputs[here]
        counts = [int(part.sum()) for part in torch.split(readable, counts)]
        share_bad(source, processes)
    if not counts[processes.rank]:
        inputs = nothing
    rows = rows.to(observed.device)
    return Batch(rows, inputs, observed.index_select(0, rows), number, tuple(counts))


def readable_batch(rows: Rows, inputs: Tensor, observed: Tensor, number: int = 0) -> Batch:
    """A batch of inputs and what was observed, without the images that cannot be read."""
    unreadable = inputs.flatten(1)[:, 0].isnan()
    if unreadable.any():
        rows, inputs = rows[~unreadable.cpu().numpy()], inputs[~unreadable]
    index = torch.from_numpy(rows).to(observed.device)
    return Batch(index, inputs, observed.index_select(0, index), number)
