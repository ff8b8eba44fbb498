"""Learning rate × batch size, chosen on validation: every cell is a run folder of its own.

A cell that is finished is not trained again, one that was broken off goes on where it stopped.
Nothing is ever chosen on test: without held-out images that have known negatives the search is
refused, and the test figure is shown of the chosen cell alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from g2netpl.checkpoints import write_json
from g2netpl.config import RunConfig
from g2netpl.errors import InputError, Refused
from g2netpl.material import read_material
from g2netpl.runs import Run
from g2netpl.training import train

PAPER_RATES = (1e-2, 1e-3, 1e-4, 1e-5)
PAPER_BATCHES = (8, 16)


@dataclass(frozen=True)
class Found:
    """One trained cell."""

    learning_rate: float
    batch_size: int
    validation_map: float
    best_epoch: int
    folder: str

    def __str__(self) -> str:
        return (
            f"learning rate {self.learning_rate:g}, batch {self.batch_size}: "
            f"validation mAP {self.validation_map:.1%}"
        )


def search(
    config: RunConfig,
    rates: Sequence[float] = PAPER_RATES,
    batches: Sequence[int] = PAPER_BATCHES,
    console: Console | None = None,
) -> Iterator[Found]:
    """Train every cell below `config.output`, one after the other."""
    folder = Path(config.output)
    if folder.is_dir() and any(folder.iterdir()) and not list(folder.glob("rate-*-batch-*")):
        raise Refused(f"{folder}: is not empty and holds no search; choose another --output")
    if read_material(config).validation is None:
        raise InputError(
            f"{config.labels}: no held-out images with known negatives to choose by, and nothing "
            "is chosen on test; give --validation-labels"
        )
    for batch in batches:
        for rate in rates:
            run = _train_cell(config, rate, batch, console)
            yield Found(
                rate,
                batch,
                run.result["validation_map"],
                run.result["best_epoch"],
                str(run.folder),
            )


def choose(found: Sequence[Found]) -> Found:
    """The cell with the best validation mAP; the first of equals."""
    return max(found, key=lambda cell: cell.validation_map)


def write_found(folder: Path, found: Sequence[Found]) -> None:
    """search.json: all cells, and which was chosen."""
    cells = [vars(cell) for cell in found]
    write_json(folder / "search.json", {"chosen": vars(choose(found)), "cells": cells})


def _train_cell(config: RunConfig, rate: float, batch: int, console: Console | None) -> Run:
    folder = Path(config.output) / f"rate-{rate:g}-batch-{batch}"
    changes = {"learning_rate": rate, "batch_size": batch, "output": str(folder)}
    cell = RunConfig.read({**config.model_dump(), **changes}, "search")
    return train(cell, resume=(folder / "run.json").is_file(), console=console)
