"""SIGTERM, SIGHUP and Ctrl-C: what was learnt is saved before the process ends.

In the steps of an epoch a signal is noted and the loop comes to an end by itself; elsewhere, where
nothing is in the balance, it ends the work at once. A second Ctrl-C ends everything. A signal that
the process was started to ignore (`nohup`, or `&` in a script) stays ignored.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from g2netpl.utils.system import STOPS

AGAIN = "go on with the same command"
_SOON = 0.05  # seconds
NOTHING_KEPT = "nothing is kept; run the same command again"


class Stopped(BaseException):
    """Ended by a signal, to be gone on with later.

    No `Exception`, so that nobody takes it for a mistake that it happened to come in between.
    """

    exit_code = 75
    said = False  # by another of the processes


class Interrupts:
    """Catches the signals while it is entered; a no-op outside the main thread.

    `advice` tells a person how to go on; without it that depends on whether anything was begun.
    """

    def __init__(self, advice: str | None = None) -> None:
        self.wanted = False
        self.advice = advice or "nothing was begun; run the same command again"
        self._given = advice is not None
        self._noting = 0
        self._keys = 0  # how often Ctrl-C was pressed
        self._before: dict[signal.Signals, object] = {}
        self._process = os.getpid()
        self._last = 0
        self._later: threading.Timer | None = None
        self._hook: Callable[[Any], object] | None = None

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in STOPS:
                if signal.getsignal(number) == signal.SIG_IGN:
                    continue
                self._before[number] = before = signal.signal(number, self._receive)
                outer = getattr(before, "__self__", None)
                self.wanted |= isinstance(outer, Interrupts) and outer.wanted
            self._hook, sys.unraisablehook = sys.unraisablehook, self._dropped
        return self

    def __exit__(self, *_: object) -> None:
        if self._later is not None:
            self._later.cancel()
        if self._hook is not None:
            sys.unraisablehook, self._hook = self._hook, None
        for number, handler in self._before.items():
            # None: one that was not set from Python, and cannot be set back from there
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # type: ignore[arg-type]
        self._before = {}

    def _dropped(self, what: Any) -> None:
        """Python drops what is raised in a destructor or while it forks: signal again soon."""
        if not isinstance(what.exc_value, Stopped | KeyboardInterrupt):
            (self._hook or sys.__unraisablehook__)(what)
            return
        if isinstance(what.exc_value, Stopped):
            self.wanted = False
            self._keys -= self._last == signal.SIGINT
        self._later = threading.Timer(_SOON, os.kill, (self._process, self._last))
        self._later.daemon = True
        self._later.start()

    def begun(self, advice: str) -> None:
        """From now on there is something to go on with, unless told otherwise by `advice`."""
        if not self._given:
            self.advice = advice

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Inside, a signal only sets `wanted`; it takes effect at the end."""
        self._noting += 1
        try:
            yield
        finally:
            self._noting -= 1
        self.check()

    def check(self) -> None:
        """Stop here if a signal came while it was only noted."""
        if self.wanted and not self._noting:
            raise Stopped(f"stopped; {self.advice}")

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            return  # a loader process that is about to ignore signals
        self._last = number
        again, self.wanted = self.wanted, True
        self._keys += number == signal.SIGINT
        if self._keys > 1:
            raise KeyboardInterrupt
        if not again:  # a launcher may say it twice, while we save
            self.check()


def leave_terminal_to_parent() -> None:
    """In a worker process: a terminal sends Ctrl-C and SIGHUP to all; the parent ends its workers.

    The parent does so with SIGTERM.
    """
    for number in STOPS:
        if number != signal.SIGTERM:
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def stoppable(advice: str) -> Iterator[None]:
    """Inside, or in a function that it stands over, a signal ends the work with this advice."""
    with Interrupts(advice):
        yield
