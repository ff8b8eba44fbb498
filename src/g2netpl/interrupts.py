"""SIGTERM and Ctrl-C: what was learnt is saved before the process ends.

In the steps of an epoch a signal is noted and the loop comes to an end by itself; elsewhere, where
nothing is in the balance, it ends the work at once. A second Ctrl-C ends everything.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from g2netpl.errors import UserError


class Stopped(UserError):
    """Ended by a signal, to be gone on with later."""

    exit_code = 75


class Interrupts:
    """Catches the signals while it is entered; a no-op outside the main thread."""

    def __init__(self) -> None:
        self.wanted = False
        self._noting = 0
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before = {}

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Inside, a signal only sets `wanted`; it is heeded on the way out."""
        self._noting += 1
        try:
            yield
        finally:
            self._noting -= 1
        self._heed()

    def _heed(self) -> None:
        if self.wanted and not self._noting:
            raise Stopped("stopped; nothing is lost, run the same command again")

    def _receive(self, number: int, frame: FrameType | None) -> None:
        again = self.wanted
        self.wanted = True
        if not again:
            self._heed()
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
