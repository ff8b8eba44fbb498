"""docs/method/methods.md from the catalogue of methods: python dev/methods_page.py writes it."""

from pathlib import Path

from jinja2 import Environment

from g2netpl.core.methods import METHODS

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs/method/methods.md"


def methods_page() -> str:
    """A table of all methods, and then the options of each."""
    lines = [
        f"| `{name}` | {row.summary} | {row.annotation} | {row.source} |"
        for name, row in METHODS.items()
    ]
    head = ["| method | what it does | annotation | source |", "| --- | --- | --- | --- |"]
    template = (HERE / "methods.md.jinja").read_text(encoding="utf-8")
    return (
        Environment(trim_blocks=True, lstrip_blocks=True)
        .from_string(template)
        .render(
            table="\n".join([*head, *lines]),
            methods=METHODS,
            options={name: METHODS[name].options({}) for name in METHODS},
        )
    )


if __name__ == "__main__":
    PAGE.write_text(methods_page(), encoding="utf-8")
