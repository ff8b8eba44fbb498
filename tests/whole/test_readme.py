"""What README and the first pages of docs show must run as it stands."""

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
START = ROOT / "docs" / "start"


def blocks(language, page):
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


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


def test_the_python_lines_run(user_folder, capsys):
    code, *_ = blocks("python", START / "python.md")  # the others are run in test_frames
    exec(compile(code, "python.md", "exec"), {})
    assert "labels are known" in capsys.readouterr().out
    assert (user_folder / "runs" / "first" / "result.json").is_file()


@pytest.mark.parametrize(
    ("page", "least"), [(README, 5), (START / "own-photos.md", 12)], ids=["README", "own-photos"]
)
def test_the_shell_lines_run(user_folder, page, least):
    lines = [
        line.partition("#")[0].strip()
        for block in blocks("sh", page)
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("g2netpl")
    ]
    assert len(lines) >= least
    for line in lines:
        arguments = shlex.split(line)[1:]
        build_parser().parse_args(arguments)
        shown = ("check", "train", "report", "predict", "complete", "export", "methods")
        if arguments[0] in shown:  # shortened
            short = (
                ["--epochs", "1", "--image-size", "64"]
                if arguments[:2] == ["train", "--labels"]
                else []
            )
            assert main([*arguments, *short]) == 0
        elif arguments[0] == "review":  # the page has tests of its own; here one answer is given
            with closing(ReviewSession(arguments[1])) as review:
                (question,) = review.questions("useful", 1)
                review.decide("0" * 32, question["row"], question["column"], "yes", "useful")


@pytest.mark.parametrize(
    "page",
    [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda page: page.name,
)
def test_commands_in_the_docs_have_flags_that_exist(page):
    for block in blocks("sh", page):
        for line in block.replace("\\\n", " ").splitlines():
            line = line.removeprefix("$ ")
            if line.startswith("g2netpl"):
                build_parser().parse_args(shlex.split(line.partition(" #")[0])[1:])


def test_readme_is_one_screen_with_a_picture_and_the_two_commands():
    text = README.read_text(encoding="utf-8")
    assert len(README.read_bytes()) <= 6000
    assert re.search(r"^!\[.+\]\(docs/screens/.+\)$", text, flags=re.MULTILINE)
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", "".join(blocks("sh", README)), flags=re.MULTILINE):
        assert f"\n{target}:" in targets
    assert "\nmake demo" in text
    assert "\nmake test" in text
    assert f"[{len(METHODS)} methods](docs/method/methods.md)" in text


def test_the_tree_of_readme_is_the_rooms():
    (tree,) = blocks("text", README)
    first, *rest = tree.splitlines()
    assert first == "src/g2netpl/"
    rows = [re.fullmatch(r"  (\w+)/ +(\S.+)", line) for line in rest]
    assert tuple(row[1] for row in rows) == ROOMS


def test_the_figures_of_readme_are_those_of_the_results():
    """Its four rows: ours, the best baseline of the paper, the best later method, the ceiling."""
    page = (ROOT / "docs" / "method" / "results.md").read_text(encoding="utf-8")
    found = {}
    for line in page.partition("## All methods, weights searched")[2].splitlines():
        if line.startswith("| "):
            name, *figures = cells(line)
            if len(figures) == 6:
                found[name.strip("`")] = [re.sub(r" ± [\d.]+", "", each) for each in figures]
    baselines = ["an", "an-ls", "wan", "epr", "role"]
    later = ["plmcl", "asl", "hill", "splc", "ll-r", "ll-ct", "ll-cp", "em", "em-apl", "gr", "ups"]

    def best(names, column):
        name = max(names, key=lambda each: float(found[each][column].split(" / ")[0]))
        return name, found[name][column]

    rows = [cells(line) for line in README.read_text(encoding="utf-8").splitlines() if "|" in line]
    ours, baseline, after, ceiling = rows[2:]
    ranking = (ROOT / "docs" / "method" / "observation.md").read_text(encoding="utf-8")
    ranking = ranking.partition("| COCO FSPL | COCO SSPL 20 % |")[2]
    game = next(cells(line) for line in ranking.splitlines() if line.startswith("| `g2netpl` |"))
    assert ours == ["`g2netpl`", game[4], game[3]]
    for row, names in ((baseline, baselines), (after, later)):
        few, all_of_them = best(names, 0), best(names, 4)
        assert row[1:] == [few[1], all_of_them[1]]
        assert f"(`{few[0]}`; `{all_of_them[0]}`)" in row[0]
    assert "`bce` 62.7 ± 0.1" in page
    assert ceiling[1:] == ["62.7 / 62.7"] * 2
