"""What README shows must run as it stands."""

import re
import shlex
from contextlib import closing
from pathlib import Path

import pytest

from g2netpl.cli import build_parser, main
from g2netpl.reports.methods import markdown_table
from g2netpl.review.session import Review

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture
def user_folder(photos, tmp_path, monkeypatch):
    """labels.csv and photos/, as README assumes them."""
    (tmp_path / "photos").symlink_to(photos)
    (tmp_path / "labels.csv").write_text((photos / "train.csv").read_text())
    (photos / "new.jpg").write_bytes((photos / "test-00000.png").read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_the_python_lines_run(user_folder, capsys):
    (code,) = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    assert "labels are known" in capsys.readouterr().out
    assert (user_folder / "runs" / "first" / "result.json").is_file()


def test_the_shell_lines_run(user_folder):
    lines = [
        line.partition("#")[0].strip()
        for block in blocks("sh")
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("g2netpl")
    ]
    assert len(lines) >= 4
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
            with closing(Review(arguments[1])) as review:
                (question,) = review.questions("useful", 1)
                review.decide("0" * 32, question["row"], question["column"], "yes", "useful")


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_commands_in_the_docs_have_flags_that_exist(page):
    for block in re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            line = line.removeprefix("$ ")
            if line.startswith("g2netpl"):
                build_parser().parse_args(shlex.split(line.partition(" #")[0])[1:])


def test_the_table_of_methods_is_the_catalogue():
    assert markdown_table() in README
