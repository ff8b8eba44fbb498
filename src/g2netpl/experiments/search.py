"""Learning rate × batch size, chosen on validation: every cell is a run folder of its own.

The cells are a grid, or the trials of an Optuna study between the smallest and the largest rate.

A cell that is finished is not trained again, one that was broken off goes on where it stopped. One
that diverged is told as such and never chosen. All share their decoded images, or the features of a
frozen backbone.

Nothing is ever chosen on test: without held-out images that have known negatives the search is
refused, and the test figure is shown of the chosen cell alone.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from g2netpl.base.console import Console
from g2netpl.base.disk import write_json
from g2netpl.base.errors import InputError, Refused
from g2netpl.base.options import in_full
from g2netpl.base.signals import AGAIN
from g2netpl.labels.files import named
from g2netpl.runs.config import RunConfig
from g2netpl.runs.folder import DIVERGED, RESULT, is_begun
from g2netpl.runs.ownership import check_same_training, is_empty
from g2netpl.runs.run import Run
from g2netpl.training.checks import check_config
from g2netpl.training.data import read_training_data
from g2netpl.training.divergence import attempt, check_some_trained, why_given_up
from g2netpl.training.train import train

PAPER_RATES = (1e-2, 1e-3, 1e-4, 1e-5)
PAPER_BATCHES = (8, 16)
SEARCH = "search.json"
_CELLS = "rate-*-batch-*"


@dataclass(frozen=True)
class Found:
    """One trained cell."""

    learning_rate: float
    batch_size: int
    validation_map: float | None  # None: it diverged
    best_epoch: int | None
    folder: str
    diverged: str | None = None  # why

    @property
    def figure(self) -> str:
        """Its validation mAP, or that there is none."""
        return "diverged" if self.validation_map is None else f"{self.validation_map:.1%}"

    def __str__(self) -> str:
        shown = f"diverged ({self.diverged})" if self.diverged else f"validation mAP {self.figure}"
        return f"learning rate {in_full(self.learning_rate)}, batch {self.batch_size}: {shown}"


def search_grid(
    config: RunConfig,
    rates: Sequence[float] = PAPER_RATES,
    batches: Sequence[int] = PAPER_BATCHES,
    console: Console | None = None,
    trials: int | None = None,
) -> Iterator[Found]:
    """Train every cell of the grid below `config.output`, one after the other.

    With `trials` as many cells, each where the ones before promise most. Such a study follows from
    the seed and the results, so one that was broken off goes on.
    """
    study = None if trials is None else _study(config, rates, trials)
    config = check_config(config)  # one mode for all cells
    _check(config)
    if study is None:
        for batch in batches:
            for rate in rates:
                yield _train_cell(config, rate, batch, console)
        return
    for _ in range(trials or 0):
        trial = study.ask()
        rate = trial.suggest_float("learning_rate", min(rates), max(rates), log=True)
        batch = trial.suggest_categorical("batch_size", list(batches))
        cell = _train_cell(config, float(f"{rate:.3g}"), int(batch), console)
        study.tell(trial, cell.validation_map or 0.0)  # to diverge is the worst
        yield cell


def _study(config: RunConfig, rates: Sequence[float], trials: int) -> Any:
    """A study of Optuna."""
    try:
        import optuna
    except ImportError:
        raise InputError(
            "--trials: needs Optuna; install it with pip install 'g2netpl[study]'"
        ) from None
    if not 1 <= trials <= 1_000_000 or not 0 < min(rates) < max(rates) < math.inf:
        raise InputError(
            "--trials: expected 1 or more, and two learning rates to search between, got "
            f"{trials} and {', '.join(f'{rate:g}' for rate in rates)}"
        )
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=config.seed)
    return optuna.create_study(direction="maximize", sampler=sampler)


def _check(config: RunConfig) -> None:
    """Refuse what cannot be chosen from, before anything is trained."""
    folder = Path(config.output)
    cells = sorted(folder.glob(_CELLS))
    if not cells and not is_empty(folder):
        raise Refused(f"{folder}: is not empty and holds no search; choose another --output")
    data = read_training_data(config)
    # after a review a cell has the answers among its labels, and checks them by itself
    prints = data.fingerprints if config.resume_labels is None else None
    for cell in cells:
        if is_begun(cell):  # one that is not trained again is chosen from too
            free = {"learning_rate", "batch_size"}
            check_same_training(cell, config, prints, data.all_paths, free)
    if data.validation is None:
        raise InputError(
            f"{named(config.labels)}: no held-out images with known negatives to choose by, and "
            "nothing is chosen on test; give --validation-labels"
        )


def choose(found: Sequence[Found]) -> Found:
    """The cell with the best validation mAP; the first of equals."""
    check_some_trained(cell.diverged for cell in found)
    trained = [cell for cell in found if cell.diverged is None]
    return max(trained, key=lambda cell: cell.validation_map or 0.0)


def write_found(folder: Path, found: Sequence[Found]) -> None:
    """search.json: all cells, and which was chosen; none while all have diverged."""
    chosen = choose(found) if any(cell.diverged is None for cell in found) else None
    cells = [vars(cell) for cell in found]
    write_json(folder / SEARCH, {"chosen": chosen and vars(chosen), "cells": cells})


def read_found(folder: Path) -> list[Found]:
    """The cells that were trained there before, as they ended; their rates may be others.

    Their own folders tell: the search may have been moved, and search.json may be damaged.
    """
    found = []
    for cell in folder.glob(_CELLS):
        ends = [cell / name for name in (RESULT, DIVERGED) if (cell / name).is_file()]
        if ends:
            found.append((ends[0].stat().st_mtime_ns, cell.name, _found(cell)))
    return [cell for _, _, cell in sorted(found, key=lambda each: each[:2])]


def _found(folder: Path) -> Found:
    """A cell that has ended."""
    run = Run.open(folder)
    config = run.config
    cell = (config.rate(config.modes[-1]), config.batch_size)
    reason, place = why_given_up(folder), str(folder.absolute())
    if reason is not None:
        return Found(*cell, None, None, place, reason)
    return Found(*cell, run.result["validation_map"], run.result["best_epoch"], place)


def _train_cell(config: RunConfig, rate: float, batch: int, console: Console | None) -> Found:
    folder = Path(config.output) / f"rate-{in_full(rate)}-batch-{batch}"
    changes = {"learning_rate": rate, "batch_size": batch, "output": str(folder)}
    cell = RunConfig.read({**config.model_dump(), **changes}, "search")

    def trained() -> Found:
        again = is_begun(folder)
        run = train(cell, resume=again, console=console, advice=AGAIN)
        score, epoch = run.result["validation_map"], run.result["best_epoch"]
        return Found(rate, batch, score, epoch, str(run.folder))

    def failed(reason: str) -> Found:
        return Found(rate, batch, None, None, str(folder.absolute()), reason)

    return attempt(trained, failed, folder)
