"""An inspection of a data set as a page."""

from g2netpl.images.inspection import Inspection, by_kind
from g2netpl.reports import page


def write_page(found: Inspection, share: str | None, path: str) -> None:
    """Write the page; file names and labels are shown as text, whatever they hold."""
    shown = page.render(
        "check.html",
        found=found,
        share=share,
        ranked=sorted(found.classes, key=lambda each: -each.positive),
        problems=[("Errors", by_kind(found.errors)), ("Warnings", by_kind(found.warnings))],
    )
    page.write_page(path, shown)
