"""`methods NAME --check`: a method that keeps to the rules passes, and each mistake is named."""

from pathlib import Path

import pytest

from g2netpl.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples/own_method.py"
READ = "        mean, known = self.mean.read(batch.rows), batch.observed != UNOBSERVED"
KEPT = """
def kept(setup):
    from types import SimpleNamespace

    means = torch.full((len(setup.observed), setup.observed.shape[1]), 0.5)
    return SimpleNamespace(
        read=lambda rows: means[rows],
        write=means.__setitem__,
        reader=lambda: means.clone().__getitem__,
    )
"""
FORGETFUL = """        self.seen = getattr(self, "seen", 0) + 1
        mean = self.mean.read(batch.rows) / self.seen
        known = batch.observed != UNOBSERVED"""


def checked(path):
    return main(["methods", "steady", "--plugin", str(path), "--check"])


def test_the_example_and_ours_pass(capsys):
    assert checked(EXAMPLE) == 0
    names = ("proposals", "observed labels", "resume", "soft labels")
    assert capsys.readouterr().out.splitlines() == [f"{name}: ok" for name in names]
    assert main(["methods", "role", "--check"]) == 0
    assert main(["methods", "--check"]) == 2
    assert "expected the name of a method" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "after", "check", "words"),
    [
        (READ, FORGETFUL, "resume", "keep what it learns in self.remember"),
        (
            'self.remember(setup, "mean", 0.5)',
            "kept(setup)",
            "resume",
            "keep what it learns in self",
        ),
        (
            "        sure = ",
            "        batch.observed[:] = 1\n        sure = ",
            "observed labels",
            "it writes into batch.observed",
        ),
        ("return Proposal(targets,", "return Proposal(2 * targets,", "proposals", "0 to 1, got 2"),
        ("return Proposal(targets,", "return Proposal(targets[:1],", "proposals", "targets: exp"),
        (
            "        self.observed = setup.observed\n",
            "",
            "soft labels",
            "it must set self.observed",
        ),
        ("read(rows), observed)", "read(rows), 0.5)", "soft labels", "observed entries must have"),
        ("read(rows), observed)", "3 + read(rows), observed)", "soft labels", "expected 0 to 1"),
        ("read(rows), observed)", "read(rows), observed)[:2]", "soft labels", "got (2, 4)"),
        ("self.mean.reader()", "self.mean.read", "soft labels", "has moved in the epoch after"),
    ],
)
def test_each_mistake_is_named(tmp_path, capsys, before, after, check, words):
    text = EXAMPLE.read_text(encoding="utf-8")
    assert before in text
    path = tmp_path / "mine.py"
    path.write_text(text.replace(before, after) + KEPT, encoding="utf-8")
    assert checked(path) == 2
    said = capsys.readouterr()
    (line,) = [each for each in said.out.splitlines() if each.startswith(f"{check}: ")]
    assert words in line
    assert said.err.startswith("g2netpl: method steady: ")
    assert check in said.err


def test_what_fails_in_the_code_is_told_by_its_line(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text(EXAMPLE.read_text(encoding="utf-8").replace(READ, "        nothing_of_this"))
    assert checked(path) == 2
    assert f"in your plugin {path}:" in capsys.readouterr().err
