"""Progress of a run on the console: its epochs, and warnings about what looks wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

from g2netpl.runs.records import EquilibriumMetrics
from g2netpl.training.trainer import Callback, Trainer
from g2netpl.utils.console import Console
from g2netpl.utils.progress import Work

_LATE = 0.75  # of the epochs, from which on predictions should be near k
_JUMP = 0.3  # mean movement of pseudo-labels that do not settle; others stay below 0.15


def describe(record: Mapping[str, Any]) -> str:
    """One epoch in one line."""
    parts = [f"cost {record['cost']:.4f}"]
    for key, form in (
        ("validation_map", "mAP {:.1%}"),
        ("regret", "regret {:.3f}"),
        ("undecided", "unresolved {:.0%}"),
        ("images_per_second", "{:.0f} images/s"),
    ):
        if record.get(key) is not None:
            parts.append(form.format(record[key]))
    return " · ".join(parts)


def collapsed(reading: EquilibriumMetrics, expected: float) -> bool:
    """Whether pseudo-labels are updated and predictions have left [k/3, 3k]."""
    predicted = reading["predicted_positives"]
    if predicted is None or reading["soft_positives"] is None:
        return False
    return not expected / 3 <= predicted <= 3 * expected


def restless(history: Sequence[EquilibriumMetrics]) -> bool:
    """Whether pseudo-labels oscillate: for two epochs they moved further than any that settle."""
    moved = [record.get("movement") for record in history[-2:]]
    return len(moved) == 2 and all(step is not None and step > _JUMP for step in moved)


def restless_words(history: Sequence[EquilibriumMetrics]) -> str:
    """A warning about such pseudo-labels."""
    return (
        f"the pseudo-labels oscillate, by {history[-1]['movement']:.2f} on average in an "
        "epoch: their steps are too long; use a smaller step_size (in proportion to σ² where σ is "
        "small), or with ROLE a smaller estimate_learning_rate"
    )


class Progress(Callback):
    """Shows the epochs of each phase on a console."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._work: Work | None = None
        self._has_warned: set[str] = set()

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
        """Show the epoch, and warn of what looks wrong."""
        history, record = trainer.state.history, trainer.state.history[-1]
        if self._work is not None:
            note = describe(record)
            self._work.say(note if self._work.is_live else f"{self._work.what}: {note}")
            self._work.describe(self._place(trainer))
        is_late = len(history) > max(2, int(_LATE * trainer.epochs))  # pseudo-labels move late
        if is_late and collapsed(record, trainer.k):
            self._warn_once(
                "collapse",
                f"the model now predicts {record['predicted_positives']:.2f} positives per image, "
                f"k is {trainer.k:.2f}; if mAP suffers, try a smaller --learning-rate",
            )
        if restless(history):
            self._warn_once("oscillation", restless_words(history))

    def on_phase_end(self, trainer: Trainer) -> None:
        """Show why a phase ended early, and whether it was worth it."""
        self.on_fit_end(trainer)
        history, first = trainer.state.history, trainer.phase.first_epoch
        if trainer.state.is_converged:
            self.console.print(f"equilibrium after epoch {history[-1]['epoch']}: stopped early")
        scores = [(each["epoch"] <= first, each.get("validation_map") or 0.0) for each in history]
        before, after = (
            max((score for is_linear, score in scores if is_linear is which), default=0.0)
            for which in (True, False)
        )
        if before > after > 0:
            self.console.print(
                f"warning: the linear epochs had a validation mAP of {before:.1%}, those after "
                f"them {after:.1%}, which are kept; use --mode linear, or a smaller --learning-rate"
            )

    def on_fit_end(self, trainer: Trainer) -> None:
        """Close the bar."""
        if self._work is not None:
            self._work.__exit__()
            self._work = None

    def _warn_once(self, problem: str, text: str) -> None:
        if problem not in self._has_warned:
            self._has_warned.add(problem)
            self.console.print(f"warning: {text}")

    def _place(self, trainer: Trainer) -> str:
        """The epoch in progress."""
        last = trainer.phase.first_epoch + trainer.phase.epochs * trainer.method.rounds
        return f"epoch {min(trainer.epoch, last)} of {last}"
