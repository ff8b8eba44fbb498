"""Save and load: safetensors for tensors, JSON for the rest, a SHA-256 for each file. No pickle.

A checkpoint is a folder `checkpoints/EPOCHS-STEPS` that appears under its name only when it is
complete and on the disk; older ones than the last three are removed only after that. Each holds
all a training needs, the best network so far included.
"""

import hashlib
import json
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as bytes_from_tensors
from torch import Tensor

from g2netpl.base.disk import rename_durably, told_plainly
from g2netpl.base.errors import UserError
from g2netpl.base.files import replace_file, sync_folder
from g2netpl.runs.folder import CHECKPOINTS
from g2netpl.training.snapshots import Snapshot, State, is_finite

KEPT = 3
_STATES = ("network", "learner", "best_network", "player")  # and the optimizer
_FIGURES = (
    *("finished", "step", "cost", "images", "seconds", "non_finite", "averaged"),
    *("best_epoch", "best_map", "history", "converged"),
)


class NoCheckpoint(UserError):
    """There should be a checkpoint, but none can be loaded."""

    exit_code = 4


def save_checkpoint(folder: Path, snapshot: Snapshot, phase: int) -> bool:
    """Write a snapshot durably beside those before, and remove all but the last three.

    A network that is no longer made of numbers is not written, which is told by False: the one
    before is worth more.
    """
    if not is_finite(snapshot.network):
        return False
    shelf = folder / CHECKPOINTS
    target = shelf / f"{phase}-{snapshot.finished:06d}-{snapshot.step:08d}"
    while target.exists():  # the same moment, saved before a resume
        target = target.with_name(target.name + "+")
    temporary = shelf / "new"
    with told_plainly(folder, _snapshot_bytes(snapshot)):
        if not shelf.is_dir():
            shelf.mkdir(parents=True)
            sync_folder(folder)
        shutil.rmtree(temporary, ignore_errors=True)  # what a crash left
        try:
            temporary.mkdir()
            _write(temporary, snapshot, phase)
            rename_durably(temporary, target)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)  # a full disk needs its space back
            raise
        _tidy(folder, target)
    return True


def _write(folder: Path, snapshot: Snapshot, phase: int) -> None:
    """The files of a checkpoint, the manifest last."""
    optimizer, rest = _flat_optimizer(snapshot.optimizer)
    digests = {}
    for name, state in {**_states(snapshot), "optimizer": optimizer}.items():
        content = bytes_from_tensors(_plain(state))
        digests[name] = hashlib.sha256(content).hexdigest()
        replace_file(folder / f"{name}.safetensors", content)
    manifest: dict[str, Any] = {"phase": phase, "optimizer_rest": rest, "sha256": digests}
    manifest |= {name: getattr(snapshot, name) for name in _FIGURES}
    manifest["own_sha256"] = _own_digest(manifest)
    replace_file(folder / "manifest.json", json.dumps(manifest, indent=2).encode())


def _tidy(folder: Path, newest: Path) -> None:
    """Keep the newest and the two before it.

    A later one than the newest can only be one that was damaged, so that we went on without it.
    """
    there = saved(folder)
    kept = there[there.index(newest) :][:KEPT]
    for path in newest.parent.iterdir():
        if path not in kept:
            shutil.rmtree(path, ignore_errors=True)


def load_checkpoint(
    folder: Path,
    accept: Callable[[Snapshot], None] = lambda snapshot: None,
    warn: Callable[[str], None] = lambda text: None,
) -> tuple[Snapshot, int] | None:
    """The newest whole checkpoint of a run folder and its phase; None if nothing was ever saved.

    `accept` may refuse one with a ValueError, such as for a file beside it that is damaged.
    """
    problems = []
    for path in saved(folder):
        try:
            snapshot, phase = _load(path)
            accept(snapshot)
        except (
            *(OSError, ValueError, KeyError, TypeError, AttributeError),
            *(RecursionError, SafetensorError),
        ) as problem:
            problems.append(f"{path}: {problem}")
            continue
        if problems:
            warn(f"warning: going on from {path}, since {'; '.join(problems)}")
        return snapshot, phase
    if problems:
        raise NoCheckpoint(
            f"no checkpoint can be loaded ({'; '.join(problems)}); nothing was changed"
        )
    return None


def remove_checkpoint(folder: Path) -> None:
    """A finished run needs none."""
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)


class Writer:
    """Saves in the background, one after the other; of those that wait only the newest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.has_saved = False
        self._waiting: tuple[Snapshot, int] | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._problem: BaseException | None = None

    @property
    def is_busy(self) -> bool:
        """Whether something is being written."""
        return self._thread is not None

    def submit(self, snapshot: Snapshot, phase: int) -> None:
        """Write this snapshot soon; it must not be changed any more."""
        self.check()
        with self._lock:
            self._waiting = (snapshot, phase)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, daemon=True)
                self._thread.start()

    def check(self) -> None:
        """Raise what went wrong in the background."""
        with self._lock:
            problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def settle(self) -> None:
        """Wait until nothing is being written any more."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def finish(self) -> None:
        """Wait until everything is on the disk; what went wrong is raised here."""
        self.settle()
        self.check()

    def _write(self) -> None:
        while True:
            with self._lock:
                job, self._waiting = self._waiting, None
                if job is None:
                    self._thread = None
                    return
            try:
                if save_checkpoint(self.folder, *job):
                    self.has_saved = True
            except BaseException as problem:
                with self._lock:
                    self._problem, self._waiting, self._thread = problem, None, None
                return


def save_state(path: Path, state: State) -> None:
    """Write tensors as safetensors; the file is there whole or not at all."""
    replace_file(path, bytes_from_tensors(_plain(state)))


def saved(folder: Path) -> list[Path]:
    """The complete checkpoints of a run folder, the newest first."""
    shelf = folder / CHECKPOINTS
    if not shelf.is_dir():
        return []
    return sorted((path for path in shelf.iterdir() if path.name[0].isdigit()), reverse=True)


def _load(path: Path) -> tuple[Snapshot, int]:
    manifest: dict[str, Any] = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    if manifest.pop("own_sha256") != _own_digest(manifest):
        raise ValueError("manifest.json is damaged")
    manifest.setdefault("averaged", 0)  # as before there were averages
    states: dict[str, Any] = {}
    for name in (*_STATES, "optimizer"):
        if name == "learner" and name not in manifest["sha256"]:  # nothing is averaged
            continue
        content = (path / f"{name}.safetensors").read_bytes()
        if hashlib.sha256(content).hexdigest() != manifest["sha256"][name]:
            raise ValueError(f"{name}.safetensors is damaged")
        states[name] = tensors_from_bytes(content)
    snapshot = Snapshot(
        optimizer=_nested_optimizer(states.pop("optimizer"), manifest["optimizer_rest"]),
        **states,
        **{name: manifest[name] for name in _FIGURES},
    )
    return snapshot, manifest["phase"]


def _own_digest(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _flat_optimizer(state: dict[str, Any]) -> tuple[State, dict[str, Any]]:
    """The tensors by `NUMBER.KEY`, and the rest, which JSON can hold."""
    flat: State = {}
    numbers: dict[str, dict[str, Any]] = {}
    for parameter, values in state.get("state", {}).items():
        for key, value in values.items():
            if isinstance(value, Tensor):
                flat[f"{parameter}.{key}"] = value
            else:
                numbers.setdefault(str(parameter), {})[key] = value
    others = {key: value for key, value in state.items() if key != "state"}
    return flat, {**others, "numbers": numbers}


def _nested_optimizer(flat: State, rest: dict[str, Any]) -> dict[str, Any]:
    state: dict[int, dict[str, Any]] = {}
    for name, value in flat.items():
        parameter, _, key = name.partition(".")
        state.setdefault(int(parameter), {})[key] = value
    for parameter, values in rest["numbers"].items():
        state.setdefault(int(parameter), {}).update(values)
    return {"state": state, **{key: value for key, value in rest.items() if key != "numbers"}}


def _plain(state: State) -> State:
    """The tensors in main memory; those that share it are copied, as tied weights do."""
    plain, seen = {}, set()
    for name, value in state.items():
        own = value.detach().cpu().contiguous()
        place = own.untyped_storage().data_ptr()
        plain[name] = own.clone() if place in seen else own
        seen.add(place)
    return plain


def _snapshot_bytes(snapshot: Snapshot) -> int:
    moments, _ = _flat_optimizer(snapshot.optimizer)
    return sum(map(bytes_of, (moments, *_states(snapshot).values())))


def _states(snapshot: Snapshot) -> dict[str, State]:
    """By name; the learner where there is an average of it."""
    states = {name: getattr(snapshot, name) for name in _STATES}
    return {name: state for name, state in states.items() if state or name != "learner"}


def bytes_of(state: Mapping[str, Tensor]) -> int:
    """What tensors take."""
    return sum(value.numel() * value.element_size() for value in state.values())
