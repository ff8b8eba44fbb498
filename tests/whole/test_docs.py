"""The pages in docs: what they show runs, and they point at files that exist."""

import csv
import importlib
import math
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from test_architecture import ROOMS

import g2netpl
from g2netpl.core import Batch, Output
from g2netpl.core.equations import best_response
from g2netpl.core.methods import METHODS, build_method

ROOT = Path(__file__).parents[2]
LOG = ROOT / "dev" / "log"
DOCS = ROOT / "docs"
SHELVES = ("start", "use", "method", "develop")
PAGES = [
    *sorted(DOCS.rglob("*.md")),
    *sorted(LOG.glob("*.md")),
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / ".github").rglob("*.md")),
    ROOT / "examples" / "README.md",
]
FOLDERS = ("benchmarks", "dev", "docs", "examples", "src", "tests", ".github")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def text_of(page):
    return (DOCS / page).read_text(encoding="utf-8")


def anchors(page):
    """The headings of a page, as a link names them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for heading in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE):
        words = re.sub(r"[^\w\s-]", "", heading.lower()).strip()
        yield re.sub(r"\s", "-", words)


@each_page
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(
        r"\]\(([^)#\s]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")
    ):
        if "://" not in target:
            path = page.parent / target if target else page
            assert path.exists(), target
            assert not anchor or anchor in anchors(path), (target, anchor)


@each_page
def test_paths_that_are_named_are_there(page):
    """Those from the root of the repository, and modules by their room."""
    for name in re.findall(r"(?<!`)`([^`\s]+)`(?!`)", page.read_text(encoding="utf-8")):
        first = name.partition("/")[0]
        if first in FOLDERS and "/" in name:
            assert list(ROOT.glob(name.partition("::")[0])), name
        elif first in ROOMS and name.endswith(".py") and "trusting" not in name:
            assert (ROOT / "src" / "g2netpl" / name).is_file(), name


def test_every_page_is_on_a_shelf_and_in_the_index_and_on_the_site():
    there = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"index.md"}
    assert {name.partition("/")[0] for name in there} == set(SHELVES)
    assert set(re.findall(r"\]\(([^)#]+)", text_of("index.md"))) >= there
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"- .+: (.+\.md)$", site, flags=re.MULTILINE)) == there | {"index.md"}


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
    names = (tmp_path / "use" / "api" / "index.html").read_text(encoding="utf-8")
    doors = ("g2netpl", "g2netpl.core", "g2netpl.experiments")
    for name in {name for door in doors for name in importlib.import_module(door).__all__}:
        assert re.search(rf'id="g2netpl\.[\w.]*{name}"', names), name


def test_the_versions_are_one():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]
    assert g2netpl.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[(\d.*?)\] - \d{4}-\d\d-\d\d$", changes, flags=re.MULTILINE)
    assert released[0] == version


def test_the_rooms_of_architecture_md_are_the_rooms():
    rows = re.findall(
        r"^\| `(\w+)` \| .+ \|$", text_of("develop/architecture.md"), flags=re.MULTILINE
    )
    assert tuple(rows) == ROOMS


def test_a_training_and_its_report_take_the_steps_of_architecture_md(small_training, tmp_path):
    """Each step is first finished after the one before; no step goes back to an earlier room."""
    from g2netpl.reports.run import write_run_report

    rows = re.findall(
        r"^\| \d+ \| `([\w/]+)` \| `([\w.]+)` \|",
        text_of("develop/architecture.md"),
        flags=re.MULTILINE,
    )
    assert len(rows) == 10
    rooms = [ROOMS.index(module.partition("/")[0]) for module, _ in rows]
    assert rooms == sorted(rooms)
    codes = {}
    for module, name in rows:
        found = importlib.import_module("g2netpl." + module.replace("/", "."))
        for part in name.split("."):
            found = getattr(found, part)
        codes[found.__code__] = name
    finished = []

    def watch(frame, event, _):
        name = codes.get(frame.f_code)
        if event == "return" and name is not None and name not in finished:
            finished.append(name)

    sys.setprofile(watch)
    try:
        run = g2netpl.train(g2netpl.RunConfig(**small_training()))
        write_run_report(run.folder, tmp_path / "report.html")
    finally:
        sys.setprofile(None)
    assert finished == [name for _, name in rows]


def test_the_table_of_the_log_has_every_file_with_its_question_and_answer():
    rows = re.findall(
        r"^\| (.+) \| (.+) \| .+ \| \[(.+)\]\(\3\) \|$",
        (LOG / "README.md").read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    assert sorted(name for *_, name in rows) == sorted(
        page.name for page in LOG.glob("*.md") if page.name != "README.md"
    )
    for question, answer, name in rows:
        text = " ".join((LOG / name).read_text(encoding="utf-8").split())
        assert text.startswith(f"# {question} {answer} "), name


def test_the_method_of_extending_md_works_as_it_stands():
    text = text_of("develop/extending.md")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    exec(compile(code, "extending.md", "exec"), {})
    try:
        observed = torch.tensor([[1, -1, -1]], dtype=torch.int8)
        output = Output(torch.tensor([[0.2, 0.95, 0.4]]).logit())
        loss = build_method("trusting", observed).loss(
            output, Batch(torch.tensor([0]), observed), 0.0
        )
    finally:
        del METHODS["trusting"]
    assert float(loss) == pytest.approx(-(math.log(0.2) + math.log(0.95)) / 3)


def test_the_page_of_methods_is_made_from_the_catalogue():
    made = runpy.run_path(str(ROOT / "dev/methods_page.py"))["methods_page"]()
    assert text_of("method/methods.md") == made
    for name in METHODS:
        assert f"## `{name}`" in made


@pytest.mark.parametrize(("strength", "convex"), [(0.5, True), (0.6, False)])
def test_what_game_md_says_about_convexity(strength, convex):
    soft = torch.linspace(1e-4, 1 - 1e-4, 20_001, dtype=torch.float64)
    predicted = torch.linspace(0, 1, 201, dtype=torch.float64)[:, None]
    curvature = predicted / soft**2 + (1 - predicted) / (1 - soft) ** 2 - 2 * strength
    assert bool((curvature >= -1e-3).all()) is convex


def test_what_game_md_says_about_the_cubic():
    predicted = torch.linspace(0.01, 0.99, 99)
    for strength in (0.3, 1.0, 1.9, 3.0):
        u = best_response(predicted, strength) - 0.5
        residual = 2 * strength * u**3 + (1 - strength / 2) * u - (predicted - 0.5)
        assert residual.abs().max() < 1e-5


def test_the_tables_of_results_md_say_what_their_files_say():
    page = text_of("method/results.md")
    written = {}
    for path in (DOCS / "figures").glob("*-rows.csv"):
        with path.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["best epoch"]:
                    texts = written.setdefault(row.get("row", row["method"]), set())
                    pairs = [
                        (float(row[f"{which} epoch"]), float(row[f"± {which}"] or "nan"))
                        for which in ("best", "last")
                    ]
                    best, last = (f"{mean:.1f} ± {deviation:.1f}" for mean, deviation in pairs)
                    texts |= {f"{best} / {last}", f"{best} / {pairs[1][0]:.1f}"}
                    if row.get("published"):
                        published = float(row["published"])
                        texts.add(f"{best} / {pairs[1][0]:.1f} ({published:.1f})")
    checked = 0
    for line in page.splitlines():
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        figures = {cell.strip("*") for cell in cells if " ± " in cell}
        assert figures <= written.get(name.strip("*`"), set()), name
        checked += len(figures)
    assert checked > 140
