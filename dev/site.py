"""What `make docs` does besides: pages outside docs, and the list of public names.

The docs link to files of the repository (sources, examples, the lab notebook). Each file that is
linked becomes a page of the site below repository/, so that every link works without a network.
"""

import importlib
import os
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
PUBLIC = re.compile(r"<!-- public: (\S+) -->")


def place(path):
    """Where a file of the repository is on the site."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    name = f"repository/{path.relative_to(ROOT).as_posix()}"
    return f"{name}.md" if path.suffix == ".py" else name


def origin(name):
    """The file of the repository that a page of the site shows."""
    inside = name.removeprefix("repository/")
    return DOCS / name if inside == name else ROOT / inside.removesuffix(".py.md").rstrip("/")


def linked(page, text):
    """The files of the repository that a page links to."""
    for target, _ in LINK.findall(text):
        if "://" not in target:
            yield Path(os.path.normpath(page.parent / target))


def on_files(files, config):
    """Add every file outside docs that can be reached by links."""
    waiting = sorted(DOCS.rglob("*.md"))
    seen = set(waiting)
    while waiting:
        page = waiting.pop()
        for path in linked(page, page.read_text(encoding="utf-8")):
            if path in seen or path.is_relative_to(DOCS) or not path.is_file():
                continue
            seen.add(path)
            if path.suffix == ".py":
                text = f"# {path.name}\n\n```python\n{path.read_text(encoding='utf-8')}```\n"
                files.append(File.generated(config, place(path), content=text))
            else:
                files.append(File.generated(config, place(path), abs_src_path=str(path)))
            if path.suffix == ".md":
                waiting.append(path)
    return files


def on_page_markdown(markdown, page, config, files):
    """Links as the site has them, and the public names."""
    if page.file.src_uri.endswith(".py.md"):
        return markdown
    source = origin(page.file.src_uri)
    markdown = PUBLIC.sub(lambda found: public_names(found[1]), markdown)

    def there(found):
        target, anchor = found[1], found[2] or ""
        path = Path(os.path.normpath(source.parent / target))
        if "://" in target:
            return found[0]
        return os.path.relpath(place(path), os.path.dirname(page.file.src_uri)) + anchor

    return LINK.sub(there, markdown)


def public_names(module):
    """A part per name that a door of the package shows; what an earlier door has is named only."""
    earlier = importlib.import_module("g2netpl").__all__ if module != "g2netpl" else []
    names = getattr(importlib.import_module(module), "__all__", [])
    own = [name for name in names if name not in earlier]
    lines = [f"## {module}", "", f"::: {module}", "    options:"]
    lines += ["      show_root_heading: false", "      show_root_toc_entry: false"]
    lines += ["      members: false", ""]
    if len(own) < len(names):
        lines += ["Also here: " + ", ".join(f"`{name}`" for name in names if name in earlier), ""]
    for name in own:
        lines += [f"::: {module}.{name}", ""]
    return "\n".join(lines)
