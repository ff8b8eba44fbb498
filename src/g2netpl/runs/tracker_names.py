"""The trackers that a training may tell its figures to, by their names."""

from collections.abc import Iterable

from g2netpl.base.errors import InputError, did_you_mean

TRACKERS = ("tensorboard", "mlflow", "trackio")


def parse_trackers(texts: str | Iterable[str]) -> tuple[str, ...]:
    """Read `tensorboard,mlflow:WHERE` or a list of such; `none` is no tracker."""
    parts = [texts] if isinstance(texts, str) else texts
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise InputError(f"track: expected names of trackers, got {texts!r}")
    names = [name.strip() for part in parts for name in part.split(",")]
    names = [name for name in names if name and name != "none"]
    for name in names:
        kind = name.partition(":")[0]
        if kind not in TRACKERS:
            raise InputError(f"unknown tracker {name!r} ({did_you_mean(kind, TRACKERS)})")
    return tuple(dict.fromkeys(names))
