"""Progress of a run on the console: a line for each epoch."""

from collections.abc import Mapping
from typing import Any

from g2netpl.training.trainer import Callback, Trainer
from g2netpl.utils.console import Console
from g2netpl.utils.progress import Work


def describe(record: Mapping[str, Any]) -> str:
    """One epoch in one line."""
    parts = [f"loss {record['cost']:.4f}"]
    for key, form in (
        ("validation_map", "mAP {:.1%}"),
        ("regret", "regret {:.3f}"),
        ("unresolved", "unresolved {:.0%}"),
        ("images_per_second", "{:.0f} images/s"),
    ):
        if record.get(key) is not None:
            parts.append(form.format(record[key]))
    return " · ".join(parts)


class Progress(Callback):
    """Shows the epochs of each phase on a console."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._work: Work | None = None

    def on_phase_start(self, trainer: Trainer) -> None:
        """Show how many epochs are left."""
        left = trainer.phase.epochs * trainer.method.rounds - trainer.state.finished
        self._work = Work(self.console, self._place(trainer), left * len(trainer.data.training))
        self._work.__enter__()

    def on_step_end(self, trainer: Trainer, images: int) -> None:
        """Move the bar."""
        if self._work is not None:
            self._work.advance(images)

    def on_epoch_end(self, trainer: Trainer) -> None:
        """Show the epoch."""
        if self._work is not None:
            note = describe(trainer.state.history[-1])
            self._work.say(note if self._work.is_live else f"{self._work.what}: {note}")
            self._work.describe(self._place(trainer))

    def on_phase_end(self, trainer: Trainer) -> None:
        """Show why a phase ended early, and whether it was worth it."""
        self.on_fit_end(trainer)
        history, first = trainer.state.history, trainer.phase.first_epoch
        if trainer.state.is_converged:
            self.console.print(f"equilibrium after epoch {history[-1]['epoch']}: stopped early")
        linear = [each.get("validation_map") or 0.0 for each in history if each["epoch"] <= first]
        before, after = max(linear, default=0.0), trainer.state.best_map or 0.0
        if before > after > 0:
            self.console.print(
                f"warning: validation mAP was {before:.1%} in the linear epochs and {after:.1%} "
                "later; the later model is kept. Use --mode linear, or a smaller --learning-rate"
            )

    def on_fit_end(self, trainer: Trainer) -> None:
        """Close the bar."""
        if self._work is not None:
            self._work.__exit__()
            self._work = None

    def _place(self, trainer: Trainer) -> str:
        """The epoch in progress."""
        last = trainer.phase.first_epoch + trainer.phase.epochs * trainer.method.rounds
        return f"epoch {min(trainer.epoch, last)} of {last}"
