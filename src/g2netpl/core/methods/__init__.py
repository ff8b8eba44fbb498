"""All methods: one file each. `base` has the base class; importing a file registers its methods."""

from importlib import import_module
from pkgutil import iter_modules

from g2netpl.core.methods.base import (
    METHODS,
    Entry,
    Method,
    MethodOptions,
    build_method,
    find_method,
    parse_method,
    register,
    weights_to_try,
)

__all__ = [
    "METHODS",
    "Entry",
    "Method",
    "MethodOptions",
    "build_method",
    "find_method",
    "parse_method",
    "register",
    "weights_to_try",
]

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")
