"""The commands of the docs parse, those of README run, and its numbers are those of the results."""

import re
import shlex
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from test_architecture import ROOMS

from g2netpl.cli import build_parser, main
from g2netpl.core.methods import METHODS
from g2netpl.review.session import ReviewSession

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"


def blocks(language, page):
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands(page):
    """Every command of g2netpl that a page shows, as a list of words."""
    for block in blocks("sh", page):
        for line in block.replace("\\\n", " ").splitlines():
            line = line.removeprefix("$ ").strip()
            if line.startswith("g2netpl "):
                yield shlex.split(line.partition(" #")[0])[1:]


def cells(line):
    return [cell.strip(" *") for cell in line.strip("|").split("|")]


@pytest.fixture
def user_folder(photos, tmp_path, monkeypatch):
    """labels.csv and photos/, as the pages assume them."""
    shutil.copytree(photos, tmp_path / "photos")
    (tmp_path / "labels.csv").write_text((photos / "train.csv").read_text())
    shutil.copy(photos / "test-00000.png", tmp_path / "photos" / "new.jpg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize(
    "page",
    [README, ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))],
    ids=lambda page: page.name,
)
def test_commands_have_flags_that_exist(page):
    for arguments in commands(page):
        build_parser().parse_args(arguments)


def test_the_commands_of_readme_run(user_folder):
    ran = []
    for arguments in commands(README):
        name = arguments[0]
        if name in ("check", "train", "report", "complete"):
            short = ["--epochs", "1", "--image-size", "64"] if name == "train" else []
            assert main([*arguments, *short]) == 0
            ran.append(name)
        elif name == "review":  # the page has its own tests; here one answer is given
            with closing(ReviewSession(arguments[1])) as review:
                (question,) = review.questions("useful", 1)
                review.decide("0" * 32, question["row"], question["column"], "yes", "useful")
            ran.append(name)
    assert ran == ["check", "train", "report", "review", "complete"]


def test_readme_is_one_screen_with_a_picture():
    text = README.read_text(encoding="utf-8")
    assert len(README.read_bytes()) <= 6000
    assert re.search(r"^!\[.+\]\(docs/screens/.+\)$", text, flags=re.MULTILINE)
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    makes = re.findall(r"^make (\w+)", "".join(blocks("sh", README)), flags=re.MULTILINE)
    assert {"demo", "test"} <= set(makes)
    for target in makes:
        assert f"\n{target}:" in targets
    assert f"[{len(METHODS)} methods](docs/reference/methods.md)" in text


def test_the_tree_of_readme_is_the_packages():
    (tree,) = blocks("text", README)
    first, *rest = tree.splitlines()
    assert first == "src/g2netpl/"
    rows = [re.fullmatch(r"  (\w+)/ +(\S.+)", line) for line in rest]
    assert tuple(row[1] for row in rows) == ROOMS


def test_the_numbers_of_readme_are_those_of_the_results():
    """Its four rows: ours, the best baseline of the paper, the best later method, full labels."""
    page = (DOCS / "explanation" / "results.md").read_text(encoding="utf-8")
    found = {}
    for line in page.splitlines():
        if line.startswith("| `"):
            name, *numbers = cells(line)
            if len(numbers) == 5:
                found[name.strip("`")] = [re.sub(r" ± [\d.]+", "", text) for text in numbers]

    def best(names, column):
        name = max(names, key=lambda name: float(found[name][column].split(" / ")[0]))
        return name, found[name][column]

    rows = [cells(line) for line in README.read_text(encoding="utf-8").splitlines() if "|" in line]
    ours, baseline, later, full = rows[2:]
    for name, row in (("g2netpl", ours), ("bce", full)):
        assert f"| {row[1]} | {row[2]} |" in page, name
    for row, names in ((baseline, ["an", "wan", "epr", "role"]), (later, ["em-apl", "plmcl"])):
        few, every = best(names, 0), best(names, 4)
        assert row[1:] == [few[1], every[1]]
        assert f"(`{few[0]}`; `{every[0]}`)" in row[0]
