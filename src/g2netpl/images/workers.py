"""The processes that load images: how they end, and what it means if they end by themselves."""

import atexit
import multiprocessing.util  # noqa: F401
import signal
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from g2netpl.utils.errors import UserError
from g2netpl.utils.files import is_full
from g2netpl.utils.image_refs import Unreachable
from g2netpl.utils.signals import STOPS, Interrupts

Item = TypeVar("Item")

_WORDS = (  # of torch, about a worker that is gone
    *("is killed by signal", "exited unexpectedly", "ancdata"),
    *("shared memory", "unable to write to file", "unable to mmap"),
)
_workers: weakref.WeakSet[Any] = weakref.WeakSet()


class WorkerLost(UserError):
    """A loader worker died, or cannot send what it loaded."""

    def __init__(self, why: str, advice: str = "run the same command again") -> None:
        super().__init__(
            f"an image loader process ended ({why}; if memory is short, use fewer --workers); "
            f"{advice}"
        )
        self.why = why


@contextmanager
def with_resume_advice(interrupts: Interrupts) -> Iterator[None]:
    """A lost worker or store inside is reported with the command that resumes the run."""
    try:
        yield
    except WorkerLost as lost:
        raise WorkerLost(lost.why, interrupts.advice) from None
    except Unreachable as lost:
        raise Unreachable(f"{lost}; {interrupts.advice}") from None


def ignore_interrupts(worker: int) -> None:
    """Ctrl-C is for the main process, which ends its workers itself."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    sys.excepthook = lambda *_: None  # about a connection that the main process has closed


def start_workers(loader: Iterable[Item]) -> Iterator[Item]:
    """The items of a loader. torch's handler for the death of a worker is put back.

    It would raise that at any moment of other work; the loader itself notices it within seconds.
    """
    in_main = threading.current_thread() is threading.main_thread()
    number = getattr(signal, "SIGCHLD", None) if in_main else None
    before = None if number is None else signal.getsignal(number)
    items = iter(loader)
    _workers.update(getattr(items, "_workers", ()))
    if number is not None:
        signal.signal(number, signal.SIG_DFL if before is None else before)
    return items


def lost_worker(problem: Exception) -> WorkerLost | None:
    """The error to raise instead if a worker died; None for any other problem."""
    if is_full(problem):
        return None
    lines = [line for line in str(problem).splitlines() if any(word in line for word in _WORDS)]
    if not lines and not isinstance(problem, ConnectionError | EOFError | FileNotFoundError):
        return None
    why = lines[0].strip() if lines else str(problem) or type(problem).__name__
    return WorkerLost(why.rstrip("."))


@atexit.register
def _end_workers() -> None:
    """Python would ask its children to end by a signal that they ignore, and wait for ever.

    It does so at its own exit, which is after this one, since `multiprocessing.util` is imported
    above.
    """
    for worker in list(_workers):
        worker.kill()
