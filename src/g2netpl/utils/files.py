"""Open and replace files without following links: every file that we write goes through here.

A folder from somebody else may hold links with the names that we are about to write. So a new file
is created exclusively under a random name and then moved into place, a file that grows is opened
with `O_NOFOLLOW`, and a run folder that holds anything but regular files and folders is rejected.
"""

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import BinaryIO

from g2netpl.utils.errors import InputError
from g2netpl.utils.system import BINARY, IS_WINDOWS, NO_WAITING

_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
_TEMPORARY = re.compile(r"\..{1,40}\.g2netpl-[0-9a-f]{16}\.tmp")
_NO_HARD_LINKS = (  # ENOTSUP is of exFAT on a Mac, EINVAL of FAT on Windows
    *(errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.EMLINK),
    errno.EACCES,
)


@contextlib.contextmanager
def atomic_write(
    path: Path, *, durable: bool = True, condition: Callable[[], bool] | None = None
) -> Iterator[BinaryIO]:
    """Write a file that gets its name only when it is complete; a link there is replaced itself.

    A file that is replaced keeps its permissions. A `durable` one survives a power cut.
    FileExistsError if a `condition` is false directly before the file gets its name.
    """
    descriptor, temporary = _create(path)
    try:
        with naming(path), open(descriptor, "wb") as file:
            _copy_permissions(path, descriptor)
            yield file
            file.flush()
            if durable:
                os.fsync(descriptor)
        if condition is not None and not condition():
            raise FileExistsError(errno.EEXIST, "changed by another program", str(path))
        os.replace(temporary, path)
        if durable:
            sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def replace_file(path: Path, content: bytes) -> None:
    """Write a file whole; until it is complete the old one stays."""
    with atomic_write(path) as file:
        file.write(content)


def write_exclusively(path: Path, content: bytes) -> None:
    """Write a file that does not exist yet; FileExistsError if there is anything of that name.

    Nobody ever sees half of it.
    """
    descriptor, temporary = _create(path)
    try:
        with naming(path), open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        move_exclusively(temporary, path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def move_exclusively(source: Path, target: Path) -> None:
    """Give a file a name that is free; FileExistsError if it is not."""
    try:
        os.link(source, target)
        source.unlink()
    except OSError as problem:
        if problem.errno not in _NO_HARD_LINKS:
            raise
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666))
        os.replace(source, target)


def rename_old(folder: Path) -> None:
    """Rename a folder to NAME.old-1 (-2, …), so that a new one can take its name."""
    old = _free_name(folder)
    os.rename(folder, old)
    sync_folder(old.parent)


def copy_old(path: Path) -> None:
    """Keep a copy of a file that will be replaced, as NAME.old-1 (-2, …)."""
    write_exclusively(_free_name(path), path.read_bytes())


def _free_name(path: Path) -> Path:
    path = Path(os.path.abspath(path))
    names = (path.with_name(f"{path.name}.old-{number}") for number in count(1))
    return next(name for name in names if not os.path.lexists(name))


def open_in_place(path: Path, flags: int) -> int:
    """Open a file to append to it or change it: a regular file with no other name, or InputError.

    What is appended to another name of a file would reach a place that nobody named.
    """
    try:
        descriptor = os.open(path, flags | _NO_LINK | NO_WAITING | BINARY, 0o666)
    except OSError as problem:
        if path.is_symlink():
            raise _is_link(path) from None
        if problem.errno == errno.ENXIO:  # a pipe without a reader
            raise _not_regular(path) from None
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or _is_link_there(path):
        os.close(descriptor)
        raise _not_regular(path) if not stat.S_ISREG(status.st_mode) else _is_link(path)
    return descriptor


@contextlib.contextmanager
def appending(path: Path) -> Iterator[BinaryIO]:
    """Open a file to append whole lines to it."""
    with open(open_in_place(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as file:
        yield file


def check_no_links(folder: Path) -> None:
    """Reject a run folder that holds anything but regular files and folders.

    The folder itself may be a link: its owner named it.
    """
    if not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            path = folder / entry.name
            if entry.is_symlink() or _is_junction(entry):
                raise _is_link(path)
            if entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):  # a process has just removed it
                    check_no_links(path)
            elif not entry.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):  # a process has just removed it
                    os.lstat(path)
                    raise _not_regular(path)


def is_temporary(name: str) -> bool:
    """Whether a file name is one of our temporary files."""
    return _TEMPORARY.fullmatch(name) is not None


def remove_temporary(folder: Path, ending: str = "") -> None:
    """Remove the temporary files that a killed process left in a folder that is locked.

    With an `ending`, only those of files with that ending: others in the folder may be in use.
    """
    mark = f"{ending}.g2netpl-"
    with os.scandir(folder) as entries:
        for entry in entries:
            is_ours = is_temporary(entry.name) and mark in entry.name.lower()
            if is_ours and entry.is_file(follow_symlinks=False):
                (folder / entry.name).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, if the system can do that."""
    if IS_WINDOWS:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the disk inside name this file."""
    try:
        yield
    except OSError as problem:
        if problem.filename is None:
            problem.filename = str(path)
        raise


def _create(path: Path) -> tuple[int, Path]:
    """A new file under a random name in the folder of another; errors name that one."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | BINARY
    while True:
        temporary = path.with_name(f".{path.name[-40:]}.g2netpl-{secrets.token_hex(8)}.tmp")
        try:
            return os.open(temporary, flags, 0o666), temporary
        except FileExistsError:
            continue
        except OSError as problem:
            problem.filename = str(path)
            raise


def _copy_permissions(path: Path, descriptor: int) -> None:
    with contextlib.suppress(OSError):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and os.chmod in os.supports_fd:
            os.chmod(descriptor, status.st_mode & 0o777)


def _is_link_there(path: Path) -> bool:
    """Where the system cannot open without following links (Windows), look at the name."""
    return not _NO_LINK and path.is_symlink()


def _is_junction(entry: "os.DirEntry[str]") -> bool:
    is_junction = getattr(entry, "is_junction", None)  # Python 3.12
    return is_junction is not None and bool(is_junction())


def _is_link(path: Path) -> InputError:
    return InputError(f"{path}: is a link; expected a regular file: replace it by a copy")


def _not_regular(path: Path) -> InputError:
    return InputError(f"{path}: is not a regular file; move it away")
