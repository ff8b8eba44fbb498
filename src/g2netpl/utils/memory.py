"""Sizes in bytes as text, and how the C library deals with memory that was freed."""

import ctypes
import re

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt
_LARGE = 1 << 30
_UNITS = {"": 1, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000, "T": 1_000_000_000_000}


def parse_size(text: str) -> int:
    """Bytes from `2 GB`, `500MB` or `1000000`; ValueError for anything else."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)B?\s*", text, re.IGNORECASE)
    if found is None:
        raise ValueError("must be a size such as 500MB or 2GB")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def show_size(size: int) -> str:
    """`1.5 GB`, `320 MB`."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def keep_freed_memory() -> bool:
    """Let the C library keep the memory that this process frees, for the next time.

    Otherwise glibc gives the large buffers of a network back to the system after each step, which
    has to fill them with zeros again for the next: up to a third of the time of a step on a CPU.
    It holds for the whole process. False where there is no such knob; nothing changes then.
    """
    try:
        knob = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return [knob(which, _LARGE) for which in (_TRIM_THRESHOLD, _MMAP_THRESHOLD)] == [1, 1]
