"""Docs and messages use the terms of docs/glossary.md, and none of fifteen older words."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES += [*sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
PRIVATE = re.compile(
    r"\b(alone|told|anew|can be had|goes on|stands in|lies in|rooms|house|doors|chances|experts"
    r"|trainings|undecided|beside)\b",
    flags=re.IGNORECASE,
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_the_terms_of_the_field(page):
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert PRIVATE.findall(text) == []


def _texts(path):
    """Messages and docstrings: all strings of a module with a space, without code in backticks."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield re.sub(r"`[^`]*`", "", node.value)


@pytest.mark.parametrize("package", ["utils", "images", "core", "training", "review"])
def test_messages_and_docstrings_use_the_terms_of_the_field(package):
    for path in sorted((ROOT / "src/g2netpl" / package).rglob("*.py")):
        for text in _texts(path):
            assert PRIVATE.findall(text) == [], (path.name, text)
