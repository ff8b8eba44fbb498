"""Pages: a template each, over one base; self-contained, whatever text the data hold.

A page loads nothing: style and pictures are inside it, and it forbids everything else. It has no
scripts. Text is escaped; only the drawings of charts.py are let through as they are.
"""

import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from g2netpl.base.disk import write_text_whole, writing
from g2netpl.base.errors import counted
from g2netpl.labels.files import named, of_each


def render(template: str, **content: Any) -> str:
    """The page of a template in `templates/`."""
    from jinja2 import Environment, FunctionLoader

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
    """A probability for people; what is nearly sure is not said to be sure."""
    if 0 < share < 0.001 or 0.999 < share < 1:
        return "< 0.1 %" if share < 0.5 else "> 99.9 %"
    return f"{100 * share:.1f} %" if share < 0.1 or share > 0.9 else f"{100 * share:.0f} %"


def _file(paths: str | Sequence[str]) -> str:
    """A path, or several, without the folders above, which are nobody's business."""
    return named(of_each(paths, lambda path: os.path.basename(os.path.normpath(path))))


def write_page(path: str | Path, template: str, **content: Any) -> Path:
    """Write the page of a template; text that UTF-8 cannot hold becomes question marks."""
    page, path = render(template, **content), Path(path)
    with writing(path):
        write_text_whole(path, page, errors="replace")
    return path
