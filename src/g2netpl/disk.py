"""Files that are there whole or not at all, a full disk said plainly, and one run per folder."""

import contextlib
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from g2netpl.errors import Refused, UserError


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
        where = problem.filename or folder
        text = f"{where}: {os.strerror(problem.errno)}"
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            text += f"; {free_bytes(folder):,} bytes free"
            if needed:
                text += f", {needed:,} needed"
            text += "; make room and go on with --resume"
        raise DiskTrouble(text) from None


def free_bytes(folder: Path) -> int:
    """Space left on the disk of a folder that may not exist yet."""
    there = folder.absolute()
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
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def rename_durably(old: Path, new: Path) -> None:
    """Give a file or folder its name; after a crash it has the old one or the new one."""
    os.rename(old, new)
    sync_folder(new.parent)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder down to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, content: Any) -> None:
    """Write JSON so that the file is either the old one or the complete new one."""
    temporary = path.with_name(path.name + ".new")
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_durably(temporary, text.encode())
    os.replace(temporary, path)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a run folder for ourselves; refused where another process has it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                f"{folder}: another process is training there; wait, or stop it"
            ) from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(descriptor)
