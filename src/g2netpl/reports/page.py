"""Report pages: Jinja2 templates over one base, self-contained and without scripts.

A page loads nothing: style and pictures are inside, and its policy forbids everything else. All
text is escaped, except the drawings of plots.py.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from g2netpl.labels.files import named, of_each
from g2netpl.utils.errors import counted
from g2netpl.utils.files import write_bytes, writing


def write_page(path: str | Path, template: str, **content: Any) -> Path:
    """Write a page from a template; text that UTF-8 cannot encode becomes question marks."""
    environment = Environment(
        loader=PackageLoader("g2netpl.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": percent,
        "counted": counted,
        "thousands": "{:,}".format,
        "general": "{:g}".format,
        "file": _file,
    }
    page = environment.get_template(template).render(**content)
    with writing(path):
        write_bytes(Path(path), page.encode(errors="replace"))
    return Path(path)


def percent(share: float) -> str:
    """A probability as text; it never claims certainty."""
    if 0 < share < 0.001 or 0.999 < share < 1:
        return "< 0.1 %" if share < 0.5 else "> 99.9 %"
    return f"{100 * share:.1f} %" if share < 0.1 or share > 0.9 else f"{100 * share:.0f} %"


def _file(paths: str | Sequence[str]) -> str:
    """A path, or several, without their folders, which are private."""
    return named(of_each(paths, lambda path: os.path.basename(os.path.normpath(path))))
