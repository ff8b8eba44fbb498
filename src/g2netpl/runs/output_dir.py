"""Whether a command may write its results to a folder, and whether it may resume there."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from g2netpl.labels.files import Files, of_each
from g2netpl.runs.config import PATHS
from g2netpl.runs.records import RESULT, RESULTS, RUN, RUN_FORMAT, read_run, read_training
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import check_no_links, is_temporary, old_name, write_json
from g2netpl.utils.locks import LOCK, locked

_RESUMED = {"train": RESULT}  # commands with --resume, and their results
FREE_TO_CHANGE = {  # keys that may change when a run is resumed
    *("output", "workers", "cache", "device", "max_unreadable", "overlap"),
    *("checkpoint_minutes", "checkpoint_steps", "log_with"),
}


@contextmanager
def prepare_output_dir(folder: Path, command: str, *, overwrite: bool = False) -> Iterator[None]:
    """Make and lock a folder for results; one with content is rejected, or renamed."""
    check_output_dir(folder, command, overwrite=overwrite)
    set_aside(folder)
    with locked(folder):
        yield


def check_output_dir(
    folder: Path, command: str, *, overwrite: bool = False, inputs: Iterable[str] = ()
) -> None:
    """Reject a folder for results that has other content; nothing is touched.

    A folder that holds `inputs` of the command, or is the working folder, is not renamed.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; choose another --output")
    if is_empty(folder):
        return
    check_no_links(folder)
    try:
        is_ours = read_run(folder).get("command") == command
    except InputError:
        is_ours = False
    if not is_ours:
        raise InputError(
            f"{folder}: is not empty, and holds no run.json of 'g2netpl {command}'; choose another "
            "--output"
        )
    if not overwrite:
        content = "is not empty; choose another --output"
        if command in _RESUMED:
            content = f"holds an unfinished run of 'g2netpl {command}'; resume it with --resume"
            if (folder / _RESUMED[command]).is_file():
                content = f"holds a finished run of 'g2netpl {command}'; choose another --output"
        raise InputError(f"{folder}: {content}, or start again with --overwrite")
    for path in (os.curdir, *inputs):
        if Path(path).resolve().is_relative_to(folder.resolve()):
            raise InputError(
                f"{folder}: --overwrite would rename it, and {os.path.abspath(path)} is in it; "
                "choose another --output"
            )


def set_aside(folder: Path) -> None:
    """Rename a folder with old results to NAME.old-1 (-2, …)."""
    if not is_empty(folder):
        with locked(folder):  # rejected if another process works there
            pass
        folder.rename(old_name(folder))


def is_empty(folder: Path) -> bool:
    """Whether it is missing or empty, but for what a crash left."""
    names = (path.name for path in folder.iterdir()) if folder.is_dir() else ()
    return all(name == LOCK or is_temporary(name) for name in names)


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
    """Prepare the folder and write run.json; or check that it holds the same, to resume.

    `lists` are keys of comma-separated texts, to which more may be added.
    """
    if not resume:
        with prepare_output_dir(folder, command, overwrite=overwrite):
            write_json(folder / RUN, {"format": RUN_FORMAT, "command": command, **description})
            yield
        return
    read_run(folder)
    with locked(folder):
        _check_same(folder, command, description, lists)
        yield


def _check_same(
    folder: Path, command: str, description: dict[str, Any], lists: Sequence[str]
) -> None:
    """Reject other data or flags than a folder began with; lists may have become longer."""
    before, now = read_run(folder), json.loads(json.dumps(description))
    if before["command"] != command:
        by = before["command"]
        raise InputError(f"{folder}: was written by 'g2netpl {by}', not by {command}")
    changed = [key for key in now if (before.get(key) or None) != (now[key] or None)]
    other = [key for key in changed if key not in lists or not _grew(before[key], now[key])]
    if other:
        other = [key for key in other if key != "fingerprints"] or other  # flags explain them
        names = {"what": "WHAT", "label_format": "--format", "fingerprints": "content of the data"}
        flags = ", ".join(names.get(key, "--" + key.replace("_", "-")) for key in other)
        hint = " (more may be added behind)" if set(other) <= set(lists) else ""
        raise InputError(
            f"{folder}: other {flags} than it began with{hint}; choose another --output"
        )
    if changed:
        for name in RESULTS:  # they lack what was added
            (folder / name).unlink(missing_ok=True)
        write_json(folder / RUN, {**before, **now})


def _grew(before: str | None, now: str | None) -> bool:
    """Whether a comma-separated text became longer."""
    return f"{now},".startswith(f"{now if before is None else before},")


def check_unchanged(folder: Path, description: dict[str, Any]) -> str:
    """Reject another configuration or other data than the run began with.

    Returns which versions of packages differ, in words.
    """
    before, now = read_training(folder), json.loads(json.dumps(description))  # lists, as in a file
    began, config, data = before["config"], now["config"], before["data"]
    changed = sorted(
        key
        for key in config.keys() - FREE_TO_CHANGE
        if began.get(key) != config[key]
        and (key not in PATHS or _relative(began, key) != _relative(config, key))
    )
    old, new = data["fingerprints"], now["data"]["fingerprints"]
    changed += [f"the {split} labels" for split in new if old.get(split) != new[split]]
    changed += ["the classes"] if before["classes"] != now["classes"] else []
    changed += ["the weights of the backbone"] if before["weights"] != now["weights"] else []
    if data["earlier_model"] != now["data"]["earlier_model"]:
        changed.append("the model of the earlier run")
    if changed:
        raise InputError(
            f"{folder}: changed since the run began: {', '.join(changed)}; start a new run"
        )
    was, versions = before["versions"], now["versions"]
    return ", ".join(
        f"{name} {was.get(name)} → {versions[name]}"
        for name in versions
        if was.get(name) != versions[name]
    )


def _relative(config: dict[str, Any], key: str) -> Files | None:
    """A path relative to the run folder, with which it may have moved."""
    paths, folder = config.get(key), config.get("output")
    if not (isinstance(paths, str | list) and isinstance(folder, str)):
        return None

    def relative(path: str) -> str:
        both_absolute = os.path.isabs(path) and os.path.isabs(folder)
        same_drive = os.path.splitdrive(path)[0] == os.path.splitdrive(folder)[0]
        return os.path.relpath(path, folder) if both_absolute and same_drive else path

    return of_each(paths, relative)
