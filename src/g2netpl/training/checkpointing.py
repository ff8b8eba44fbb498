"""When checkpoints are saved: after every epoch, by the clock or by steps, and on a signal."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from g2netpl.core.algorithm import Batch
from g2netpl.runs.config import RunConfig
from g2netpl.runs.folder import HISTORY, NON_FINITE
from g2netpl.runs.records import write_history
from g2netpl.training.checkpoints import save_checkpoint
from g2netpl.training.trainer import Callback, Trainer
from g2netpl.utils import distributed
from g2netpl.utils.files import appending
from g2netpl.utils.signals import Interrupts, Stopped


class Checkpointing(Callback):
    """Saves checkpoints and the history of a run; stops it when a signal asks for that."""

    def __init__(self, config: RunConfig, interrupts: Interrupts) -> None:
        self.folder, self.interrupts = Path(config.output), interrupts
        self.seconds, self.every = 60.0 * config.checkpoint_minutes, config.checkpoint_steps
        self._saved_at, self._steps = time.monotonic(), 0
        self._saved: tuple[int, int, int] | None = None  # the moment of the newest checkpoint

    @contextmanager
    def saving(self, trainer: Trainer) -> Iterator[None]:
        """Inside, a signal that stops the training saves a checkpoint first."""
        try:
            yield
        except Stopped:
            raise self._stopped(trainer) from None

    def on_step_end(self, trainer: Trainer, images: int) -> None:
        """Save if it is time; all ranks do the same after the same step."""
        self._steps += 1
        if distributed.any_rank(self.interrupts.wanted):
            raise self._stopped(trainer)
        if distributed.broadcast(self._is_due()) and trainer.state.non_finite == 0:
            self._save(trainer)

    def on_epoch_end(self, trainer: Trainer) -> None:
        """Save."""
        self._save(trainer)
        if distributed.is_main():
            write_history(self.folder / HISTORY, trainer.state.history)

    def on_non_finite(self, trainer: Trainer, batch: Batch, loss: float) -> None:
        """Log which images gave a loss that is not finite."""
        names = trainer.data.visible.images
        rows = trainer.rows[batch.rows.cpu().numpy()]
        line: dict[str, Any] = {
            "epoch": trainer.phase.first_epoch + trainer.state.finished + 1,
            "step": trainer.state.step,
            "cost": str(loss),
            "images": [names[row] for row in rows],
        }
        with appending(self.folder / NON_FINITE) as file:
            file.write(json.dumps(line).encode() + b"\n")

    def _is_due(self) -> bool:
        by_steps = self.every is not None and self._steps % self.every == 0
        return by_steps or 0 < self.seconds <= time.monotonic() - self._saved_at

    def _save(self, trainer: Trainer) -> None:
        state = trainer.state
        moment = (state.phase, state.finished, state.step)
        if moment != self._saved and (state.finished or state.step):
            save_checkpoint(self.folder, trainer.state_dict(), len(trainer.data.training))
            self._saved = moment
        self._saved_at = time.monotonic()

    def _stopped(self, trainer: Trainer) -> Stopped:
        self._save(trainer)
        how = "stopped" if self._saved is None else "stopped and saved"
        return Stopped(f"{how}; {self.interrupts.advice}")
