"""Mistakes a user can make, each with the exit code of the command that meets it.

Whatever derives from `UserError` reaches the user as one line; everything else is our own bug.
"""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake to be told in one line: where, what was expected, what came, what to do."""

    exit_code = 2
    said = False  # by another process of a team


class InputError(UserError):
    """A file, a flag or a value that cannot be used as it is."""


class Refused(UserError):
    """Nothing is wrong with the input, but going on would destroy or confuse something."""

    exit_code = 3


_EXTRA = {
    **dict.fromkeys(("torch", "torchvision", "timm", "accelerate", "safetensors"), "train"),
    **{"sklearn": "train", "onnxruntime": "onnx", "onnx": "export", "onnxscript": "export"},
}


def to_install(problem: Exception) -> str | None:
    """What to install where a package of an extra is not there; None for any other problem."""
    missing = problem.name if isinstance(problem, ModuleNotFoundError) else None
    package = (missing or "").partition(".")[0]
    if package not in _EXTRA:
        return None
    return f"needs {package}, which is not installed; pip install 'g2netpl[{_EXTRA[package]}]'"


def what_lacks(problem: Exception) -> str | None:
    """What the machine lacks: a package, a part of one, or memory; None for any other problem."""
    if isinstance(problem, MemoryError) or "can't allocate memory" in str(problem):
        return f"not enough memory ({problem or 'no more to be had'})"
    is_ours = (getattr(problem, "name", None) or "").partition(".")[0] == "g2netpl"
    if type(problem) is ImportError and not is_ours:
        return (
            f"a package cannot be loaded ({problem}); is memory limited (ulimit -v), or the "
            "installation damaged?"
        )
    return to_install(problem)


def counted(count: int, noun: str) -> str:
    """`1 image`, `1,200 images`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint to append to "unknown …": the closest known word, or the list of all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    shown = ", ".join(known[:20])
    return f"known: {shown}{', …' if len(known) > 20 else ''}"
