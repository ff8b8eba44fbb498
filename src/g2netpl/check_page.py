"""An inspection of a data set as one self-contained HTML page, which loads nothing."""

from importlib.resources import files
from pathlib import Path

from g2netpl.checking import Inspection, by_kind
from g2netpl.errors import InputError


def write_page(found: Inspection, share: str | None, path: str) -> None:
    """Write the page; file names and labels are shown as text, whatever they hold."""
    from jinja2 import Environment, select_autoescape

    template = (files("g2netpl") / "templates" / "check.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=select_autoescape(default=True))
    page = environment.from_string(template).render(
        found=found,
        share=share,
        ranked=sorted(found.classes, key=lambda each: -each.positive),
        problems=[("Errors", by_kind(found.errors)), ("Warnings", by_kind(found.warnings))],
    )
    try:
        Path(path).write_text(page, encoding="utf-8", errors="replace")
    except OSError as problem:
        raise InputError(f"{path}: cannot be written ({problem.strerror})") from None
