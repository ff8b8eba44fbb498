"""When to save: after every epoch, by the clock or by steps, and when a signal asks for it."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from g2netpl.base.console import Console
from g2netpl.base.files import appending
from g2netpl.base.processes import Processes
from g2netpl.base.signals import Interrupts, Stopped
from g2netpl.game.batches import Batch
from g2netpl.game.player import LabelPlayer, take_up
from g2netpl.runs.config import RunConfig
from g2netpl.runs.folder import HISTORY, NON_FINITE
from g2netpl.training.checkpoints import Writer, load_checkpoint
from g2netpl.training.data import TrainingData
from g2netpl.training.progress import write_history
from g2netpl.training.snapshots import Snapshot

_SAVE, _STOP = 1, 2


class CheckpointSaver:
    """Watches a training and keeps it on the disk."""

    def __init__(
        self,
        config: RunConfig,
        data: TrainingData,
        interrupts: Interrupts,
        processes: Processes,
    ) -> None:
        self.folder, self.data = Path(config.output), data
        self.interrupts, self.processes = interrupts, processes
        self.seconds, self.every = 60.0 * config.checkpoint_minutes, config.checkpoint_steps
        self.writer = Writer(self.folder)
        self.phase = 0
        self._saved_at, self._steps = time.monotonic(), 0
        self._resting: Snapshot | None = None

    @property
    def hooks(self) -> dict[str, Any]:
        """What a `Loop` calls."""
        return {
            "on_step": self.step,
            "on_trained": self.trained,
            "on_non_finite": self.non_finite,
            "stepping": self.interrupts.noted,
        }

    def last(self, player: LabelPlayer, console: Console) -> tuple[Snapshot, int] | None:
        """The last checkpoint, which the player takes up, and its phase. The first rank chooses."""
        moment = (-1.0, -1.0)

        def accept(saved: Snapshot) -> None:
            if not self.processes.is_main and moment != (len(saved.history), saved.step):
                raise ValueError("is not the one that the first process has loaded")
            take_up(player, saved.player)

        found = None
        if self.processes.is_main:
            found = load_checkpoint(self.folder, accept, console.print)
        if found is not None:
            moment = (len(found[0].history), found[0].step)
            self.write_history(found[0])  # it may tell of an epoch that was not saved
        moment = (self.processes.broadcast(moment[0]), self.processes.broadcast(moment[1]))
        if not self.processes.is_main and moment[0] >= 0:
            found = load_checkpoint(self.folder, accept, console.print)
        return found

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Around a training: a stop is saved first, and any other end waits for what is written."""
        try:
            yield
        except Stopped:
            raise self.stopped() from None
        except Exception:
            self.writer.settle()
            raise

    def step(self, take: Callable[[], Snapshot]) -> None:
        """After a step; the ranks do the same at the same step."""
        self._steps += 1
        self.writer.check()
        due = self.processes.is_main and self._is_due()
        asked = _STOP if self.interrupts.wanted else _SAVE if due else 0
        agreed = self.processes.all_max(asked)
        if agreed:
            self._save(take())
        if agreed == _STOP:
            raise self.stopped()

    def trained(self, snapshot: Snapshot) -> None:
        """All steps of an epoch are done, and nothing is measured yet."""
        self._resting = snapshot
        if self.processes.all_max(int(self.interrupts.wanted)):
            raise self.stopped()

    def epoch(self, snapshot: Snapshot) -> None:
        """After an epoch."""
        with self.interrupts.noted():
            self._save(snapshot)
            self._resting = None

    def write_history(self, snapshot: Snapshot) -> None:
        """history.jsonl, by the first rank."""
        if self.processes.is_main:
            write_history(self.folder / HISTORY, snapshot.history)

    def stopped(self) -> Stopped:
        """Save what is not saved yet, and say how to go on."""
        if self._resting is not None:
            self._save(self._resting)
            self._resting = None
        self.writer.finish()
        how = "stopped and saved" if self.writer.has_saved else "stopped"
        return Stopped(f"{how}; {self.interrupts.advice}")

    def non_finite(self, epoch: int, batch: Batch, cost: float) -> None:
        """Note which images gave a cost that is not finite."""
        if self.processes.is_main:
            rows = self.data.training[batch.rows.cpu().numpy()]
            images = [self.data.table.images[row] for row in rows]
            line = {"epoch": epoch, "step": batch.number, "cost": str(cost), "images": images}
            with appending(self.folder / NON_FINITE) as file:
                file.write(json.dumps(line).encode() + b"\n")

    def _is_due(self) -> bool:
        if self.writer.is_busy:
            return False
        by_steps = self.every is not None and self._steps % self.every == 0
        return by_steps or 0 < self.seconds <= time.monotonic() - self._saved_at

    def _save(self, snapshot: Snapshot) -> None:
        self._saved_at = time.monotonic()
        if self.processes.is_main:
            self.writer.submit(snapshot, self.phase)
