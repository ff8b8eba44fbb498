"""Docs and messages use the terms of docs/glossary.md, and none of fifteen older words."""

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
