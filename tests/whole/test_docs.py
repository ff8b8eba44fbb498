"""The pages of the repository: links, structure, generated parts, and the numbers in tables."""

import csv
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import g2netpl
from g2netpl.core.methods import METHODS

ROOT = Path(__file__).parents[2]
LOG, DOCS = ROOT / "dev" / "log", ROOT / "docs"
PAGES = [
    *sorted(DOCS.rglob("*.md")),
    *sorted(LOG.glob("*.md")),
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / ".github").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
FOLDERS = ("benchmarks", "dev", "docs", "examples", "src", "tests", ".github")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def text_of(page):
    return (DOCS / page).read_text(encoding="utf-8")


def anchors(page):
    """The headings of a page, as a link names them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for heading in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE):
        words = re.sub(r"[^\w\s-]", "", heading.lower()).strip()
        yield re.sub(r"\s", "-", words)


@every_page
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", text):
        if "://" not in target:
            path = page.parent / target if target else page
            assert path.exists(), target
            assert not anchor or anchor in anchors(path), (target, anchor)


@every_page
def test_paths_in_the_text_exist(page):
    for name in re.findall(r"(?<!`)`([^`\s]+)`(?!`)", page.read_text(encoding="utf-8")):
        if name.partition("/")[0] in FOLDERS and "/" in name:
            assert list(ROOT.glob(name.partition("::")[0])), name


def test_every_page_is_in_the_navigation():
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"- .+: (.+\.md)$", site, flags=re.MULTILINE)
    assert sorted(listed) == sorted(
        page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")
    )


def test_the_docs_stay_small():
    pages = sorted(DOCS.rglob("*.md"))
    assert len(pages) <= 23  # 22 and the glossary
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= 19_000


def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    loaded = (
        r"<(?:script|img|iframe|source)[^>]+src=[\"']?(?:https?:)?//|<link[^>]+href=[\"']?https?:"
    )
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(list(DOCS.rglob("*.md")))
    for page in pages:
        assert not re.search(loaded, page.read_text(encoding="utf-8")), page

    def page_of(name):
        return (tmp_path / "reference" / name / "index.html").read_text(encoding="utf-8")

    for module in ("g2netpl", "g2netpl.core", "g2netpl.experiments"):
        for name in importlib.import_module(module).__all__:
            assert re.search(rf'id="g2netpl\.[\w.]*{name}"', page_of("python")), name
    assert "--expected-positives" in page_of("command-line")
    for name in METHODS:
        assert f'<h3 id="{name}">' in page_of("methods"), name


def test_the_versions_are_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert g2netpl.__version__ == project["version"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {project['version']}\n" in citation
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[(\d.*?)\] - \d{4}-\d\d-\d\d$", changes, flags=re.MULTILINE)
    assert released[0] == project["version"]


def test_the_index_of_the_log_has_one_line_per_question():
    index = (LOG / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^- \[(.+\?)\]\((.+\.md)\): .+$", index, flags=re.MULTILINE)
    there = {page.name for page in LOG.glob("*.md")} - {"README.md"}
    assert sorted(name for _, name in rows) == sorted(there)
    for question, name in rows:
        assert (LOG / name).read_text(encoding="utf-8").startswith(f"# {question}"), name


def test_the_table_of_methods_is_complete():
    rows = re.findall(
        r"^\| `(.+)` \| (.+) \| (.+) \| (.+) \|$", text_of("reference/methods.md"), re.M
    )
    entries = METHODS.items()
    assert rows == [(name, row.summary, row.annotation, row.source) for name, row in entries]


def test_numbers_with_deviations_are_those_of_the_csv_files():
    written = {}
    for path in (DOCS / "figures").glob("*-rows.csv"):
        with path.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["best epoch"]:
                    texts = written.setdefault(row.get("row", row["method"]), set())
                    (best, _), (last, mean) = (number(row, which) for which in ("best", "last"))
                    texts |= {f"{best} / {last}", f"{best} / {mean:.1f}"}
                    if row.get("published"):
                        texts.add(f"{best} / {mean:.1f} ({float(row['published']):.1f})")
    checked = 0
    for line in text_of("explanation/results.md").splitlines():
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        numbers = {cell.strip("*") for cell in cells if " ± " in cell}
        assert numbers <= written.get(name.partition(", w ")[0].strip("*`"), set()), name
        checked += len(numbers)
    assert checked > 30


def number(row, which):
    """A mean with its deviation as a text, and the mean."""
    mean, deviation = float(row[f"{which} epoch"]), float(row[f"± {which}"] or "nan")
    return f"{mean:.1f} ± {deviation:.1f}", mean
