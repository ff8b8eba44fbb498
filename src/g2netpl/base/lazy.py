"""Public names of a package, each imported on first use, so that importing the package is quick."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], list[str]]:
    """`__getattr__` and `__all__` of a package, given the module below it that has each name."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        except ModuleNotFoundError as problem:
            from g2netpl.base.errors import to_install

            missing = to_install(problem)
            if missing is None:
                raise
            raise ModuleNotFoundError(f"{package}.{name} {missing}", name=problem.name) from None

    return find, sorted(homes)
