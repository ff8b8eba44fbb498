"""Several processes (ranks) that train one model, as started by torchrun or accelerate launch.

Every function does nothing, or returns its argument, in a single process. Each rank owns a fixed
part of the training images and their pseudo-labels, so only gradients and a few numbers travel.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from g2netpl.utils import launch
from g2netpl.utils.errors import InputError

Value = TypeVar("Value")

_TIMEOUT = timedelta(hours=2)  # what one rank may do while the others wait, such as writing files
_is_local = False


def rank() -> int:
    """The number of this process; 0 in a single process."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def size() -> int:
    """The number of ranks that act together at this point."""
    is_connected = dist.is_available() and dist.is_initialized()
    return dist.get_world_size() if is_connected and not _is_local else 1


def is_main() -> bool:
    """Whether this rank prints and writes files."""
    return rank() == 0


def own_rows(count: int) -> npt.NDArray[np.int64]:
    """The rows that this rank owns: every `size()`-th."""
    return np.arange(rank() if size() > 1 else 0, count, size())


@contextmanager
def process_group(device: str) -> Iterator[None]:
    """Connect to the other ranks of the launch, if there are any, until the end."""
    if launch.size() < 2 or size() > 1:
        yield
        return
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise InputError(f"WORLD_SIZE is set, but not {', '.join(missing)}; start with torchrun")
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
    dist.init_process_group(backend, timeout=_TIMEOUT)
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def local_only() -> Iterator[None]:
    """Inside, this rank computes by itself, as a single process would."""
    global _is_local
    before, _is_local = _is_local, True
    try:
        yield
    finally:
        _is_local = before


class DataParallel(DistributedDataParallel):
    """DistributedDataParallel with the attributes of the model inside."""

    def __getattr__(self, name: str) -> Any:
        """An attribute of the wrapper, or else of the model."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


def parallel(model: nn.Module) -> nn.Module:
    """The model, with gradients averaged over all ranks."""
    if size() == 1 or not any(parameter.requires_grad for parameter in model.parameters()):
        return model
    device = next(model.parameters()).device
    return DataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)


def mean_over_ranks(value: Tensor) -> Tensor:
    """The mean of a tensor over all ranks; its gradient is that of this rank's value.

    Gradients are averaged over ranks later, so they add up to the gradient of the mean.
    """
    if size() == 1:
        return value
    mean = value.detach().clone()
    dist.all_reduce(mean)
    return value + (mean / size() - value.detach())


def any_rank(condition: bool) -> bool:
    """Whether the condition holds on any rank."""
    if size() == 1:
        return condition
    holds = torch.tensor(int(condition))
    dist.all_reduce(holds, dist.ReduceOp.MAX)
    return bool(holds)


def broadcast(value: Value) -> Value:
    """Rank 0's value, on every rank."""
    values = [value]
    if size() > 1:
        dist.broadcast_object_list(values)
    return values[0]


def gather(value: Value) -> list[Value]:
    """The values of all ranks, on every rank."""
    values = [value] * size()
    if size() > 1:
        dist.all_gather_object(values, value)
    return values


def gather_rows(own: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    """The table of all rows (count, …), from the rows that each rank owns."""
    if size() == 1:
        return own
    padded = np.zeros((-(-count // size()), *own.shape[1:]), own.dtype)
    padded[: len(own)] = own
    mine = torch.from_numpy(padded)
    parts = [torch.empty_like(mine) for _ in range(size())]
    dist.all_gather(parts, mine)
    return torch.stack(parts, dim=1).flatten(0, 1)[:count].numpy()


def barrier() -> None:
    """Wait for all ranks."""
    gather(None)


def check_ranks_match(facts: dict[str, str]) -> None:
    """Reject ranks that were started with other data, weights or settings than rank 0."""
    first, *others = gather(facts)
    for number, other in enumerate(others, start=1):
        different = [name for name in first if first[name] != other.get(name)]
        if different:
            raise InputError(
                f"rank {number} differs from rank 0 in its {' and '.join(different)}; start all "
                "ranks with the same command, files and versions"
            )
