"""One process at a time in a folder, through `filelock`."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from g2netpl.utils.errors import InputError
from g2netpl.utils.files import check_no_links, friendly_os_errors, open_in_place, remove_temporary

LOCK = ".lock"  # in a run folder, while a process works there


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a run folder; InputError if another process has it.

    It is created if needed, and removed again if nothing was written.
    """
    is_new = not folder.exists()
    with friendly_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    check_no_links(folder)
    try:
        with held(folder / LOCK, f"{folder}: another g2netpl process uses it; wait, or stop it"):
            remove_temporary(folder)
            yield
    finally:
        if is_new:
            with suppress(OSError):  # not empty
                folder.rmdir()


@contextmanager
def locked_without_file(folder: Path) -> Iterator[None]:
    """Lock a folder of other people's files; the lock file is in the temporary folder."""
    name = os.path.normcase(os.path.realpath(folder)) + os.path.expanduser("~")
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()
    path = Path(tempfile.gettempdir(), f"g2netpl-{digest[:32]}.lock")
    with held(path, f"{folder}: another g2netpl process writes there; wait, or stop it"):
        yield


@contextmanager
def held(path: Path, if_busy: str | Callable[[], None]) -> Iterator[None]:
    """Hold a lock file. If another process does: an InputError, or a call before waiting for it."""
    os.close(open_in_place(path, os.O_RDWR | os.O_CREAT))
    lock = FileLock(path, thread_local=False)
    with suppress(OSError, NotImplementedError):  # a file system without locks
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if isinstance(if_busy, str):
                raise InputError(if_busy) from None
            if_busy()
            lock.acquire()
    try:
        yield
    finally:
        try:
            path.unlink(missing_ok=True)  # before the release: after it, the file may be another's
            lock.release()
        except PermissionError:  # Windows removes no open file
            lock.release()
            with suppress(OSError):
                path.unlink(missing_ok=True)
