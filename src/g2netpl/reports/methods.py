"""The methods as a page: docs/method/methods.md, a table and the options of each."""

from g2netpl.game.methods import METHODS, method_options
from g2netpl.reports.page import render


def markdown_table() -> str:
    """The catalogue as a table."""
    lines = ["| method | what it does | source |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {row.summary} | {row.source} |" for name, row in METHODS.items()]
    return "\n".join(lines)


def methods_page() -> str:
    """The catalogue with every option, as docs/method/methods.md."""
    options = {name: method_options(name, {}) for name in METHODS}
    return render("methods.md", table=markdown_table(), methods=METHODS, options=options)
