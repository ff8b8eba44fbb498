"""Methods from a file of your own: `--plugin mine.py` adds its rows to METHODS.

The file is a program and is run. So it is named on the command line alone: nothing that a
configuration or a run folder says can run one.
"""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb

from g2netpl.base.errors import InputError
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
