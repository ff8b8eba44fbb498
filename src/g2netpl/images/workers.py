"""The processes that load images: who ends them, and what it means where they end by themselves."""

import atexit
import multiprocessing.util  # noqa: F401
import signal
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from g2netpl.base.disk import is_full
from g2netpl.base.errors import UserError
from g2netpl.base.places import Unreachable
from g2netpl.base.signals import Interrupts
from g2netpl.base.system import CHILD_ENDED, STOPS

Item = TypeVar("Item")

_WORDS = (
    *("is killed by signal", "exited unexpectedly", "ancdata"),
    *("shared memory", "unable to write to file", "unable to mmap"),
)


class WorkerLost(UserError):
    """A loader process died, or cannot send what it loaded."""

    exit_code = 6

    def __init__(self, why: str, advice: str = "run the same command again") -> None:
        super().__init__(
            f"an image loader process ended ({why}; where memory was short, fewer --workers "
            f"help); {advice}"
        )
        self.why = why


@contextmanager
def told_how_to_go_on(interrupts: Interrupts) -> Iterator[None]:
    """Inside, what is lost with a process or a store can be gone on with as after a signal."""
    try:
        yield
    except WorkerLost as lost:
        raise WorkerLost(lost.why, interrupts.advice) from None
    except Unreachable as lost:
        raise Unreachable(f"{lost}; {interrupts.advice}") from None


def ignore_interrupts(worker: int) -> None:
    """Ctrl-C is for the main process, which ends its workers itself, without a word from them."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    sys.excepthook = lambda *_: None  # a connection that the main process has closed


def started(loader: Iterable[Item]) -> Iterator[Item]:
    """What a loader gives; that one of its processes died is noticed here, within seconds.

    By itself it would raise that as a signal, at any moment of whatever we do meanwhile.
    """
    in_main = threading.current_thread() is threading.main_thread()
    number = CHILD_ENDED if in_main else None
    before = None if number is None else signal.getsignal(number)
    items = iter(loader)
    _started.update(getattr(items, "_workers", ()))
    if number is not None:
        signal.signal(number, signal.SIG_DFL if before is None else before)
    return items


def lost_worker(problem: Exception) -> WorkerLost | None:
    """What an error means where a loader process died."""
    if is_full(problem):
        return None
    lines = [line for line in str(problem).splitlines() if any(word in line for word in _WORDS)]
    broken = isinstance(problem, ConnectionError | EOFError | FileNotFoundError)
    if not lines and not broken:
        return None
    why = lines[0].strip() if lines else str(problem) or type(problem).__name__
    return WorkerLost(why.rstrip("."))


_started: weakref.WeakSet[Any] = weakref.WeakSet()


@atexit.register
def _end_workers() -> None:
    """A process asks its children to end by a signal that they ignore, and would wait for ever.

    Python does so at its own exit, which comes after this one: `multiprocessing.util` is imported
    above.
    """
    for worker in list(_started):
        worker.kill()
