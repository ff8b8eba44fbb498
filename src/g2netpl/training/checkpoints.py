"""Checkpoints: after every epoch, by the clock or by steps, and on a signal.

    checkpoints/PHASE-EPOCHS-STEPS.pt          everything; with several ranks rank 0's rows
    checkpoints/PHASE-EPOCHS-STEPS.rank1.pt    the pseudo-labels of the rows that rank 1 owns

Files are written to a temporary file and moved with `os.replace`, rank 0's last: a checkpoint
without it is incomplete. The two newest are kept: if the newest is damaged, the run resumes from
the other with a warning. They hold tensors and plain values only and are read with
`weights_only=True`. The number of ranks may change on resume.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import torch
from torch import Tensor

from g2netpl.core.algorithm import Batch
from g2netpl.runs.config import RunConfig
from g2netpl.runs.records import CHECKPOINTS, HISTORY, NON_FINITE, write_history
from g2netpl.training.trainer import Callback, Trainer
from g2netpl.utils import distributed
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import appending, atomic_write, friendly_os_errors
from g2netpl.utils.signals import Interrupts, Stopped

_KEPT = 2
_PER_ROW = ("method", "labels_before")  # what is saved by the rank that owns the rows


class Checkpointing(Callback):
    """Saves checkpoints and the history of a run; stops it when a signal asks for that."""

    def __init__(self, config: RunConfig, interrupts: Interrupts) -> None:
        self.folder, self.interrupts = Path(config.output), interrupts
        self.seconds, self.every = 60.0 * config.checkpoint_minutes, config.checkpoint_steps
        self._saved_at, self._steps = time.monotonic(), 0

    def on_step_end(self, trainer: Trainer, images: int) -> None:
        """Save if it is time; all ranks do the same after the same step."""
        self._steps += 1
        self._stop_if_wanted(trainer)
        is_due = 0 < self.seconds <= time.monotonic() - self._saved_at
        is_due |= self.every is not None and self._steps % self.every == 0
        if distributed.broadcast(is_due) and trainer.state.non_finite == 0:
            self._save(trainer)

    def on_epoch_end(self, trainer: Trainer) -> None:
        """Save."""
        self._save(trainer)
        if distributed.is_main():
            write_history(self.folder / HISTORY, trainer.state.history)
        self._stop_if_wanted(trainer)

    def on_non_finite(self, trainer: Trainer, batch: Batch, loss: float) -> None:
        """Log which images gave a loss that is not finite."""
        names = trainer.data.visible.images
        line: dict[str, Any] = {
            "epoch": trainer.epoch,
            "step": trainer.state.step,
            "cost": str(loss),
            "images": [names[row] for row in trainer.rows[batch.rows.cpu().numpy()]],
        }
        with appending(self.folder / NON_FINITE) as file:
            file.write(json.dumps(line).encode() + b"\n")

    def _stop_if_wanted(self, trainer: Trainer) -> None:
        """Save and stop if a signal asked any rank for it."""
        if distributed.any_rank(self.interrupts.wanted):
            self._save(trainer)
            raise Stopped(f"stopped and saved; {self.interrupts.advice}")

    def _save(self, trainer: Trainer) -> None:
        save_checkpoint(self.folder, trainer.state_dict(), len(trainer.data.training))
        self._saved_at = time.monotonic()


def save_checkpoint(folder: Path, state: Mapping[str, Any], images: int) -> None:
    """Write a state of the Trainer for a data set of so many training images."""
    moment = "{phase}-{finished:06d}-{step:08d}".format(**state["trainer"])
    shelf, rank = folder / CHECKPOINTS, distributed.rank()
    with friendly_os_errors(folder):
        shelf.mkdir(parents=True, exist_ok=True)
        if rank > 0:
            _write(shelf / f"{moment}.rank{rank}.pt", {key: state[key] for key in _PER_ROW})
        distributed.barrier()
        if rank == 0:
            ranks = distributed.size()
            _write(shelf / f"{moment}.pt", {**state, "ranks": ranks, "images": images})
            _tidy(shelf, moment)


def load_checkpoint(
    folder: Path, say: Callable[[str], None] = lambda line: None
) -> dict[str, Any] | None:
    """The newest complete checkpoint, with the rows that this rank owns; None if there is none."""
    problems = []
    for path in saved(folder):
        try:
            state = _read(path)
            if min(state["trainer"][key] for key in ("phase", "finished", "step")) < 0:
                raise ValueError("not a checkpoint of training")
            others = (path.with_suffix(f".rank{rank}.pt") for rank in range(1, state["ranks"]))
            states = [state, *map(_read, others)]
            parts = {
                key: own_rows([each[key] for each in states], state["images"]) for key in _PER_ROW
            }
        except Exception as problem:  # torch raises errors of every kind for damaged files
            problems.append(f"{path}: {(str(problem).splitlines() or ['damaged'])[0]:.200}")
            continue
        if problems:
            say(f"warning: resuming from {path}, since {'; '.join(problems)}")
        return {**state, **parts}
    if problems:
        raise InputError(
            f"no checkpoint can be read ({'; '.join(problems)}); start again with --overwrite"
        )
    return None


def saved(folder: Path) -> list[Path]:
    """The complete checkpoints of a run folder, the newest first."""
    paths = (folder / CHECKPOINTS).glob("*.pt")
    return sorted((path for path in paths if ".rank" not in path.name), reverse=True)


def own_rows(parts: Sequence[Any], count: int) -> Any:
    """What this rank owns of a nested state, from the states of all ranks that saved it.

    Tensors with a row per owned image are put together and divided again; everything else is the
    same on all ranks, and taken from the first.
    """
    first, ranks = parts[0], len(parts)
    if isinstance(first, Mapping):
        return {key: own_rows([part[key] for part in parts], count) for key in first}
    if not isinstance(first, Tensor) or ranks == distributed.size() == 1:
        return first
    owned = [np.arange(rank, count, ranks) for rank in range(ranks)]
    has_rows = first.ndim > 1 and [len(part) for part in parts] == [len(rows) for rows in owned]
    if not has_rows:
        return parts[distributed.rank()] if ranks == distributed.size() else first
    order = torch.from_numpy(np.argsort(np.concatenate(owned)))
    return torch.cat(list(parts))[order][torch.from_numpy(distributed.own_rows(count))]


def _write(path: Path, state: Mapping[str, Any]) -> None:
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
    paths = {path: path.name.split(".")[0] for path in shelf.glob("*.pt")}
    moments = sorted(set(paths.values()), reverse=True)
    kept = moments[moments.index(newest) :][:_KEPT]
    for path, moment in paths.items():
        if moment not in kept:
            path.unlink(missing_ok=True)
