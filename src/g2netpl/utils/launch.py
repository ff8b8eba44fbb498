"""What torchrun, `accelerate launch` or srun set in the environment; imports nothing heavy."""

import os
import signal


def rank() -> int:
    """The number of this process; 0 without a launcher."""
    return _number("RANK", 0)


def size() -> int:
    """How many processes were started; 1 without a launcher."""
    return max(1, _number("WORLD_SIZE", 1))


def is_first_of_machine() -> bool:
    """Whether this process prints what all processes of a machine would print."""
    return _number("LOCAL_RANK", 0) == 0


def device_of(name: str) -> str:
    """The device for `auto`: the GPU of this process if there is one."""
    import torch

    on_gpu = name == "auto" and torch.cuda.is_available()
    return f"cuda:{_number('LOCAL_RANK', 0)}" if on_gpu else "cpu"


def ignore_signals() -> None:
    """Let this process print why it ends, although the launcher now ends all others."""
    if size() > 1:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else default
