"""Large buffers stay with the process.

glibc gives every buffer of more than 32 MB back to the system when it is freed, and each batch of
images asks for such buffers again: on a CPU half of the time went into page faults. LOG.md has the
figures.
"""

import ctypes
import sys
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)


@cache
def keep_large_buffers() -> None:
    """Tell glibc, once per process; nothing happens elsewhere."""
    if not sys.platform.startswith("linux"):
        return
    try:
        library = ctypes.CDLL("libc.so.6")
        library.mallopt(_MMAP_THRESHOLD, 1 << 30)
        library.mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
    except (OSError, AttributeError):  # another C library
        return
