"""Whether a command may write its results to a folder, and whether it may resume there."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from g2netpl.labels.files import Files, of_each
from g2netpl.runs.config import PATHS
from g2netpl.runs.folder import RESULT, RESULTS, RUN
from g2netpl.runs.records import RUN_FORMAT, read_run, read_training
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import check_no_links, is_temporary, old_name, write_json
from g2netpl.utils.locks import LOCK, locked


@contextmanager
def claimed(folder: Path, command: str, *, overwrite: bool = False) -> Iterator[None]:
    """Make and lock a folder for results; one with content is refused, or renamed."""
    check_folder(folder, command, overwrite=overwrite)
    set_aside(folder)
    with locked(folder):
        yield


def check_folder(
    folder: Path, command: str, *, overwrite: bool = False, inputs: Iterable[str] = ()
) -> None:
    """Whether results may be written there; nothing is touched.

    A folder that holds `inputs` of the command, or is the working folder, is not renamed.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; choose another --output")
    if is_empty(folder):
        return
    is_ours = _is_of(folder, command)
    if overwrite and not is_ours:
        raise InputError(
            f"{folder}: holds no run.json of 'g2netpl {command}', so --overwrite does not touch "
            "it; choose another --output"
        )
    if not overwrite:
        anew = ", or begin anew with --overwrite" if is_ours else ""
        raise InputError(f"{folder}: {_content_of(folder, command)}{anew}")
    for path in (os.curdir, *inputs):
        if Path(path).resolve().is_relative_to(folder.resolve()):
            raise InputError(
                f"{folder}: --overwrite would rename it, and {os.path.abspath(path)} is in it; "
                "choose another --output"
            )


def set_aside(folder: Path) -> None:
    """Rename a folder with old results to NAME.old-1 (-2, …)."""
    if is_empty(folder):
        return
    with locked(folder):  # refused if another process works there
        pass
    os.rename(folder, old_name(folder))


def _content_of(folder: Path, command: str) -> str:
    """What is in a folder, and where to write instead."""
    if not _is_of(folder, command):
        return f"is not empty, and not of 'g2netpl {command}'; choose another --output"
    if command not in _RESUMED:
        return "is not empty; choose another --output"
    what, result = _RESUMED[command]
    if (folder / result).is_file():
        return f"holds a {what} that is finished; choose another --output"
    return f"holds a {what} that is not finished; go on with --resume"


def is_empty(folder: Path) -> bool:
    """Whether there is nothing in it, or it is not there; what a crash left does not count."""
    names = (path.name for path in folder.iterdir()) if folder.is_dir() else ()
    return all(name == LOCK or is_temporary(name) for name in names)


def _is_of(folder: Path, command: str) -> bool:
    """Whether a folder was written by this command; a link in it is an InputError."""
    check_no_links(folder)
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
) -> Iterator[None]:
    """Claim the folder and write run.json; or see that it holds the same, to go on with.

    `lists` are keys of comma-separated texts, to which more may have been added.
    """
    about = {"format": RUN_FORMAT, "command": command, **description}
    if not resume:
        with claimed(folder, command, overwrite=overwrite):
            write_json(folder / RUN, about)
            yield
    else:
        read_run(folder)
        with locked(folder):
            _check_same(folder, command, description, lists)
            yield


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
        raise InputError(
            f"{folder}: other {flags} than it began with{hint}; choose another --output"
        )


def _has_grown(before: str | None, now: str) -> bool:
    """Whether a list of words begins with what it was; before there may have been none."""
    return not before or f"{now},".startswith(f"{before},")


_RESUMED = {"train": ("training", RESULT), "compare": ("comparison", "results.json")}

FREE_TO_CHANGE = {  # when a folder is gone on with
    *("output", "workers", "cache", "device", "max_unreadable", "overlap"),
    *("checkpoint_minutes", "checkpoint_steps", "log_with"),
}


def _changed_keys(began: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Keys with another value. Files that moved together with the run folder are the same."""
    compared = [key for key in now if key not in FREE_TO_CHANGE]
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


def check_unchanged(folder: Path, description: dict[str, Any]) -> str:
    """Refuse to go on with another configuration or other data than the run began with.

    Gives what else is different, in words; nothing where nothing is.
    """
    before = read_training(folder)
    now = json.loads(json.dumps(description))  # tuples become lists, as in the file
    began = before["config"]
    changed = sorted(_changed_keys(began, now["config"]))
    prints = before["data"]["fingerprints"]
    for part, fingerprint in now["data"]["fingerprints"].items():
        if prints.get(part) != fingerprint:
            changed.append(f"the {part} labels")
    if before.get("classes") != now["classes"]:
        changed.append("the classes")
    if before["weights"] != now["weights"]:
        changed.append("the weights of the backbone")
    if before["data"]["earlier_model"] != now["data"]["earlier_model"]:
        changed.append("the model of the earlier run")
    if changed:
        raise InputError(
            f"{folder}: changed since the run began: {', '.join(changed)}; start a new run"
        )
    versions = before.get("versions", {})
    other = [
        f"{n} {versions.get(n)} → {v}" for n, v in now["versions"].items() if versions.get(n) != v
    ]
    return ", ".join(other)
