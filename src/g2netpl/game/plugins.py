"""Methods from a file of your own: `--plugin mine.py` adds its rows to METHODS.

The file is a program and is run. So it is named on the command line alone: nothing that a
configuration or a run folder says can run one.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb

from g2netpl.base.errors import InputError, UserError, what_lacks
from g2netpl.game.methods import METHODS

LOADED: list[str] = []
"""The files that were run, in order; a process that works for us runs them too."""


def load_plugins(paths: list[str]) -> None:
    """Run each file once; it must add rows to METHODS, and leave those that are there alone."""
    for path in (str(Path(each).resolve()) for each in paths):
        if path not in LOADED:
            before = dict(METHODS)
            _run(path)
            changed = [name for name, row in before.items() if METHODS.get(name) is not row]
            if changed:
                raise InputError(f"{path}: changes method {changed[0]!r}; choose another name")
            if len(METHODS) == len(before):
                raise InputError(f"{path}: adds no row to g2netpl.game.METHODS")
            LOADED.append(path)


@contextmanager
def own_mistakes() -> Iterator[None]:
    """Inside, what fails in the code of a plugin is its author's mistake, told in one line."""
    try:
        yield
    except UserError:
        raise
    except Exception as problem:
        where = _place_of(problem)
        if where is None:
            raise
        what = f"{type(problem).__name__}: {problem}"
        raise InputError(f"in your plugin {where}: {what}") from problem


def _place_of(problem: Exception) -> str | None:
    """The line of a plugin that went wrong, None if none of them did."""
    frames = extract_tb(problem.__traceback__)
    own = [frame for frame in frames if frame.filename in LOADED]
    of_the_machine = isinstance(problem, OSError | MemoryError) or "allocate" in str(problem)
    if not own:
        return _place_of_call(str(problem)) if isinstance(problem, TypeError) else None
    if of_the_machine and (own[-1] is not frames[-1] or what_lacks(problem)):
        return None  # a full disk, say
    return f"{own[-1].filename}:{own[-1].lineno}"


def _place_of_call(message: str) -> str | None:
    """Where a method of a player begins that does not take what it is given."""
    called = re.match(r"(\w+)\.(\w+)\(\) (?:takes|missing|got) ", message)
    for player in (row.player for row in METHODS.values()):
        if called and player.__name__ == called[1]:
            code = getattr(vars(player).get(called[2]), "__code__", None)
            if code is not None and code.co_filename in LOADED:
                return f"{code.co_filename}:{code.co_firstlineno}"
    return None


def _run(path: str) -> None:
    if not Path(path).is_file():
        raise InputError(f"{path}: no such plugin file")
    name = f"g2netpl_plugin_{Path(path).stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: expected a Python file, with the ending .py")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        frames = extract_tb(problem.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == path]
        line = getattr(problem, "lineno", None) or (lines[-1] if lines else 1)
        raise InputError(f"{path}:{line}: {type(problem).__name__}: {problem}") from None
