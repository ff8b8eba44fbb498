"""All methods: one small class each, registered by name. `base` has the base class."""

from g2netpl.core.methods import (
    asl,
    em_apl,
    fixed,
    fixmatch,
    g2netpl,
    gr,
    hill_splc,
    large_loss,
    role,
    ups,
)
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

_MODULES = (fixed, role, g2netpl, fixmatch, ups, asl, hill_splc, large_loss, em_apl, gr)

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
