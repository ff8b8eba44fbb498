"""Progress of a run: epochs on the console with warnings, and as JSON lines on disk."""

from collections.abc import Mapping, Sequence
from typing import Any

from g2netpl.runs.records import Epoch, Reading
from g2netpl.training.trainer import Callback, Trainer
from g2netpl.utils.console import Console
from g2netpl.utils.progress import Work

_LATE = 0.75  # of the epochs, from which on predictions should be near k
_JUMP = 0.3  # mean movement of labels that do not settle; those that do stay below 0.15
_TERMS = {
    "regret": "regret: what the soft labels, guesses at labels that nobody gave, would still gain "
    "by their best move, 0 when settled",
    "undecided": "undecided: soft labels between 0.25 and 0.75, neither yes nor no",
}


def describe(record: Mapping[str, Any]) -> str:
    """One epoch in one line."""
    parts = [f"cost {record['cost']:.4f}"]
    for key, name, form in (
        ("validation_map", "mAP", "{:.1%}"),
        ("regret", "regret", "{:.3f}"),
        ("undecided", "undecided", "{:.0%}"),
        ("images_per_second", "", "{:.0f} images/s"),
    ):
        if record.get(key) is not None:
            parts.append(f"{name} {form.format(record[key])}".strip())
    return " · ".join(parts)


def collapsed(reading: Reading, expected: float) -> bool:
    """True where the predictions have left [k/3, 3k]."""
    seen = reading["predicted_positives"]
    return seen is not None and not expected / 3 <= seen <= 3 * expected


def restless(history: Sequence[Reading]) -> bool:
    """True where soft labels jump to and fro: for two epochs they moved further than any settle."""
    moved = [record.get("movement") for record in history[-2:]]
    return len(moved) == 2 and all(each is not None and each > _JUMP for each in moved)


def restless_words(history: Sequence[Reading]) -> str:
    """What to say of such labels."""
    return (
        f"the pseudo-labels oscillate, by {history[-1]['movement']:.2f} on average in an "
        "epoch: their steps are too long; use a smaller step_size (in proportion to σ² where σ is "
        "small), or with ROLE a smaller estimate_learning_rate"
    )


def warn_of_collapse(console: Console, history: list[Epoch], k: float, epochs: int) -> None:
    """Warn once if the predictions stay away from k, late in the run.

    Earlier that is expected: pseudo-labels start at 0.5 and move late.
    """
    away = [collapsed(record, k) and record["soft_positives"] is not None for record in history]
    first = max(2, int(_LATE * epochs))
    if len(history) > first and away[-1] and not any(away[first:-1]):
        suffers = "what it adds" if history[-1].get("validation_map") is None else "mAP"
        console.print(
            f"warning: the network now predicts {history[-1]['predicted_positives']:.2f} positives "
            f"per image, k is {k:.2f}; if {suffers} suffers, try a smaller --learning-rate"
        )


def warn_of_jumps(console: Console, history: list[Epoch]) -> None:
    """Say once when the soft labels do not settle."""
    if restless(history) and not any(restless(history[:n]) for n in range(len(history))):
        console.print(f"warning: {restless_words(history)}")


def warn_of_loss(console: Console, history: Sequence[Epoch], linear: int) -> None:
    """Say where the linear epochs, up to the one given, were better than those after them."""
    scores = [(record["epoch"] <= linear, record.get("validation_map")) for record in history]
    before, after = (
        max((score for first, score in scores if first is which and score), default=0.0)
        for which in (True, False)
    )
    if before > after > 0:
        console.print(
            f"warning: the linear epochs had a validation mAP of {before:.1%}, those after them "
            f"{after:.1%}, which are kept; use --mode linear, or a smaller --learning-rate"
        )


class Progress(Callback):
    """Shows the epochs of each phase on a console."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._work: Work | None = None
        self._explained = False

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
        history = trainer.state.history
        terms = [text for key, text in _TERMS.items() if history[-1].get(key) is not None]
        if self._work is not None:
            if terms and not self._explained:
                self._explained = True
                self.console.print("; ".join(terms))
            note = describe(history[-1])
            self._work.say(note if self._work.is_live else f"{self._work.what}: {note}")
            self._work.describe(self._place(trainer))
        warn_of_collapse(self.console, history, trainer.k, trainer.epochs)
        warn_of_jumps(self.console, history)

    def on_phase_end(self, trainer: Trainer) -> None:
        """Say why a phase ended early, and whether it was worth it."""
        self.on_fit_end(trainer)
        history = trainer.state.history
        if trainer.state.is_converged:
            self.console.print(f"equilibrium after epoch {history[-1]['epoch']}: stopped early")
        if trainer.phase is trainer.phases[-1]:
            warn_of_loss(self.console, history, trainer.phase.first_epoch)

    def on_fit_end(self, trainer: Trainer) -> None:
        """Close the bar."""
        if self._work is not None:
            self._work.__exit__()
            self._work = None

    def _place(self, trainer: Trainer) -> str:
        """The epoch in progress."""
        last = trainer.phase.first_epoch + trainer.phase.epochs * trainer.method.rounds
        return f"epoch {min(trainer.epoch, last)} of {last}"
