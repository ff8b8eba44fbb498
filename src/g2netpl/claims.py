"""Whose a folder of results is: whether a command may write there, clear it, or go on in it."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from g2netpl.config import RunConfig
from g2netpl.disk import LOCK, locked, write_json
from g2netpl.errors import InputError, Refused
from g2netpl.run_files import RUN_FORMAT, read_run, read_training


def claim_folder(folder: Path, command: str, *, overwrite: bool = False) -> None:
    """Make a folder for results. One with content is refused, or cleared of what we wrote there.

    Only files that this command writes are ever removed, and only beside a run.json of its own.
    """
    check_folder(folder, command, overwrite=overwrite)
    cells = _cells(folder, command)
    for cell in cells:
        with locked(cell):  # refused where somebody trains
            pass
    for cell in cells:
        _clear(cell, "train")
        cell.rmdir()
    if folder.is_dir():
        _clear(folder, command)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError(f"{folder}: cannot be made ({problem.strerror})") from None


def check_folder(folder: Path, command: str, *, overwrite: bool = False) -> None:
    """Whether results may be written there; nothing is touched."""
    if folder.exists() and not folder.is_dir():
        raise Refused(f"{folder}: is a file; choose another --output")
    if not is_empty(folder):
        ours = _is_of(folder, command)
        if not overwrite and ours and command in _RESUMED:
            what, result = _RESUMED[command]
            if (folder / result).is_file():
                state, advice = "is finished", "choose another --output"
            else:
                state, advice = "is not finished", "go on with --resume"
            raise Refused(
                f"{folder}: holds a {what} that {state}; {advice}, or begin anew with --overwrite"
            )
        if not overwrite:
            raise Refused(f"{folder}: is not empty; choose another --output, or give --overwrite")
        if not ours:
            raise Refused(
                f"{folder}: holds no run.json of 'g2netpl {command}', so --overwrite does not "
                "touch it; choose another --output"
            )
        for cell in _cells(folder, command):
            for name in sorted(path.name for path in cell.iterdir()):
                if name.removesuffix(".new") not in _OF_CELL:
                    raise Refused(
                        f"{cell / name}: not of the comparison, so --overwrite does not touch it; "
                        "move it away"
                    )


def is_empty(folder: Path) -> bool:
    """Whether there is nothing in it, or it is not there; what a crash left does not count."""
    left = {LOCK, "run.json.new"}
    return not folder.is_dir() or all(path.name in left for path in folder.iterdir())


def _is_of(folder: Path, command: str) -> bool:
    """Whether a folder was written by this command."""
    try:
        return read_run(folder).get("command") == command
    except InputError:
        return False


def _cells(folder: Path, command: str) -> list[Path]:
    """The run folders that a comparison on images made, by their names and what is in them."""
    if command != "compare":
        return []
    found = sorted((folder / "runs").glob("* seed * rate * batch *"))
    return [path for path in found if _is_of(path, "train")]


def _clear(folder: Path, command: str) -> None:
    """Remove what the command writes; run.json last, without it nobody knows whose the rest is."""
    from g2netpl.checkpoints import remove_checkpoint

    for name in (*_FILES[command], "run.json"):
        with suppress(NotADirectoryError):
            (folder / f"{name}.new").unlink(missing_ok=True)  # of a process that was killed
            if name != "run.json":
                (folder / name).unlink(missing_ok=True)
    if command == "train":
        remove_checkpoint(folder)
    for name in _FOLDERS.get(command, ()):
        with suppress(OSError):  # there are other things in it
            (folder / name).rmdir()
    (folder / "run.json").unlink(missing_ok=True)


def begin_or_resume(
    folder: Path,
    command: str,
    description: dict[str, Any],
    *,
    resume: bool,
    overwrite: bool,
    lists: Sequence[str] = (),
) -> None:
    """Claim the folder and write run.json; or see that it holds the same, to go on with.

    `lists` are keys of comma-separated texts, to which more may have been added.
    """

    if not resume:
        claim_folder(folder, command, overwrite=overwrite)
        write_json(folder / "run.json", {"format": RUN_FORMAT, "command": command, **description})
        return
    before = read_run(folder)
    if before.get("command") != command:
        raise InputError(
            f"{folder}: was written by 'g2netpl {before.get('command')}', not by {command}"
        )
    now = json.loads(json.dumps(description))
    before.setdefault("fingerprints", now.get("fingerprints"))  # an older version wrote none
    changed = [key for key in now if (before.get(key) or None) != (now[key] or None)]
    grown = [key for key in changed if key in lists and _has_grown(before.get(key), now[key])]
    changed = [key for key in changed if key not in grown]
    if grown and not changed:
        for name in _RESULTS:  # they are of less than there will be
            (folder / name).unlink(missing_ok=True)
        write_json(folder / "run.json", {**before, **now})
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


_RESULTS = ("results.json", "results.md", "results.csv")
_SPLIT = ("labels/train.csv", "labels/test.csv")
_FILES = {
    "train": (
        *("history.jsonl", "nonsense.jsonl", "diverged.json", "model.safetensors"),
        *("soft_labels.npy", "predictions.npy", "labels.npz", "decided.jsonl", "decisions.json"),
        *("result.json", "evaluation.json", "scores.npz", "report.html", "trackers.json"),
    ),
    "compare": (*_RESULTS, "cells.jsonl", "report.html", *_SPLIT),
    "reproduce": ("cells.jsonl", "index.html", *_SPLIT),
    "demo": ("result.json", "report.html", "cells.jsonl", "comparison.html"),
    "features": ("train.npz", "test.npz", "meta.npz"),
    "plan": ("plan.json", "plan.txt", "curve.csv", "curve.png"),
}
_FOLDERS = {"compare": ("runs", "labels"), "reproduce": ("labels",)}
_RESUMED = {"train": ("training", "result.json"), "compare": ("comparison", "results.json")}
_OF_CELL = {*_FILES["train"], "run.json", LOCK, "checkpoints", "labels"}


_FREE_TO_CHANGE = {
    *("output", "workers", "cache", "device", "max_bad", "image_cache"),
    *("checkpoint_minutes", "checkpoint_steps", "track"),
}


def _defaults() -> dict[str, Any]:
    fields = RunConfig.model_fields.items()
    return {key: field.get_default(call_default_factory=True) for key, field in fields}


def check_same_training(
    folder: Path, config: RunConfig, fingerprints: dict[str, str] | None, free: set[str]
) -> None:
    """Refuse to stand beside a run that was trained otherwise, but for the keys that are `free`."""
    before = read_training(folder)
    began = {**_defaults(), **before["config"]}
    now = json.loads(config.model_dump_json())
    keys = [k for k in now if k not in free | _FREE_TO_CHANGE and began.get(k) != now[k]]
    changed = ["--" + key.replace("_", "-") for key in keys]
    if not changed and fingerprints not in (None, before["data"]["fingerprints"]):
        changed = ["content of the label files"]
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
    compared = sorted(set(now["config"]) - _FREE_TO_CHANGE)
    began = {**_defaults(), **before["config"]}  # an older version wrote fewer keys
    changed = [key for key in compared if began.get(key) != now["config"][key]]
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
