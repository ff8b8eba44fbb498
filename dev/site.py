"""What `make docs` adds to the pages: the command line, options of methods, public names, files.

A page asks for a part: `<!-- commands -->`, `<!-- keys -->`, `<!-- options -->` or
`<!-- public: MODULE -->`.
The docs link to files of the repository (sources, examples, the lab notebook). Each of them becomes
a page below repository/, so that every link works without a network.
"""

import importlib
import os
import re
from pathlib import Path

from mkdocs.structure.files import File

from g2netpl.cli import COMMANDS, CommandParser
from g2netpl.core.methods import METHODS
from g2netpl.runs.config import RunConfig

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
GENERATED = re.compile(r"<!-- (commands|keys|options|public)(?:: (\S+))? -->")


def site_path(path):
    """The place of a repository file on the site."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    name = f"repository/{path.relative_to(ROOT).as_posix()}"
    return f"{name}.md" if path.suffix == ".py" else name


def repository_path(name):
    """The repository file that a page of the site shows."""
    inside = name.removeprefix("repository/")
    return DOCS / name if inside == name else ROOT / inside.removesuffix(".py.md").rstrip("/")


def linked_files(page):
    """The repository files that a page links to."""
    for target, _ in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            yield Path(os.path.normpath(page.parent / target))


def on_files(files, config):
    """Add every file outside docs that can be reached by links."""
    waiting = sorted(DOCS.rglob("*.md"))
    seen = set(waiting)
    while waiting:
        for path in linked_files(waiting.pop()):
            if path in seen or path.is_relative_to(DOCS) or not path.is_file():
                continue
            seen.add(path)
            if path.suffix == ".py":
                text = f"# {path.name}\n\n```python\n{path.read_text(encoding='utf-8')}```\n"
                files.append(File.generated(config, site_path(path), content=text))
            else:
                files.append(File.generated(config, site_path(path), abs_src_path=str(path)))
            if path.suffix == ".md":
                waiting.append(path)
    return files


def on_page_markdown(markdown, page, config, files):
    """Insert the generated parts, and make links point at pages of the site."""
    if page.file.src_uri.endswith(".py.md"):
        return markdown
    source = repository_path(page.file.src_uri)
    parts = {"commands": commands, "keys": keys, "options": options, "public": public_names}
    markdown = GENERATED.sub(lambda match: parts[match[1]](*filter(None, [match[2]])), markdown)

    def site_link(match):
        target, anchor = match[1], match[2] or ""
        if "://" in target:
            return match[0]
        path = Path(os.path.normpath(source.parent / target))
        return os.path.relpath(site_path(path), os.path.dirname(page.file.src_uri)) + anchor

    return LINK.sub(site_link, markdown)


def commands():
    """The help of every command."""
    os.environ["COLUMNS"] = "100"
    lines = []
    for name in COMMANDS:
        text = CommandParser(name).format_help().rstrip()
        lines += [f"## g2netpl {name}", "", "```text", text, "```", ""]
    return "\n".join(lines)


def options():
    """The options of every method."""
    lines = []
    for name, entry in METHODS.items():
        lines += [f"### `{name}`", "", f"{entry.summary}. {entry.source}.", ""]
        if entry.grid:
            key, values = entry.grid
            tried = ", ".join("none" if value is None else f"{value:g}" for value in values)
            lines += [f"`--search-weights` tries `{key}` {tried}.", ""]
        defaults = entry.options({})
        fields = type(defaults).model_fields
        if fields:
            lines += table_of(fields, {key: getattr(defaults, key) for key in fields})
        lines.append("")
    return "\n".join(lines)


def keys():
    """The keys of the configuration, without those of the method."""
    fields = {key: field for key, field in RunConfig.model_fields.items() if key != "options"}
    required = {key for key, field in fields.items() if field.is_required()}
    defaults = {key: field.get_default(call_default_factory=True) for key, field in fields.items()}
    return "\n".join(table_of(fields, defaults | dict.fromkeys(required, "required")))


def table_of(fields, defaults):
    """A row per field of a pydantic model."""
    lines = ["| key | default | meaning |", "| --- | --- | --- |"]
    for key, field in fields.items():
        value, meaning = defaults[key], (field.description or "").replace("|", "\\|")
        shown = "none" if value is None or value == () else value
        lines.append(f"| `{key}` | {shown} | {meaning} |")
    return lines


def public_names(module):
    """The public names of a module; names of `g2netpl` are documented there only."""
    earlier = importlib.import_module("g2netpl").__all__ if module != "g2netpl" else []
    names = importlib.import_module(module).__all__
    lines = [f"## {module}", "", f"::: {module}", "    options:"]
    lines += ["      show_root_heading: false", "      show_root_toc_entry: false"]
    lines += ["      members: false", ""]
    repeated = [f"`{name}`" for name in names if name in earlier]
    if repeated:
        lines += ["Also here: " + ", ".join(repeated), ""]
    for name in names:
        if name not in earlier:
            lines += [f"::: {module}.{name}", ""]
    return "\n".join(lines)
