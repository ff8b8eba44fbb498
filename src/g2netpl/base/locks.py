"""One process at a time: a folder of results is locked, and its name is looked at again."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from g2netpl.base.disk import FULL
from g2netpl.base.errors import InputError, Refused

LOCK = ".lock"  # in a folder of results, while a process works there


def same_file(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one of that name: neither removed nor replaced."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


def try_lock(descriptor: int) -> bool | None:
    """Lock an open file or folder: whether it is ours now; None on a file system without locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextlib.contextmanager
def locked(folder: Path, *, surely: bool = False) -> Iterator[None]:
    """Keep a run folder for ourselves; refused where another process has it.

    A folder that is not there is made, and removed again if it is left empty. A file system without
    locks will do, unless it has to be `surely`.
    """
    made = _make(folder)
    hold = _take(folder, surely)
    name = os.path.abspath(folder)
    _held[name] = hold
    try:
        yield
    finally:
        if hold.has_file(folder):
            (folder / LOCK).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty: there is a run now
            for path in made:
                path.rmdir()
        _held.pop(name, None)
        hold.close()


def is_ours(folder: Path) -> bool:
    """Whether a folder that we have locked is still the one, and nobody else came in."""
    hold = _held.get(os.path.abspath(folder))
    return hold is None or hold.stands(folder)


def check_ours(folder: Path) -> None:
    """Stop before anything is written to a folder that is no longer ours."""
    if not is_ours(folder):
        raise Refused(
            f"{folder}: its {LOCK} was removed, or the folder replaced, while we were training "
            "there, so that another process may be; stopped without writing any more; see that "
            "only one trains there, and go on with --resume"
        )


@dataclass(frozen=True)
class _Hold:
    """A lock on a file in the folder, and one on the folder itself, which nobody can remove."""

    file: int
    place: int
    firm: bool  # whether the file system could lock the folder itself

    def has_file(self, folder: Path) -> bool:
        """Whether the file is still the one that we locked."""
        return same_file(self.file, folder / LOCK)

    def stands(self, folder: Path) -> bool:
        """Whether nobody else can have come in."""
        gone = self.firm and not (folder / LOCK).exists()  # a pity, but no harm
        return same_file(self.place, folder) and (gone or self.has_file(folder))

    def close(self) -> None:
        """Let go of both."""
        for descriptor in (self.file, self.place):
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _make(folder: Path) -> list[Path]:
    """Make a folder and those it is in; gives those that are new, the deepest first."""
    path = folder.absolute()
    try:
        made = [each for each in (path, *path.parents) if not each.exists()]
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        if problem.errno in FULL:
            raise
        raise InputError(f"{folder}: cannot be made ({problem.strerror})") from None
    return made


def _take(folder: Path, surely: bool) -> _Hold:
    place = os.open(folder, os.O_RDONLY)
    try:
        firm = _flock(place, folder)
        file, alone = _take_file(folder)
    except BaseException:
        os.close(place)
        raise
    hold = _Hold(file, place, firm)
    if surely and not (firm or alone):
        hold.close()
        raise Refused(f"{folder}: is on a file system without locks")
    return hold


def _take_file(folder: Path) -> tuple[int, bool]:
    while True:
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            alone = _flock(file, folder)
        except BaseException:
            os.close(file)
            raise
        if same_file(file, folder / LOCK):
            return file, alone
        os.close(file)  # its owner ended at this moment and removed it


def _flock(descriptor: int, folder: Path) -> bool:
    """Whether it could be locked; refused where another process has done so."""
    locked = try_lock(descriptor)
    if locked is False:
        raise Refused(
            f"{folder}: another process is training there, or reviews it; wait, or stop it"
        )
    return bool(locked)


_held: dict[str, _Hold] = {}


def _let_go() -> None:
    """A loader process must not keep the folder locked after a crash of the one that trains."""
    for hold in _held.values():
        hold.close()
    _held.clear()


os.register_at_fork(after_in_child=_let_go)
