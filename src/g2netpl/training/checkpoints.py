"""Checkpoints: one file per rank, written to a temporary file and moved with `os.replace`.

    checkpoints/PHASE-EPOCHS-STEPS.pt          everything; with several ranks rank 0's rows
    checkpoints/PHASE-EPOCHS-STEPS.rank1.pt    the pseudo-labels of the rows that rank 1 owns

Rank 0 writes last, so a checkpoint without its file is incomplete. The two newest are kept: if the
newest is damaged, the run resumes from the other with a warning. The files hold tensors and plain
values only and are read with `weights_only=True`. The number of ranks may change on resume.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import torch
from torch import Tensor

from g2netpl.runs.folder import CHECKPOINTS
from g2netpl.utils import distributed
from g2netpl.utils.errors import UserError
from g2netpl.utils.files import atomic_write, friendly_os_errors

_KEPT = 2


class NoCheckpoint(UserError):
    """No checkpoint can be read."""


def save_checkpoint(folder: Path, state: Mapping[str, Any], images: int) -> None:
    """Write a state of the Trainer for a data set of so many training images."""
    trainer = state["trainer"]
    moment = "{phase}-{finished:06d}-{step:08d}".format(**trainer)
    shelf = folder / CHECKPOINTS
    rank, size = distributed.rank(), distributed.size()
    with friendly_os_errors(folder):
        if rank > 0:
            rows = {key: state[key] for key in ("method", "labels_before")}
            _write(shelf / f"{moment}.rank{rank}.pt", rows)
        distributed.barrier()
        if rank == 0:
            whole = {**state, "ranks": size, "images": images}
            _write(shelf / f"{moment}.pt", whole)
            _tidy(shelf, moment)


def load_checkpoint(
    folder: Path, say: Callable[[str], None] = lambda line: None
) -> dict[str, Any] | None:
    """The newest complete checkpoint, with the rows that this rank owns; None if there is none."""
    problems = []
    for path in saved(folder):
        try:
            state = _read(path)
            parts = [path.with_suffix(f".rank{rank}.pt") for rank in range(1, state["ranks"])]
            others = [_read(part) for part in parts]
        except Exception as problem:  # torch raises errors of every kind for damaged files
            problems.append(f"{path}: {(str(problem).splitlines() or ['damaged'])[0]:.200}")
            continue
        if problems:
            say(f"warning: resuming from {path}, since {'; '.join(problems)}")
        for key in ("method", "labels_before"):
            state[key] = own_rows([each[key] for each in (state, *others)], state["images"])
        return state
    if problems:
        raise NoCheckpoint(f"no checkpoint can be read ({'; '.join(problems)})")
    return None


def saved(folder: Path) -> list[Path]:
    """The complete checkpoints of a run folder, the newest first."""
    found = (folder / CHECKPOINTS).glob("*.pt")
    return sorted((path for path in found if ".rank" not in path.name), reverse=True)


def remove_checkpoints(folder: Path) -> None:
    """A finished run needs none."""
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)


def own_rows(parts: Sequence[Any], count: int) -> Any:
    """What this rank owns of a nested state, from the states of all ranks that saved it.

    Tensors with a row per owned image are put together and divided again; everything else is the
    same on all ranks, and taken from the first.
    """
    first = parts[0]
    if isinstance(first, Mapping):
        return {key: own_rows([part[key] for part in parts], count) for key in first}
    ranks = len(parts)
    if not isinstance(first, Tensor) or ranks == distributed.size() == 1:
        return first
    owned = [np.arange(rank, count, ranks) for rank in range(ranks)]
    if first.ndim < 2 or any(
        len(part) != len(rows) for part, rows in zip(parts, owned, strict=True)
    ):
        return parts[distributed.rank()] if ranks == distributed.size() else first
    whole = first.new_empty((count, *first.shape[1:]))
    for part, rows in zip(parts, owned, strict=True):
        whole[torch.from_numpy(rows)] = part
    return whole[torch.from_numpy(distributed.own_rows(count))]


def _write(path: Path, state: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        torch.save(state, file)


def _read(path: Path) -> dict[str, Any]:
    with ZipFile(path) as archive:  # torch.load does not compare the checksums
        damaged = archive.testzip()
    if damaged is not None:
        raise ValueError(f"{damaged} is damaged")
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


def _tidy(shelf: Path, newest: str) -> None:
    """Remove all but this checkpoint and the newest before it."""
    moments = sorted({path.name.split(".")[0] for path in shelf.glob("*.pt")}, reverse=True)
    kept = moments[moments.index(newest) :][:_KEPT]
    for path in shelf.glob("*.pt"):
        if path.name.split(".")[0] not in kept:
            path.unlink(missing_ok=True)
