"""Save and load: safetensors for tensors, JSON for the rest, a SHA-256 for each file.

A checkpoint is a folder that appears under its name only when it is complete; the one before it is
removed only after that.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from g2netpl.errors import UserError
from g2netpl.fitting import Snapshot, State


class NoCheckpoint(UserError):
    """There should be a checkpoint, but none can be loaded."""

    exit_code = 4


def save_checkpoint(folder: Path, snapshot: Snapshot, phase: int) -> None:
    """Write a snapshot durably in place of the one before."""
    target, temporary, old = (
        folder / "checkpoint",
        folder / "checkpoint.new",
        folder / "checkpoint.old",
    )
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    optimizer, groups = _flat_optimizer(snapshot.optimizer)
    tensors = {
        "network": snapshot.network,
        "best_network": snapshot.best_network,
        "optimizer": optimizer,
        "player": snapshot.player,
    }
    for name, state in tensors.items():
        contiguous = {key: value.detach().cpu().contiguous() for key, value in state.items()}
        save_file(contiguous, temporary / f"{name}.safetensors")
    manifest = {
        "phase": phase,
        "finished": snapshot.finished,
        "best_epoch": snapshot.best_epoch,
        "best_map": snapshot.best_map,
        "converged": snapshot.converged,
        "history": snapshot.history,
        "optimizer_groups": groups,
        "sha256": {name: _sha256(temporary / f"{name}.safetensors") for name in tensors},
    }
    write_json(temporary / "manifest.json", manifest)
    for path in temporary.iterdir():
        _flush(path)
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    temporary.rename(target)
    _flush(folder)
    shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(folder: Path) -> tuple[Snapshot, int] | None:
    """The newest checkpoint of a run folder and its phase; None if nothing was ever saved."""
    candidates = [folder / "checkpoint", folder / "checkpoint.old"]
    present = [path for path in candidates if path.exists()]
    problems = []
    for path in present:
        try:
            return _load(path)
        except (OSError, ValueError, KeyError) as problem:
            problems.append(f"{path}: {problem}")
    if present:
        raise NoCheckpoint(
            f"no checkpoint can be loaded ({'; '.join(problems)}); nothing was changed"
        )
    return None


def remove_checkpoint(folder: Path) -> None:
    """A finished run needs none."""
    for name in ("checkpoint", "checkpoint.old", "checkpoint.new"):
        shutil.rmtree(folder / name, ignore_errors=True)


def save_state(path: Path, state: State) -> None:
    """Write tensors as safetensors."""
    save_file({key: value.contiguous() for key, value in state.items()}, path)
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)  # safetensors writes for the owner alone


def write_json(path: Path, content: Any) -> None:
    """Write JSON so that the file is either the old one or the complete new one."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    temporary.replace(path)


def _load(path: Path) -> tuple[Snapshot, int]:
    manifest = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    tensors = {}
    for name, digest in manifest["sha256"].items():
        file = path / f"{name}.safetensors"
        if _sha256(file) != digest:
            raise ValueError(f"{file.name} is damaged")
        tensors[name] = load_file(file)
    snapshot = Snapshot(
        finished=manifest["finished"],
        network=tensors["network"],
        optimizer=_nested_optimizer(tensors["optimizer"], manifest["optimizer_groups"]),
        player=tensors["player"],
        best_network=tensors["best_network"],
        best_epoch=manifest["best_epoch"],
        best_map=manifest["best_map"],
        history=manifest["history"],
        converged=manifest["converged"],
    )
    return snapshot, manifest["phase"]


def _flat_optimizer(state: dict[str, Any]) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    flat = {
        f"{parameter}.{key}": value
        for parameter, values in state["state"].items()
        for key, value in values.items()
        if isinstance(value, Tensor)
    }
    return flat, state["param_groups"]


def _nested_optimizer(flat: dict[str, Tensor], groups: list[dict[str, Any]]) -> dict[str, Any]:
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in flat.items():
        parameter, _, key = name.partition(".")
        state.setdefault(int(parameter), {})[key] = value
    return {"state": state, "param_groups": groups}


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
