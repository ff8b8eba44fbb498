"""Old results stand aside until new ones are worth keeping, and come back if they never are.

A folder of results goes through these states, each entered by one rename:

.moving     what is on its way, out or back; all that is beside it is old as well
.before     the old results, complete; what stands in their place is new
.replaced   the old results, which nobody needs any more

So a process may be killed at any moment: whoever opens the folder next finds out what to do.
"""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from threading import Lock

from g2netpl.base.disk import rename_durably, sync, sync_folder
from g2netpl.base.errors import Refused, UserError
from g2netpl.base.locks import is_ours, locked

MOVING, BEFORE, REPLACED = ".moving", ".before", ".replaced"

_RUN = "run.json"
RESULTS = ("results.json", "results.md", "results.csv")
_SPLIT = ("labels/train.csv", "labels/test.csv")
FILES = {
    "train": (
        *("history.jsonl", "non_finite.jsonl", "diverged.json", "model.safetensors"),
        "nonsense.jsonl",  # as an older version named it
        *("soft_labels.npy", "predictions.npy", "labels.npz", "decided.jsonl", "decisions.json"),
        *("result.json", "evaluation.json", "scores.npz", "report.html", "trackers.json"),
    ),
    "compare": (*RESULTS, "cells.jsonl", "report.html", *_SPLIT),
    "reproduce": ("cells.jsonl", "index.html", *_SPLIT),
    "demo": ("result.json", "report.html", "cells.jsonl", "comparison.html"),
    "features": ("train.npz", "test.npz", "meta.npz"),
    "plan": ("plan.json", "plan.txt", "curve.csv", "curve.png"),
}
_WHOLE_FOLDERS = {"train": ("checkpoints", "labels")}
_PATTERNS = {"train": ("tensorboard/events.out.tfevents.*",)}
_SHARED_FOLDERS = {  # others may keep things there
    "train": ("tensorboard",),
    "compare": ("runs", "labels"),
    "reproduce": ("labels",),
}


class Aside:
    """The old results of a folder, out of the way; without any, there is nothing to do."""

    def __init__(self, folder: Path, command: str) -> None:
        self.folder, self.command = folder, command
        self._lock = Lock()  # a checkpoint becomes durable in another thread
        if _has_some(folder):  # where nobody could be sure that their owner is gone
            _put_back(folder)
        self.waits = (folder / _RUN).is_file()
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
                    sync(self.folder / path, os.O_RDONLY)
        self.drop()

    def put_back(self) -> None:
        """Nothing came of what is new: the old results take their place again.

        Not where the folder has become another process's, nor on a disk that is gone: who opens
        it next will try again.
        """
        with self._lock, suppress(OSError):
            if self.waits and is_ours(self.folder):
                self.waits = False
                _put_back(self.folder)


def recover(folder: Path) -> None:
    """Put back what a process that is gone had set aside; one that is at work is left alone."""
    if _has_some(folder):
        with suppress(UserError, OSError), locked(folder, surely=True):
            _put_back(folder)
    if (folder / REPLACED).is_dir():
        shutil.rmtree(folder / REPLACED, ignore_errors=True)


def contents(folder: Path, command: str) -> list[Path]:
    """What the command wrote there, as paths below the folder; run.json comes first."""
    files = (each for name in FILES[command] for each in (name, f"{name}.new"))
    names = (*files, f"{_RUN}.new", *_WHOLE_FOLDERS.get(command, ()))
    found = [folder / name for name in (_RUN, *names)]
    for pattern in _PATTERNS.get(command, ()):
        found += sorted(folder.glob(pattern))
    found += cells(folder, command)
    return [path.relative_to(folder) for path in found if path.exists()]


def cells(folder: Path, command: str) -> list[Path]:
    """The run folders that a comparison on images made, by their names and what is in them."""
    if command != "compare":
        return []
    found = sorted((folder / "runs").glob("* seed * rate * batch *"))
    return [path for path in found if command_of(path) == "train"]


def command_of(folder: Path) -> str | None:
    """Which command wrote a folder, as its run.json has it."""
    try:
        content = json.loads((folder / _RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    found = content.get("command") if isinstance(content, dict) else None
    return found if isinstance(found, str) else None


def _has_some(folder: Path) -> bool:
    return any((folder / name).is_dir() for name in (MOVING, BEFORE))


def _set_aside(folder: Path, command: str) -> None:
    shutil.rmtree(folder / REPLACED, ignore_errors=True)  # of a process that was killed
    _move(folder, folder / MOVING, contents(folder, command))
    rename_durably(folder / MOVING, folder / BEFORE)
    _tidy(folder, command)


def _put_back(folder: Path) -> None:
    before, moving = folder / BEFORE, folder / MOVING
    command = command_of(before) or command_of(moving) or command_of(folder)
    if command not in FILES:
        raise Refused(f"{folder}: has {MOVING} or {BEFORE} of an unknown command; look at it")
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
        (origin / path).rename(target / path)
    for each in {path.parent for path in paths}:
        sync_folder(target / each)
        sync_folder(origin / each)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _tidy(folder: Path, command: str) -> None:
    for name in _SHARED_FOLDERS.get(command, ()):
        with suppress(OSError):  # there are other things in it
            (folder / name).rmdir()
