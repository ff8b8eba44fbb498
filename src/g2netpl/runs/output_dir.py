"""Whether a command may write its results to a folder, and whether it may resume there."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from g2netpl.runs.config import is_path
from g2netpl.runs.records import RESULTS, RUN, RUN_FORMAT, read_run, read_training
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import check_no_links, is_temporary, old_name, write_json
from g2netpl.utils.locks import LOCK, locked

FREE_TO_CHANGE = {  # keys that may change when a run is resumed
    *("output", "workers", "cache", "device", "max_unreadable", "overlap"),
    *("checkpoint_minutes", "checkpoint_steps", "log_with"),
}


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
        resume = "resume it with --resume, " if command == "train" else ""
        raise InputError(
            f"{folder}: holds results of 'g2netpl {command}'; {resume}choose another --output, "
            "or start again with --overwrite"
        )
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
    """Lock the folder and write run.json; or check that it holds the same, to resume.

    `lists` are keys of comma-separated texts, to which more may be added.
    """
    if not resume:
        check_output_dir(folder, command, overwrite=overwrite)
        set_aside(folder)
    with locked(folder):
        if resume:
            _check_same(folder, command, description, lists)
        else:
            write_json(folder / RUN, {"format": RUN_FORMAT, "command": command, **description})
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
        names = {"fingerprints": "content of the data"}
        what = ", ".join(names.get(key, key.replace("_", " ")) for key in other)
        raise InputError(f"{folder}: was started with other {what}; choose another --output")
    if changed:
        for name in RESULTS:  # they lack what was added
            (folder / name).unlink(missing_ok=True)
        write_json(folder / RUN, {**before, **now})


def _grew(before: str | None, now: str | None) -> bool:
    """Whether a comma-separated text became longer."""
    return f"{now},".startswith(f"{now if before is None else before},")


def check_unchanged(folder: Path, description: dict[str, Any]) -> str:
    """Reject another configuration or other data than the run began with.

    Files may have moved: their content is compared. Returns which versions of packages differ.
    """
    before, now = read_training(folder), json.loads(json.dumps(description))  # lists, as in a file
    began, config, data, new_data = before["config"], now["config"], before["data"], now["data"]
    changed = sorted(
        key
        for key in config.keys() - FREE_TO_CHANGE
        if began.get(key) != config[key]
        and not (is_path(key, began.get(key)) and is_path(key, config[key]))
    )
    old, new = data["fingerprints"], new_data["fingerprints"]
    changed += [f"the {split} labels" for split in new if old.get(split) != new[split]]
    changed += ["the classes"] if before["classes"] != now["classes"] else []
    changed += ["the weights of the backbone"] if before["weights"] != now["weights"] else []
    if data["earlier_model"] != new_data["earlier_model"]:
        changed.append("the model of the earlier run")
    if changed:
        raise InputError(
            f"{folder}: changed since the run began: {', '.join(changed)}; start a new run"
        )
    versions = before["versions"]
    return ", ".join(
        f"{name} {versions.get(name)} → {version}"
        for name, version in now["versions"].items()
        if versions.get(name) != version
    )
