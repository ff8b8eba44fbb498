"""One process at a time: a folder of results is locked, and its name is looked at again."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from g2netpl.base.disk import is_full
from g2netpl.base.errors import InputError, Refused
from g2netpl.base.files import check_no_links, open_in_place, remove_temporary
from g2netpl.base.system import OPEN_FILES_CAN_GO, after_fork, open_folder, try_lock

LOCK = ".lock"  # in a folder of results, while a process works there


def same_file(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one of that name: neither removed nor replaced."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


def open_place(folder: Path) -> int:
    """What to lock of a folder: itself, or its file for that where folders cannot be opened."""
    place = open_folder(folder)
    return _open_file(folder) if place is None else place


@contextlib.contextmanager
def locked(folder: Path, *, surely: bool = False) -> Iterator[None]:
    """Keep a run folder for ourselves; refused where another process has it.

    A folder that is not there is made, and removed again if it is left empty. A file system without
    locks will do, unless it has to be `surely`.
    """
    made = _make(folder)
    check_no_links(folder)
    hold = _take(folder, surely)
    name = os.path.abspath(folder)
    _held[name] = hold
    try:
        remove_temporary(folder)
        yield
    finally:
        is_ours = hold.has_file(folder)
        if not OPEN_FILES_CAN_GO:
            hold.close()
        with contextlib.suppress(OSError):  # another has it now; or not empty: there is a run
            if is_ours:
                (folder / LOCK).unlink(missing_ok=True)
            for path in made:
                path.rmdir()
        _held.pop(name, None)
        if OPEN_FILES_CAN_GO:
            hold.close()


@contextlib.contextmanager
def locked_without_file(folder: Path) -> Iterator[bool]:
    """Lock a folder of other people's files and leave nothing in it; refused if it is locked.

    Yields whether the file system could lock it.
    """
    descriptor = open_folder(folder)
    if descriptor is None:  # Windows: a file in the temporary folder of the user stands for it
        name = os.path.normcase(os.path.realpath(folder))
        digest = hashlib.sha256(os.fsencode(name)).hexdigest()
        path = Path(tempfile.gettempdir(), f"g2netpl-{digest[:32]}.lock")
        descriptor = open_in_place(path, os.O_RDWR | os.O_CREAT)
    try:
        is_locked = try_lock(descriptor)
        if is_locked is False:
            raise Refused(
                f"{folder}: another g2netpl process writes there; run this command again when it "
                "has ended"
            )
        yield bool(is_locked)
    finally:
        os.close(descriptor)


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
    place: int | None
    firm: bool  # whether the file system could lock the folder itself

    def has_file(self, folder: Path) -> bool:
        """Whether the file is still the one that we locked."""
        return same_file(self.file, folder / LOCK)

    def stands(self, folder: Path) -> bool:
        """Whether nobody else can have come in."""
        gone = self.firm and not (folder / LOCK).exists()  # a pity, but no harm
        is_there = self.place is None or same_file(self.place, folder)
        return is_there and (gone or self.has_file(folder))

    def close(self) -> None:
        """Let go of both."""
        for descriptor in (self.file, self.place):
            if descriptor is not None:
                with contextlib.suppress(OSError):
                    os.close(descriptor)


def _make(folder: Path) -> list[Path]:
    """Make a folder and those it is in; gives those that are new, the deepest first."""
    path = folder.absolute()
    try:
        made = [each for each in (path, *path.parents) if not each.exists()]
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        if is_full(problem):
            raise
        raise InputError(f"{folder}: cannot be made ({problem.strerror})") from None
    return made


def _take(folder: Path, surely: bool) -> _Hold:
    place = open_folder(folder)
    try:
        firm = place is not None and _lock(place, folder)
        file, alone = _take_file(folder)
    except BaseException:
        if place is not None:
            os.close(place)
        raise
    hold = _Hold(file, place, firm)
    if surely and not (firm or alone):
        hold.close()
        raise Refused(f"{folder}: is on a file system without locks")
    return hold


def _take_file(folder: Path) -> tuple[int, bool]:
    while True:
        file = _open_file(folder)
        try:
            alone = _lock(file, folder)
        except BaseException:
            os.close(file)
            raise
        if same_file(file, folder / LOCK):
            return file, alone
        os.close(file)  # its owner ended at this moment and removed it


def _open_file(folder: Path) -> int:
    return open_in_place(folder / LOCK, os.O_RDWR | os.O_CREAT)


def _lock(descriptor: int, folder: Path) -> bool:
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


after_fork(_let_go)
