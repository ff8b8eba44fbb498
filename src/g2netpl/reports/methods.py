"""The methods as a page: docs/method/methods.md, a table and the options of each."""

from g2netpl.game.methods import METHODS, method_options


def markdown_table() -> str:
    """The catalogue as a table."""
    lines = ["| method | what it does | source |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {row.summary} | {row.source} |" for name, row in METHODS.items()]
    return "\n".join(lines)


def methods_page() -> str:
    """The catalogue with every option, as docs/method/methods.md."""
    lines = [
        "# Methods and their options",
        "",
        "Made from the catalogue by `g2netpl methods --page`. Change an option with",
        "`--set KEY=VALUE`, or in a comparison as `METHOD:KEY=VALUE`. “Tried” are the values of",
        "`--search-weights`. Several numbers are written `slope=0,2`, among methods in brackets:",
        "`--methods 'gr:slope=(0,2),an'`.",
        "",
        markdown_table(),
    ]
    for name, row in METHODS.items():
        options = method_options(name, {})
        lines += [
            "",
            f"## `{name}`",
            "",
            f"{row.summary[0].upper()}{row.summary[1:]}. {row.source}.",
        ]
        if row.grid is not None:
            tried = ", ".join("none" if value is None else f"{value:g}" for value in row.grid[1])
            lines += [f"Tried: `{row.grid[0]}` {tried}."]
        fields = type(options).model_fields
        if fields:
            lines += ["", "| option | default | meaning |", "| --- | --- | --- |"]
        for key, each in fields.items():
            meaning = (each.description or "").replace("|", "\\|")
            value = getattr(options, key)
            lines.append(f"| `{key}` | {'none' if value is None else value} | {meaning} |")
    return "\n".join(lines) + "\n"
