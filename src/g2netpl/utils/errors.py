"""Errors that a user can cause; the command line prints each as one line, with exit code 2.

Everything that does not derive from `UserError` is a bug of ours.
"""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """An error to print as one line: what happened, where, and what to do next."""

    exit_code = 2


class InputError(UserError):
    """A file, a flag or a value that cannot be used as it is."""


_EXTRAS = {
    **dict.fromkeys(("onnx", "onnxscript", "onnxruntime"), "export"),
    "datasets": "hub",
    **dict.fromkeys(("fsspec", "s3fs"), "remote"),
    **dict.fromkeys(("tensorboard", "mlflow", "wandb"), "trackers"),
    "ray": "ray",
    "rawpy": "raw",
}


def missing_extra(problem: Exception) -> str | None:
    """What to install if the package of an extra is missing; None for any other problem."""
    missing = problem.name if isinstance(problem, ModuleNotFoundError) else None
    package = (missing or "").partition(".")[0]
    if package not in _EXTRAS:
        return None
    return f"needs {package}, which is not installed; pip install 'g2netpl[{_EXTRAS[package]}]'"


def counted(count: int, noun: str) -> str:
    """`1 image`, `1,200 images`, `2 classes`."""
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{count:,} {noun if count == 1 else plural}"


def listed(names: Iterable[str], most: int = 5) -> str:
    """`a, b and 3 more`."""
    names = list(names)
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint to append to "unknown …": the closest known word, or the list of all of them."""
    known = sorted(known)
    close = closest(word, known)
    if close is not None:
        return f"did you mean {close!r}?"
    return f"known: {', '.join(known[:20])}{', …' if len(known) > 20 else ''}"


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most similar, if any is."""
    return next(iter(difflib.get_close_matches(word[:100], list(known)[:5000], n=1)), None)
