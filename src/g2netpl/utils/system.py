"""What systems do differently, each thing in one place. Nothing heavy here."""

import os
import signal
import sys
from pathlib import Path

BINARY: int = getattr(os, "O_BINARY", 0)  # without it, Windows changes line ends
NO_WAITING: int = getattr(os, "O_NONBLOCK", 0)  # a pipe in place of a file must not hang us
STOPS = tuple(  # the signals that ask a process to end; SIGBREAK exists only on Windows
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")
    if hasattr(signal, name)
)
CHILD_ENDED: int | None = getattr(signal, "SIGCHLD", None)
IS_WINDOWS = sys.platform == "win32"
MOST_PROCESSES = 61 if IS_WINDOWS else 1 << 16  # that one can wait for
SYNCING = os.O_RDWR if IS_WINDOWS else os.O_RDONLY  # how a file is opened for that


def private_file(path: str | Path) -> int:
    """A new file for our eyes only; on Windows it is as private as its folder."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
