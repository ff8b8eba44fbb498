"""SIGTERM, SIGHUP and Ctrl-C save the work before the process ends, with exit code 75.

Within an epoch a signal only sets `wanted`, and the loop ends by itself; elsewhere it raises
`Stopped` at once. A second Ctrl-C ends everything. A signal that the process was started to ignore
(`nohup`, or `&` in a script) stays ignored.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

AGAIN = "run the same command again to resume"
NOTHING_KEPT = "nothing was saved; run the same command again"
STOPS = tuple(  # SIGHUP does not exist on Windows, and SIGBREAK only there
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")
    if hasattr(signal, name)
)


class Stopped(BaseException):
    """Stopped by a signal; not an `Exception`, so that no handler takes it for an error."""

    exit_code = 75


class Interrupts:
    """Catches the signals inside a `with` block; does nothing outside the main thread.

    `advice` says how to resume; without it, that depends on whether anything was saved.
    """

    def __init__(self, advice: str | None = None) -> None:
        self.wanted = False
        self.advice = advice or NOTHING_KEPT
        self._is_given = advice is not None
        self._noting = 0
        self._keys = 0  # how often Ctrl-C was pressed
        self._before: dict[int, Any] = {}
        self._process = os.getpid()

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in STOPS:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):  # None: of C code
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def begun(self, advice: str) -> None:
        """From now on there is something to resume, by this `advice` if none was given before."""
        if not self._is_given:
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
            return  # a new loader process, which is about to ignore signals
        is_repeated, self.wanted = self.wanted, True
        self._keys += number == signal.SIGINT
        if self._keys > 1:
            raise KeyboardInterrupt
        if not is_repeated:  # a launcher may send it twice while we save
            self.check()


@contextmanager
def stoppable(advice: str) -> Iterator[None]:
    """Inside, or in the function that it decorates, a signal ends the work with this advice."""
    with Interrupts(advice):
        yield


def leave_terminal_to_parent() -> None:
    """In a worker process: ignore Ctrl-C and SIGHUP; the parent ends its workers by SIGTERM."""
    for number in STOPS:
        if number != signal.SIGTERM:
            signal.signal(number, signal.SIG_IGN)
