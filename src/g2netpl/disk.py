"""Files that are there whole or not at all, a full disk said plainly, and one run per folder."""

import contextlib
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from g2netpl.errors import InputError, Refused, UserError

LOCK = ".lock"  # in a run folder, while a process trains there
FULL = (errno.ENOSPC, errno.EDQUOT)
_CANNOT_RESERVE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)  # of file systems


class DiskTrouble(UserError):
    """A file cannot be written or read: the disk is full, gone or read-only."""

    exit_code = 74


@contextlib.contextmanager
def told_plainly(folder: Path, needed: int = 0) -> Iterator[None]:
    """Errors of the disk inside become one line; a full one with bytes needed and free."""
    try:
        yield
    except OSError as problem:
        if problem.errno is None:
            raise
        where = Path(os.fsdecode(problem.filename)) if problem.filename else folder
        text = f"{where}: {os.strerror(problem.errno)}"
        if problem.errno in FULL:
            text += f"; {free_bytes(where):,} bytes free"
            if needed:
                text += f", {needed:,} needed"
            text += "; make room and go on with --resume"
        raise DiskTrouble(text) from None


def free_bytes(path: Path) -> int:
    """Space left on the disk of a file or folder that may not exist yet."""
    there = path.absolute()
    while not there.exists():
        there = there.parent
    return shutil.disk_usage(there).free


def check_space(folder: Path, needed: int) -> None:
    """Stop before the work where its files will not fit."""
    free = free_bytes(folder)
    if free < needed:
        raise DiskTrouble(
            f"{folder}: {needed:,} bytes needed for the checkpoints, {free:,} free; make room, or "
            "choose another --output"
        )


def write_durably(path: Path, content: bytes) -> None:
    """Write a new file down to the disk."""
    with _open_new(path) as file:
        file.write(content)


@contextlib.contextmanager
def written_whole(path: Path, mark: str = "new") -> Iterator[BinaryIO]:
    """A file that takes its name once it is complete and on the disk; until then the old one is.

    Until then it is called `PATH.MARK`.
    """
    temporary = path.with_name(f"{path.name}.{mark}")
    try:
        with _open_new(temporary) as file:
            yield file
        os.replace(temporary, path)
        sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _open_new(path: Path) -> Iterator[BinaryIO]:
    """Open for writing, and down to the disk at the end; an error knows the file it is about."""
    try:
        with open(path, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        if problem.filename is None:
            problem.filename = str(path)
        raise


def reserve(descriptor: int, size: int) -> None:
    """Give a file its size and all its space, so that a full disk is an error and not a crash."""
    os.truncate(descriptor, size)
    if hasattr(os, "posix_fallocate") and size:
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as problem:
            if problem.errno not in _CANNOT_RESERVE:
                raise


def rename_durably(old: Path, new: Path) -> None:
    """Give a file or folder its name; after a crash it has the old one or the new one."""
    os.rename(old, new)
    sync_folder(new.parent)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder down to the disk."""
    sync(folder, os.O_RDONLY)


def sync(path: Path, flags: int = os.O_RDWR) -> None:
    """Write a file that was changed down to the disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def same_file(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one of that name: neither removed nor replaced."""
    held = os.fstat(descriptor)
    try:
        return os.path.samestat(held, os.stat(path))
    except OSError:
        return False


def hold(descriptor: int) -> bool:
    """Lock an open file or folder for ourselves; False where somebody else has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True


def write_json(path: Path, content: Any) -> None:
    """Write JSON so that the file is either the old one or the complete new one."""
    with written_whole(path) as file:
        file.write((json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a run folder for ourselves; refused where another process has it.

    A folder that is not there is made, and removed again if it is left empty.
    """
    made = _make(folder)
    descriptor = _take(folder)
    _held.add(descriptor)
    try:
        yield
    finally:
        (folder / LOCK).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty: there is a run now
            for path in made:
                path.rmdir()
        _held.discard(descriptor)
        os.close(descriptor)


def _make(folder: Path) -> list[Path]:
    """Make a folder and those it is in; gives those that are new, the deepest first."""
    path = folder.absolute()
    made = [each for each in (path, *path.parents) if not each.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        if problem.errno in FULL:
            raise
        raise InputError(f"{folder}: cannot be made ({problem.strerror})") from None
    return made


def _take(folder: Path) -> int:
    path = folder / LOCK
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise Refused(
                f"{folder}: another process is training there; wait, or stop it"
            ) from None
        except OSError:
            pass  # a file system without locks
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        os.close(descriptor)  # its owner ended at this moment and removed it


_held: set[int] = set()


def _let_go() -> None:
    """A loader process must not keep the folder locked after a crash of the one that trains."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)
