"""Mistakes a user can make, each with the exit code of the command that meets it.

Whatever derives from `UserError` reaches the user as one line; everything else is our own bug.
"""

import difflib
import heapq
from collections.abc import Iterable


class UserError(Exception):
    """A mistake to be told in one line: where, what was expected, what came, what to do."""

    exit_code = 2
    said = False  # by another of the processes


class InputError(UserError):
    """A file, a flag or a value that cannot be used as it is."""


class Refused(UserError):
    """Nothing is wrong with the input, but going on would destroy or confuse something."""

    exit_code = 3


_EXTRA = {
    **dict.fromkeys(("torch", "torchvision", "timm", "accelerate", "safetensors"), "train"),
    **{"sklearn": "train", "onnxruntime": "onnx", "onnx": "export", "onnxscript": "export"},
    **{"huggingface_hub": "hub", "fsspec": "remote", "s3fs": "remote", "ray": "ray"},
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
    if "operator torchvision::" in str(problem):
        return "torch and torchvision are of different builds; install both anew, from one index"
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


def listed(names: Iterable[str], most: int = 5) -> str:
    """`a, b and 3 more`."""
    every = list(names)
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


_MOST = 5_000  # known words: to compare with more takes long
_LONG = 60  # letters of a word from which on nobody has mistyped another


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint to append to "unknown …": the closest known word, or the list of all of them."""
    known = list(known)
    close = closest(word, known)
    if close is not None:
        return f"did you mean {close!r}?"
    shown = ", ".join(heapq.nsmallest(20, known))
    return f"known: {shown}{', …' if len(known) > 20 else ''}"


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like another one, if any is."""
    known = list(known)
    if len(word) > _LONG or len(known) > _MOST:
        return None
    found = difflib.get_close_matches(word, known, n=1)
    return found[0] if found else None
