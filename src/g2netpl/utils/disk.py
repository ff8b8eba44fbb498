"""Files that are there whole or not at all, and a full disk said plainly."""

import contextlib
import errno
import hashlib
import io
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import platformdirs

from g2netpl.utils.errors import InputError, UserError
from g2netpl.utils.files import atomic_write, open_in_place, sync_folder
from g2netpl.utils.inside import open_file
from g2netpl.utils.places import ImageRef, Stamp
from g2netpl.utils.system import SYNCING
from g2netpl.utils.terminal import EXIT_DISK

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the last by `ulimit -f`
NO_PATH = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR)  # a user's mistake
_CANNOT_RESERVE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)  # of file systems


class DiskTrouble(UserError):
    """A file cannot be written or read: the disk is full, gone or read-only."""

    exit_code = EXIT_DISK


@contextlib.contextmanager
def told_plainly(folder: Path, needed: int = 0) -> Iterator[None]:
    """Errors of the disk inside become one line; a full one with bytes needed and free."""
    try:
        yield
    except OSError as problem:
        if problem.errno is None:
            raise
        where = Path(os.fsdecode(problem.filename)) if problem.filename else folder
        if is_full(problem):
            raise full_disk(problem, where, needed, "go on with --resume") from None
        kind = InputError if problem.errno in NO_PATH else DiskTrouble
        raise kind(f"{where}: {os.strerror(problem.errno)}") from None


def is_full(problem: BaseException) -> bool:
    """Whether a disk or a quota is full, that of temporary files included."""
    if not isinstance(problem, OSError):
        return False
    no_folder = str(problem.strerror).startswith("No usable temporary directory")  # of tempfile
    return problem.errno in _FULL or no_folder


def full_disk(
    problem: OSError, path: Path, needed: int = 0, then: str = "run the command again"
) -> DiskTrouble:
    """A full disk in one line, with the bytes free and needed."""
    more = f", {needed:,} needed" if needed else ""
    free = f"{free_bytes(path):,} bytes free{more}"
    why = problem.strerror or os.strerror(problem.errno or 0)
    return DiskTrouble(f"{path}: {why}; {free}; make room and {then}")


def cannot_write(path: str | Path, problem: OSError) -> UserError:
    """The error for a file that cannot be written: a full disk, or a mistake of the user."""
    if is_full(problem):
        return full_disk(problem, Path(path))
    return InputError(f"{path}: cannot be written ({problem.strerror})")


def free_bytes(path: Path) -> int:
    """Space left on the disk of a file or folder that may not exist yet."""
    there = path.absolute()
    while not there.exists():
        there = there.parent
    return shutil.disk_usage(there).free


def check_space(
    folder: Path,
    needed: int,
    what: str = "checkpoints",
    otherwise: str = "choose another --output",
) -> None:
    """Stop before the work where its files will not fit."""
    free = free_bytes(folder)
    if free < needed:
        raise DiskTrouble(
            f"{folder}: {needed:,} bytes needed for the {what}, {free:,} free; make room, or "
            f"{otherwise}"
        )


def file_stamp(path: str | Path) -> Stamp:
    """Size, time of the content and time of the file itself, which nobody sets; −1: not there.

    A file with the same three is the same. One with others may still have the same content.
    """
    return (path if isinstance(path, ImageRef) else ImageRef(path)).stamp()


def file_digest(path: str | Path) -> bytes | None:
    """SHA-256 of the content of a file; None where it cannot be read, and of a pipe or device."""
    if isinstance(path, ImageRef):
        return path.digest()
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").digest()
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def text_written_whole(path: str | Path, errors: str = "strict") -> Iterator[TextIO]:
    """The same for a file of text that a person named, in UTF-8, with line ends as they come."""
    with atomic_write(Path(path)) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", errors=errors, newline="")
        yield text
        text.detach()  # which writes all of it


def write_text_whole(path: str | Path, content: str, errors: str = "strict") -> None:
    """Write text so that the file is either the old one or the complete new one."""
    with text_written_whole(path, errors) as file:
        file.write(content)


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Make the folder of a file that a person named; what goes wrong with the file is one line."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as problem:
        raise cannot_write(path, problem) from None


@contextlib.contextmanager
def opening(path: str | Path) -> Iterator[None]:
    """What goes wrong with a file that is opened and read inside is one line."""
    try:
        yield
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror})") from None


def write_whole(path: Path, content: bytes) -> str:
    """Write a file that a person named, whole or not at all; returns its SHA-256."""
    with writing(path), atomic_write(path) as file:
        file.write(content)
    return hashlib.sha256(content).hexdigest()


def reserve(descriptor: int, size: int) -> None:
    """Give a file its size and all its space, so that a full disk is an error and not a crash."""
    if os.fstat(descriptor).st_size != size:
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


def sync(path: Path) -> None:
    """Write a file that was changed down to the disk."""
    descriptor = open_in_place(path, SYNCING)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, content: Any) -> None:
    """Write JSON so that the file is either the old one or the complete new one.

    A byte of a path that is not UTF-8 stands there as JSON writes it, `\\udcff`.
    """
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    with atomic_write(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def read_object(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None where it cannot be read, or is something else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def user_cache(kind: str, otherwise: str) -> Path:
    """A folder in the user's cache folder, which may be deleted at any time."""
    folder = platformdirs.user_cache_path("g2netpl", appauthor=False)
    if not folder.is_absolute():
        raise InputError(f"cache: there is no home folder to keep {kind} in; {otherwise}")
    return folder / kind
