"""The pages in docs: what they show runs, and they point at files that exist."""

import csv
import re
from pathlib import Path

import pytest
import torch

from g2netpl.game.batches import Batch
from g2netpl.game.equations import best_response
from g2netpl.game.methods import METHODS
from g2netpl.game.player import Setup

ROOT = Path(__file__).parents[2]
LOG = ROOT / "dev" / "log"
PAGES = [page for folder in (ROOT / "docs", LOG, ROOT) for page in sorted(folder.glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


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
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names = {}
    exec(compile(code, "extending.md", "exec"), names)
    observed = torch.tensor([[1, -1, -1]], dtype=torch.int8)
    player = names["TrustingPlayer"](Setup(observed, 1.0, 1e-3), names["TrustingOptions"]())
    batch = Batch(torch.tensor([0]), torch.zeros(1, 2), observed)
    proposal = player.propose(batch, 0.0, lambda inputs: torch.tensor([[0.2, 0.95, 0.4]]))
    assert proposal.targets.tolist() == [[1, 1, 0]]
    assert proposal.weights.tolist() == [[1, 1, 0]]


def test_the_page_of_methods_is_made_from_the_catalogue():
    from g2netpl.reports.methods import methods_page

    assert (ROOT / "docs" / "methods.md").read_text(encoding="utf-8") == methods_page()
    for name in METHODS:
        assert f"## `{name}`" in methods_page()


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
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    written = {}
    for path in (ROOT / "docs" / "figures").glob("coco-*-rows.csv"):
        with path.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["best epoch"]:
                    texts = written.setdefault(row.get("row", row["method"]), set())
                    pairs = [
                        (float(row[f"{which} epoch"]), float(row[f"± {which}"]))
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
