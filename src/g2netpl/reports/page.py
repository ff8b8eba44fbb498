"""Report pages: Jinja2 templates over one base, self-contained and without scripts.

A page loads nothing: style and pictures are inside, and its policy forbids everything else. All
text is escaped, except the drawings of plots.py.
"""

import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader

from g2netpl.labels.files import named, of_each
from g2netpl.utils.errors import counted
from g2netpl.utils.files import write_bytes, writing


def render(template: str, **content: Any) -> str:
    """A page from a template in `templates/`."""
    folder = files("g2netpl.reports") / "templates"
    environment = Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": percent,
        "counted": counted,
        "thousands": "{:,}".format,
        "file": _file,
    }
    return environment.get_template(template).render(**content)


def percent(share: float) -> str:
    """A probability as text; it never claims certainty."""
    if 0 < share < 0.001 or 0.999 < share < 1:
        return "< 0.1 %" if share < 0.5 else "> 99.9 %"
    return f"{100 * share:.1f} %" if share < 0.1 or share > 0.9 else f"{100 * share:.0f} %"


def _file(paths: str | Sequence[str]) -> str:
    """A path, or several, without their folders, which are private."""
    return named(of_each(paths, lambda path: os.path.basename(os.path.normpath(path))))


def write_page(path: str | Path, template: str, **content: Any) -> Path:
    """Write a page; text that UTF-8 cannot encode becomes question marks."""
    page, path = render(template, **content), Path(path)
    with writing(path):
        write_bytes(Path(path), page.encode(errors="replace"))
    return path
