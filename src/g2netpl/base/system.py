"""What systems do differently, each thing in one place: locks, folders, open files, signals.

The rest of the package is the same on Linux, macOS and Windows. Nothing heavy here.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

BINARY: int = getattr(os, "O_BINARY", 0)  # without it, Windows changes line ends
NO_WAITING: int = getattr(os, "O_NONBLOCK", 0)  # a pipe in place of a file must not hang us
STOPS = tuple(  # the signals that ask a process to end; SIGBREAK exists only on Windows
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")
    if hasattr(signal, name)
)
CHILD_ENDED: int | None = getattr(signal, "SIGCHLD", None)
OPEN_FILES_CAN_GO = sys.platform != "win32"  # whether they can be removed, replaced or renamed
MOST_PROCESSES = 61 if sys.platform == "win32" else 1 << 16  # that one can wait for
SYNCING = os.O_RDWR if sys.platform == "win32" else os.O_RDONLY  # how a file is opened for that
PORTS_ARE_OURS = sys.platform != "win32"  # there, to reuse an address is to share it with others
NOTES = (  # on what is promised elsewhere and not here, for who begins a training
    ("a power cut may take the last checkpoint with it: Windows writes no folder down at our word",)
    if sys.platform == "win32"
    else ()
)

if sys.platform == "win32":
    import msvcrt

    _BEHIND = 1 << 30  # a byte behind all that others read: what is locked nobody else can read

    def try_lock(descriptor: int, *, by_process: bool = False) -> bool | None:
        """Lock an open file: whether it is ours now; None on a file system without locks."""
        before = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, _BEHIND, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        except OSError:
            return None
        finally:
            os.lseek(descriptor, before, os.SEEK_SET)
        return True

    def open_folder(folder: Path) -> int | None:
        """A folder, to be locked or synced; None on Windows, where only files are opened."""
        return None

    def write_down(descriptor: int) -> None:
        """Write an open file down to the disk."""
        os.fsync(descriptor)

    def after_fork(what: Callable[[], None]) -> None:
        """Do this first in every process that is forked; there is none on Windows."""

else:
    import fcntl

    def try_lock(descriptor: int, *, by_process: bool = False) -> bool | None:
        """Lock an open file or folder: whether it is ours now; None where there are no locks.

        The processes that we fork hold it with us, unless it is to be held `by_process`.
        """
        lock = fcntl.lockf if by_process else fcntl.flock
        try:
            lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return None
        return True

    def open_folder(folder: Path) -> int | None:
        """A folder, to be locked or synced; None on Windows, where only files are opened."""
        return os.open(folder, os.O_RDONLY)

    def write_down(descriptor: int) -> None:
        """Write an open file, or the names in a folder, down to the disk."""
        if hasattr(fcntl, "F_FULLFSYNC"):  # a Mac leaves it to the disk when to write, else
            try:
                fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
                return
            except OSError:  # a file system that cannot
                pass
        os.fsync(descriptor)

    def after_fork(what: Callable[[], None]) -> None:
        """Do this first in every process that is forked; there is none on Windows."""
        os.register_at_fork(after_in_child=what)


def private_file(path: str | Path) -> int:
    """A new file for our eyes only; on Windows it is as private as its folder."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
