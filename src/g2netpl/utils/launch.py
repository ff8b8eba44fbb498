"""What torchrun, `accelerate launch` or srun told this process about itself. Nothing heavy here."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from g2netpl.utils.errors import InputError, UserError


def rank() -> int:
    """The place of this process among all; 0 on its own."""
    return _number("RANK", 0)


def size() -> int:
    """How many processes were started; 1 without a launcher."""
    return max(1, _number("WORLD_SIZE", 1))


def local_rank() -> int:
    """The place of this process among those of its machine."""
    return _number("LOCAL_RANK", 0)


def is_first_of_machine() -> bool:
    """Whether this process speaks where all of a machine would say the same."""
    return local_rank() == 0


def device_of(name: str) -> str:
    """With `auto` the GPU of this process, if there is one."""
    import torch

    on_gpu = name == "auto" and torch.cuda.is_available()
    return f"cuda:{local_rank()}" if on_gpu else "cpu"


@contextmanager
def said_once() -> Iterator[None]:
    """A mistake inside is the same for all processes of a machine."""
    try:
        yield
    except UserError as problem:
        problem.said = not is_first_of_machine()
        raise


def ignore_signals() -> None:
    """A launcher ends the other processes when one has ended; by then they do so themselves."""
    if size() > 1:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def check() -> None:
    """Refuse half a launch, which would wait for ever or train several times."""
    needed = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in needed if name not in os.environ]
    others = max(_number(name, 1) for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"))
    started = max(size(), others)
    if started > 1 and missing:
        raise InputError(
            f"{started} processes were started, but {', '.join(missing)} not set; use torchrun, or "
            "set all of them"
        )


def _number(name: str, otherwise: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else otherwise
