"""One process at a time in a folder, through `filelock`."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from g2netpl.utils.disk import is_full
from g2netpl.utils.errors import InputError, Refused
from g2netpl.utils.files import check_no_links, open_in_place, remove_temporary
from g2netpl.utils.system import IS_WINDOWS

LOCK = ".lock"  # in a folder of results, while a process works there


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder of results; refused if another process has it.

    A folder that does not exist is made, and removed again if it is left empty.
    """
    made = _make(folder)
    check_no_links(folder)
    try:
        with held(folder / LOCK) as is_ours:
            if not is_ours:
                raise Refused(
                    f"{folder}: another process is training there, or reviews it; wait, or stop it"
                )
            remove_temporary(folder)
            yield
    finally:
        with contextlib.suppress(OSError):  # not empty: there are results
            for path in made:
                path.rmdir()


@contextlib.contextmanager
def locked_without_file(folder: Path) -> Iterator[None]:
    """Lock a folder of other people's files; the file of the lock is in the temporary folder."""
    name = os.path.normcase(os.path.realpath(folder)) + os.path.expanduser("~")
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()
    with held(Path(tempfile.gettempdir(), f"g2netpl-{digest[:32]}.lock")) as is_ours:
        if not is_ours:
            raise Refused(
                f"{folder}: another g2netpl process writes there; run this command again when it "
                "has ended"
            )
        yield


@contextlib.contextmanager
def held(path: Path) -> Iterator[bool]:
    """Lock a file, which is there only meanwhile; yields False if another process has it."""
    os.close(open_in_place(path, os.O_RDWR | os.O_CREAT))
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    except OSError:  # a file system without locks
        pass
    try:
        yield True
    finally:
        with contextlib.suppress(OSError):
            if IS_WINDOWS:  # which removes no open file
                lock.release()
            path.unlink()  # elsewhere before the release: after it, the file may be another's
        lock.release()


def _make(folder: Path) -> list[Path]:
    """Make a folder and its parents; returns the new ones, the deepest first."""
    path = folder.absolute()
    try:
        made = [each for each in (path, *path.parents) if not each.exists()]
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        if is_full(problem):
            raise
        raise InputError(f"{folder}: cannot be made ({problem.strerror})") from None
    return made
