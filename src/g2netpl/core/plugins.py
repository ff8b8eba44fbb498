"""Methods from a file of your own: `--plugin mine.py` runs the file, which registers them.

Only the command line can name a plugin: no configuration and no run folder runs code.
"""

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb

from g2netpl.core.methods.base import METHODS, find_method
from g2netpl.utils.errors import InputError, UserError

LOADED: list[str] = []
"""Plugin files in the order they were run; worker processes run them too."""
_DIGEST = "__g2netpl_sha256__"  # of the file, in its module


def load_plugins(paths: list[str]) -> None:
    """Run each file once; it must register a method."""
    for path in (str(Path(given).resolve()) for given in paths):
        if path in LOADED:
            continue
        if not Path(path).is_file():
            raise InputError(f"{path}: no such plugin file")
        name, count = f"g2netpl_plugin_{Path(path).stem}", len(METHODS)
        spec = spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise InputError(f"{path}: expected a Python file (.py)")
        module = sys.modules[name] = module_from_spec(spec)
        setattr(module, _DIGEST, hashlib.sha256(Path(path).read_bytes()).hexdigest())
        with plugin_errors(path):
            spec.loader.exec_module(module)
        if len(METHODS) == count:
            raise InputError(f"{path}: registers no method; use @register of g2netpl.core")
        LOADED.append(path)


def digest_of(method: str) -> str | None:
    """SHA-256 of the plugin file that a method comes from; None for a method of the package."""
    module = sys.modules.get(find_method(method).method.__module__)
    digest: str | None = getattr(module, _DIGEST, None)
    return digest


@contextmanager
def plugin_errors(*paths: str) -> Iterator[None]:
    """Inside, an error raised in a plugin is reported with its file and line."""
    try:
        yield
    except UserError:
        raise
    except Exception as problem:
        if isinstance(problem, SyntaxError) and problem.filename in paths:
            raise InputError(f"{problem.filename}:{problem.lineno}: {problem.msg}") from None
        frames = extract_tb(problem.__traceback__)
        inner = [frame for frame in frames if frame.filename in (*LOADED, *paths)]
        if not inner or isinstance(problem, OSError | MemoryError):
            raise
        place = f"{inner[-1].filename}:{inner[-1].lineno}"
        raise InputError(f"{place}: {type(problem).__name__}: {problem}") from problem
