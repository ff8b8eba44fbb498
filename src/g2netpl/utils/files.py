"""Open and replace files without following links: every file that we write goes through here.

A folder from somebody else may contain links with the names that we are about to write. So a new
file is created exclusively under a random name and then moved into place, a file that grows is
opened with `O_NOFOLLOW`, and a run folder with anything but regular files and folders is rejected.
"""

import errno
import io
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from g2netpl.utils.errors import InputError

BINARY: int = getattr(os, "O_BINARY", 0)  # without it, Windows changes line ends
_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
_TEMPORARY = re.compile(r"\..{1,40}\.g2netpl-[0-9a-f]{16}\.tmp")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the last by `ulimit -f`


@contextmanager
def friendly_os_errors(path: str | Path) -> Iterator[None]:
    """An OSError inside becomes one line with the file and what went wrong."""
    try:
        yield
    except OSError as problem:
        if problem.errno is None:
            raise
        where = os.fsdecode(problem.filename) if problem.filename else path
        raise InputError(f"{where}: {os_error_text(problem)}") from None


def os_error_text(problem: OSError) -> str:
    """What went wrong, and what to do about a full disk."""
    text = problem.strerror or os.strerror(problem.errno or 0)
    return f"{text}; make room and run the command again" if is_full(problem) else text


def is_full(problem: BaseException) -> bool:
    """Whether a disk or a quota is full."""
    return isinstance(problem, OSError) and problem.errno in _FULL


@contextmanager
def atomic_write(path: str | Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Write a file that gets its name only when it is complete; a link there is replaced itself.

    A file that is replaced keeps its permissions. A `durable` one survives a power cut.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name[-40:]}.g2netpl-{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | BINARY
    try:
        with open(os.open(temporary, flags, 0o666), "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        with suppress(OSError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                os.chmod(temporary, status.st_mode & 0o777)
        os.replace(temporary, path)
        if durable:
            sync_folder(path.parent)
    except OSError as problem:
        if problem.filename in (None, str(temporary)):
            problem.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Create the folder of a file that a user named; errors of the file become one line."""
    with friendly_os_errors(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        yield


@contextmanager
def atomic_text(path: str | Path) -> Iterator[TextIO]:
    """Write a text file in UTF-8 that a user named; its folder is created if needed."""
    with writing(path), atomic_write(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        yield text
        text.detach()


def write_text(path: str | Path, content: str) -> None:
    """The same for a text that is known."""
    with atomic_text(path) as file:
        file.write(content)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that it is either the old one or the complete new one."""
    with atomic_write(path) as file:
        file.write(content)


def write_json(path: Path, content: Any) -> None:
    """Write JSON so that the file is either the old one or the complete new one."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None if it cannot be read, or is something else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def old_name(path: str | Path) -> Path:
    """The name for what is about to be replaced: NAME.old-1 (-2, …)."""
    path = Path(os.path.abspath(path))
    names = (path.with_name(f"{path.name}.old-{number}") for number in count(1))
    return next(name for name in names if not os.path.lexists(name))


def open_in_place(path: Path, flags: int) -> int:
    """Open a file to append to it or change it: a regular file with no other name, or InputError.

    With another name, what is written would reach a place that nobody named.
    """
    with suppress(FileNotFoundError):
        _check_kind(path, path.lstat())
    return os.open(path, flags | _NO_LINK | BINARY, 0o666)


@contextmanager
def appending(path: Path) -> Iterator[BinaryIO]:
    """Open a file to append whole lines to it."""
    with open(open_in_place(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as file:
        yield file


def check_no_links(folder: Path) -> None:
    """Reject a run folder with anything but regular files and folders.

    The folder itself may be a link: its owner named it.
    """
    for root, folders, files in os.walk(folder):
        for path in (Path(root, name) for name in (*folders, *files)):
            with suppress(FileNotFoundError):  # another process has just removed it
                _check_kind(path, path.lstat(), may_be_folder=True)


def is_temporary(name: str) -> bool:
    """Whether a file name is one of our temporary files."""
    return _TEMPORARY.fullmatch(name) is not None


def remove_temporary(folder: Path, ending: str = "") -> None:
    """Remove the temporary files that a killed process left in a folder that is locked.

    With an `ending`, only those of files with that ending: others in the folder may be in use.
    """
    for path in folder.iterdir():
        is_ours = is_temporary(path.name) and f"{ending}.g2netpl-" in path.name.lower()
        if is_ours and path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, if the system can do that."""
    if hasattr(os, "O_DIRECTORY"):  # Windows opens no folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _check_kind(path: Path, status: os.stat_result, may_be_folder: bool = False) -> None:
    """Reject links, pipes and devices; a file with a second name is a link too."""
    is_file, is_folder = stat.S_ISREG(status.st_mode), stat.S_ISDIR(status.st_mode)
    is_linked = is_file and status.st_nlink > 1 and not may_be_folder
    if stat.S_ISLNK(status.st_mode) or is_linked:
        raise InputError(f"{path}: is a link; expected a regular file: replace it by a copy")
    if not (is_file or (may_be_folder and is_folder)):
        raise InputError(f"{path}: is not a regular file; move it away")
