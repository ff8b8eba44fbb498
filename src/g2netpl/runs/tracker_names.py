"""The trackers that a training may tell its figures to, by their names."""

from collections.abc import Iterable

from g2netpl.utils.console import quoted
from g2netpl.utils.errors import InputError, did_you_mean

TRACKERS = ("tensorboard", "mlflow", "wandb", "trackio")


def parse_trackers(texts: str | Iterable[str]) -> tuple[str, ...]:
    """Read `tensorboard,mlflow:WHERE` or a list of such; `none` is no tracker."""
    parts = [texts] if isinstance(texts, str) else texts
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise InputError(f"log_with: expected names of trackers, got {texts!r}")
    names = [name.strip() for part in parts for name in part.split(",")]
    names = [name for name in names if name and name != "none"]
    for name in names:
        kind = name.partition(":")[0]
        if kind not in TRACKERS:
            raise InputError(f"unknown tracker {name!r} ({did_you_mean(kind, TRACKERS)})")
    names = list(dict.fromkeys(names))
    if sum(name.startswith("mlflow") for name in names) > 1:
        raise InputError("log_with: mlflow can be used only once in a run")
    return tuple(names)


def is_inside(name: str) -> bool:
    """Whether a tracker writes into the run folder alone."""
    return name == "tensorboard"


def check_inside(names: Iterable[str]) -> None:
    """Refuse trackers of a run.json that write elsewhere: the folder may be a stranger's."""
    for name in names:
        if not is_inside(name):
            raise InputError(
                f"log_with: run.json names {name!r}, which writes outside of the run folder; give "
                f"--log-with {quoted(name)} to go on with it, or --log-with none"
            )
