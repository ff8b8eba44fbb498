"""Whose a folder of results is: whether a command may write there, clear it, or go on in it."""

import json
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from g2netpl.base.disk import write_json
from g2netpl.base.errors import InputError, Refused
from g2netpl.base.files import is_temporary
from g2netpl.base.locks import LOCK, locked
from g2netpl.images.identity import content_of
from g2netpl.labels.files import Files, of_each
from g2netpl.runs.backup import REPLACED, Backup
from g2netpl.runs.config import PATHS, RunConfig
from g2netpl.runs.folder import FILES, RESULT, RESULTS, RUN, WHOLE_FOLDERS, cells
from g2netpl.runs.records import RUN_FORMAT, read_run, read_training


@contextmanager
def claimed(folder: Path, command: str, *, overwrite: bool = False) -> Iterator[Backup]:
    """Make a folder for results; one with content is refused, or what we wrote there set aside.

    Only files that this command writes are ever touched, and only beside a run.json of its own.
    They are dropped where the work is done, or says so before, and put back where it fails. A
    training has locked its folder before; others do so here.
    """
    check_folder(folder, command, overwrite=overwrite)
    with nullcontext() if command == "train" else locked(folder):
        for cell in cells(folder, command):
            with locked(cell):  # refused where somebody trains
                pass
        backup = Backup(folder, command)
        try:
            yield backup
        except BaseException as problem:
            # after a second Ctrl-C a checkpoint may still be being written: whoever comes next does
            if command != "train" or not isinstance(problem, KeyboardInterrupt):
                backup.restore()
            raise
        backup.finish()


def check_folder(folder: Path, command: str, *, overwrite: bool = False) -> None:
    """Whether results may be written there; nothing is touched."""
    if folder.exists() and not folder.is_dir():
        raise Refused(f"{folder}: is a file; choose another --output")
    if is_empty(folder):
        return
    why = _untouchable(folder, command)
    if overwrite and why is not None:
        raise Refused(why)
    if not overwrite:
        anew = "" if why else ", or begin anew with --overwrite"
        raise Refused(f"{folder}: {_held(folder, command)}{anew}")


def _held(folder: Path, command: str) -> str:
    """What is in a folder, and where to write instead."""
    if not _is_of(folder, command):
        return f"is not empty, and not of 'g2netpl {command}'; choose another --output"
    if command not in _RESUMED:
        return "is not empty; choose another --output"
    what, result = _RESUMED[command]
    if (folder / result).is_file():
        return f"holds a {what} that is finished; choose another --output"
    return f"holds a {what} that is not finished; go on with --resume"


def _untouchable(folder: Path, command: str) -> str | None:
    """Why nothing in a folder may be replaced; None where it may."""
    if not _is_of(folder, command):
        return (
            f"{folder}: holds no run.json of 'g2netpl {command}', so --overwrite does not touch "
            "it; choose another --output"
        )
    for cell in cells(folder, command):
        for name in sorted(path.name for path in cell.iterdir()):
            if name not in _OF_CELL and not is_temporary(name):
                return (
                    f"{cell / name}: not of the comparison, so --overwrite does not touch it; "
                    "move it away"
                )
    return None


def is_empty(folder: Path) -> bool:
    """Whether there is nothing in it, or it is not there; what a crash left does not count."""
    names = (path.name for path in folder.iterdir()) if folder.is_dir() else ()
    return all(name in (LOCK, REPLACED) or is_temporary(name) for name in names)


def _is_of(folder: Path, command: str) -> bool:
    """Whether a folder was written by this command."""
    try:
        return read_run(folder).get("command") == command
    except InputError:
        return False


@contextmanager
def begin_or_resume(
    folder: Path,
    command: str,
    description: dict[str, Any],
    *,
    resume: bool,
    overwrite: bool,
    lists: Sequence[str] = (),
) -> Iterator[Backup | None]:
    """Claim the folder and write run.json; or see that it holds the same, to go on with.

    Gives the old results that stand aside meanwhile. `lists` are keys of comma-separated texts, to
    which more may have been added.
    """
    about = {"format": RUN_FORMAT, "command": command, **description}
    if not resume:
        with claimed(folder, command, overwrite=overwrite) as backup:
            write_json(folder / RUN, about)
            yield backup
    else:
        read_run(folder)
        with locked(folder):
            _check_same(folder, command, description, lists)
            yield None


def _check_same(
    folder: Path, command: str, description: dict[str, Any], lists: Sequence[str]
) -> None:
    """Refuse to go on with other data or flags than a folder began with, but for longer lists."""
    before = read_run(folder)
    if before.get("command") != command:
        raise InputError(
            f"{folder}: was written by 'g2netpl {before.get('command')}', not by {command}"
        )
    now = json.loads(json.dumps(description))
    if "fingerprints" in now:  # of which an older version wrote fewer or more
        known = before.get("fingerprints") or {}
        before["fingerprints"] = {k: known.get(k, v) for k, v in now["fingerprints"].items()}
    changed = [key for key in now if (before.get(key) or None) != (now[key] or None)]
    grown = [key for key in changed if key in lists and _has_grown(before.get(key), now[key])]
    changed = [key for key in changed if key not in grown]
    if grown and not changed:
        for name in RESULTS:  # they are of less than there will be
            (folder / name).unlink(missing_ok=True)
        write_json(folder / RUN, {**before, **now})
        return
    if changed:  # another flag explains another content
        changed = [key for key in changed if key != "fingerprints"] or changed
        names = {
            "what": "WHAT",
            "label_format": "--format",
            "fingerprints": "content of the data",
        }
        flags = ", ".join(names.get(key, "--" + key.replace("_", "-")) for key in changed)
        hint = " (more may be added behind)" if set(changed) <= set(lists) else ""
        raise Refused(f"{folder}: other {flags} than it began with{hint}; choose another --output")


def _has_grown(before: str | None, now: str) -> bool:
    """Whether a list of words begins with what it was; before there may have been none."""
    return not before or f"{now},".startswith(f"{before},")


_RESUMED = {"train": ("training", RESULT), "compare": ("comparison", "results.json")}
_OF_CELL = {*FILES["train"], RUN, LOCK, REPLACED, *WHOLE_FOLDERS["train"]}


FREE_TO_CHANGE = {  # when a folder is gone on with
    *("output", "workers", "cache", "device", "max_bad", "overlap"),
    *("checkpoint_minutes", "checkpoint_steps", "track"),
}


def _defaults() -> dict[str, Any]:
    fields = RunConfig.model_fields.items()
    return {key: field.get_default(call_default_factory=True) for key, field in fields}


def _changed_keys(
    began: dict[str, Any], now: dict[str, Any], free: Collection[str] = ()
) -> list[str]:
    """Keys with another value. Files that moved together with the run folder are the same."""
    compared = [key for key in now if key not in free and key not in FREE_TO_CHANGE]
    changed = [key for key in compared if began.get(key) != now[key]]
    return [key for key in changed if key not in PATHS or _way(began, key) != _way(now, key)]


def _way(config: dict[str, Any], key: str) -> Files | None:
    """How to come from the run folder to a file; what it holds is compared elsewhere."""
    paths, folder = config.get(key), config.get("output")
    if not (isinstance(paths, str | list) and isinstance(folder, str)):
        return None

    def way(path: str) -> str:
        known = os.path.isabs(path) and os.path.isabs(folder)
        same_drive = os.path.splitdrive(path)[0] == os.path.splitdrive(folder)[0]
        return os.path.relpath(path, folder) if known and same_drive else path

    return of_each(paths, way)


def check_same_training(
    folder: Path,
    config: RunConfig,
    fingerprints: dict[str, str] | None,
    paths: Sequence[str],
    free: set[str],
) -> None:
    """Refuse to stand beside a run that was trained otherwise, but for the keys that are `free`.

    `paths` are its pictures.
    """
    before = read_training(folder)
    began = {**_defaults(), **before["config"]}
    epochs = config.epochs_on(before["data"]["training_images"])
    whole = config.model_copy(update={"epochs": epochs, "output": os.path.abspath(folder)})
    now = json.loads(whole.model_dump_json())
    keys = _changed_keys(began, now, free)
    changed = ["--" + key.replace("_", "-") for key in keys]
    if not changed and fingerprints not in (None, before["data"]["fingerprints"]):
        changed = ["content of the label files"]
    pictures = before["data"].get("image_files")
    if not changed and pictures is not None:
        now_there, _ = content_of(paths, pictures, before["data"].get("image_stamps"))
        changed = ["content of the image files"] if now_there != pictures else []
    if changed:
        flags = ", ".join(changed)
        raise Refused(
            f"{folder.parent}: other {flags} than {folder.name} was trained with; choose another "
            "--output"
        )


def check_unchanged(folder: Path, description: dict[str, Any]) -> str:
    """Refuse to go on with another configuration or other data than the run began with.

    Gives what else is different, in words; nothing where nothing is.
    """
    before = read_training(folder)
    now = json.loads(json.dumps(description))  # tuples become lists, as in the file
    began = {**_defaults(), **before["config"]}  # an older version wrote fewer keys
    changed = sorted(_changed_keys(began, now["config"]))
    data, prints = before["data"], before["data"]["fingerprints"]
    for part, fingerprint in now["data"]["fingerprints"].items():
        if prints.get(part) != fingerprint:
            changed.append(f"the {part} labels")
    if before.get("classes") != now["classes"]:
        changed.append("the classes")
    for part in ("image_files", "backbone_weights", "earlier_network"):
        if data.get(part, now["data"][part]) != now["data"][part]:
            changed.append(f"the {part.replace('_', ' ')}")
    if changed:
        raise Refused(
            f"{folder}: changed since the run began: {', '.join(changed)}; start a new run"
        )
    versions = before.get("versions", {})
    other = [
        f"{n} {versions.get(n)} → {v}" for n, v in now["versions"].items() if versions.get(n) != v
    ]
    return ", ".join(other)
