"""A backup of old results, until new ones are worth keeping; else they come back.

A folder of results goes through these states, each entered by one rename:

.moving     what is on its way, out or back; all that is beside it is old as well
.before     the old results, complete; what stands in their place is new
.replaced   the old results, which nobody needs any more

So a process may be killed at any moment: whoever opens the folder next finds out what to do.
"""

import shutil
from contextlib import suppress
from pathlib import Path
from threading import Lock

from g2netpl.base.disk import rename_durably, sync
from g2netpl.base.errors import Refused, UserError
from g2netpl.base.files import sync_folder
from g2netpl.base.locks import is_ours, locked
from g2netpl.runs.folder import FILES, SHARED_FOLDERS, command_of, contents, is_begun

MOVING, BEFORE, REPLACED = ".moving", ".before", ".replaced"


class Backup:
    """The old results of a folder, out of the way; without any, there is nothing to do."""

    def __init__(self, folder: Path, command: str) -> None:
        self.folder, self.command = folder, command
        self._lock = Lock()  # a checkpoint becomes durable in another thread
        if _has_some(folder):  # where nobody could be sure that their owner is gone
            _restore(folder)
        self.waits = is_begun(folder)
        if self.waits:
            _set_aside(folder, command)

    def drop(self) -> None:
        """What is new is worth keeping: the old results go."""
        with self._lock:
            if self.waits:
                self.waits = False
                rename_durably(self.folder / BEFORE, self.folder / REPLACED)
                shutil.rmtree(self.folder / REPLACED, ignore_errors=True)

    def finish(self) -> None:
        """What is new is complete: it goes down to the disk, then the old results go."""
        if self.waits:
            for path in contents(self.folder, self.command):
                if (self.folder / path).is_file():
                    sync(self.folder / path)
        self.drop()

    def restore(self) -> None:
        """Nothing came of what is new: the old results take their place again.

        Not where the folder has become another process's, nor on a disk that is gone: who opens
        it next will try again.
        """
        with self._lock, suppress(OSError):
            if self.waits and is_ours(self.folder):
                self.waits = False
                _restore(self.folder)


def recover(folder: Path) -> None:
    """Put back what a process that is gone had set aside; one that is at work is left alone."""
    if _has_some(folder):
        with suppress(UserError, OSError), locked(folder, surely=True):
            _restore(folder)
    if (folder / REPLACED).is_dir():
        shutil.rmtree(folder / REPLACED, ignore_errors=True)


def _has_some(folder: Path) -> bool:
    return any((folder / name).is_dir() for name in (MOVING, BEFORE))


def _set_aside(folder: Path, command: str) -> None:
    shutil.rmtree(folder / REPLACED, ignore_errors=True)  # of a process that was killed
    _move(folder, folder / MOVING, contents(folder, command))
    rename_durably(folder / MOVING, folder / BEFORE)
    _tidy(folder, command)


def _restore(folder: Path) -> None:
    before, moving = folder / BEFORE, folder / MOVING
    command = command_of(before) or command_of(moving) or command_of(folder)
    if command not in FILES:
        raise Refused(f"{folder}: has {MOVING} or {BEFORE} of an unknown command; look at it")
    if before.is_dir() and not is_begun(before):  # run.json goes there first and leaves last
        raise Refused(f"{folder}: has a {BEFORE} without old results; look at it, and remove it")
    if before.is_dir():
        for path in contents(folder, command)[::-1]:
            _remove(folder / path)
        _tidy(folder, command)
        sync_folder(folder)
        rename_durably(before, moving)
    _move(moving, folder, contents(moving, command)[::-1])
    shutil.rmtree(moving, ignore_errors=True)  # folders that are empty now


def _move(origin: Path, target: Path, paths: list[Path]) -> None:
    target.mkdir(exist_ok=True)
    for path in paths:
        (target / path.parent).mkdir(parents=True, exist_ok=True)
        (origin / path).replace(target / path)
    for each in {path.parent for path in paths}:
        sync_folder(target / each)
        sync_folder(origin / each)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _tidy(folder: Path, command: str) -> None:
    for name in SHARED_FOLDERS.get(command, ()):
        with suppress(OSError):  # there are other things in it
            (folder / name).rmdir()
