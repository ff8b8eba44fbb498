"""The phases of a training: what learns in each, for how long, and what a person is warned of."""

from dataclasses import dataclass

from g2netpl.base.console import Console
from g2netpl.runs.config import Mode, RunConfig
from g2netpl.runs.records import Epoch
from g2netpl.training.epochs import Schedule
from g2netpl.training.equilibrium import collapsed, restless, restless_words


@dataclass(frozen=True)
class Phase:
    """One stretch of epochs with the same parameters free."""

    mode: Mode
    epochs: int
    first_epoch: int = 0

    @property
    def is_linear(self) -> bool:
        """Whether the classifier alone learns."""
        return self.mode == "linear"


def phases_of(config: RunConfig) -> list[Phase]:
    """What is trained, one after the other."""
    if config.mode != "linear-init":
        return [Phase(config.mode, config.epochs)]
    return [
        Phase("linear", config.linear_epochs),
        Phase("end-to-end", config.epochs, config.linear_epochs),
    ]


def schedule_of(config: RunConfig, phase: Phase) -> Schedule:
    """How long and in what steps."""
    return Schedule(
        epochs=phase.epochs,
        batch_size=config.batch_size,
        seed=config.seed,
        first_epoch=phase.first_epoch,
        total_epochs=sum(each.epochs for each in phases_of(config)),
        patience=config.patience,
        regret_tolerance=config.regret_tolerance,
        movement_tolerance=config.movement_tolerance,
    )


def warn_of_collapse(console: Console, history: list[Epoch], k: float) -> None:
    """Say once when the predictions of the game have run away from k, after the first epochs."""
    away = [collapsed(record, k) and record["soft_positives"] is not None for record in history]
    if len(history) >= 3 and away[-1] and not any(away[2:-1]):
        seen = history[-1]["predicted_positives"]
        console.print(
            f"warning: the network now predicts {seen:.2f} positives per image, k is {k:.2f}; "
            "if mAP suffers, try a smaller --learning-rate",
            highlight=False,
        )


def warn_of_jumps(console: Console, history: list[Epoch]) -> None:
    """Say once when the soft labels do not settle."""
    if restless(history) and not any(restless(history[:n]) for n in range(len(history))):
        console.print(f"warning: {restless_words(history)}", highlight=False)
