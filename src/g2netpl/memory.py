"""How the C library deals with memory that was freed."""

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt
_LARGE = 1 << 30


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
