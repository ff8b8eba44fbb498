"""Public names of a package, each imported on first use, so that importing the package is quick."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

Door = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


def lazily(package: str, homes: Mapping[str, str]) -> Door:
    """`__getattr__`, `__dir__` and `__all__` of a package, given the names that each module has."""
    of = {name: module for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(import_module(f"g2netpl.{of[name]}"), name)
        except ModuleNotFoundError as problem:
            from g2netpl.utils.errors import to_install

            missing = to_install(problem)
            if missing is None:
                raise
            raise ModuleNotFoundError(f"{package}.{name} {missing}", name=problem.name) from None

    def names() -> list[str]:
        own = vars(import_module(package))
        return sorted({*of, *(name for name in own if name.startswith("__"))})

    return find, names, sorted(of)
