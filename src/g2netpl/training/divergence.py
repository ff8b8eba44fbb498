"""A training that diverged is a result like others: its reason is kept, and the rest goes on.

In a table of cells its row has the key `diverged`, which says why, and no figures.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from typing_extensions import TypedDict

from g2netpl.runs.folder import DIVERGED
from g2netpl.runs.records import read_json
from g2netpl.training.trainer import NumericalStop
from g2netpl.utils.files import write_json

Result = TypeVar("Result")


def attempt(
    train: Callable[[], Result], failed: Callable[[str], Result], folder: Path | None = None
) -> Result:
    """What `train` gives; where its cost is no longer a number, what `failed` makes of the reason.

    A training with a folder of its own keeps the reason there, and is not trained again.
    """
    try:
        return train()
    except NumericalStop as stop:
        if folder is not None:
            write_json(folder / DIVERGED, {"reason": str(stop)})
        return failed(str(stop))


def why_given_up(folder: Path) -> str | None:
    """Why the attempt in this folder has diverged, if it has."""
    path = folder / DIVERGED
    return str(read_json(path, _Given)["reason"]) if path.is_file() else None


class _Given(TypedDict):
    """diverged.json."""

    reason: str


def check_given_up(folder: Path) -> None:
    """Stop where an attempt in this folder has diverged: it would do so again."""
    reason = why_given_up(folder)
    if reason is not None:
        raise NumericalStop(reason)


def check_some_trained(reasons: Iterable[str | None]) -> None:
    """Stop where every training has a reason why it failed, and so there is nothing to show."""
    found = list(reasons)
    if found and None not in found:
        many = f"all {len(found)} trainings" if len(found) > 1 else "the only training"
        raise NumericalStop(f"{many} diverged; the first: {found[0]}")
