"""docs/start/tour.md is followed from the first line to the last, in an empty folder.

Trainings are cut short, so figures may differ, but every line that the tour shows must be said:
numbers apart, by the same words; where nothing is random, with the same numbers.
"""

import re
import shlex
from pathlib import Path

import pytest

from g2netpl.cli import COMMANDS, build_parser, main

PAGE = (Path(__file__).parents[2] / "docs" / "start" / "tour.md").read_text(encoding="utf-8")
SHORT = {
    "train": ["--epochs", "2", "--workers", "0"],
    "compare": ["--epochs", "1"],
    "features": ["--image-size", "32", "--workers", "0"],
}
EXACT = ("check", "convert")


def steps():
    """Each command of the page, and the lines it is said to print; tables apart."""
    for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL):
        assert block.startswith("$ "), block
        for part in block.replace("\\\n", " ").removeprefix("$ ").split("\n$ "):
            command, *lines = part.strip().splitlines()
            yield shlex.split(command), [line for line in lines if line[0] not in "…┏┃┡│├└"]


def in_words(line):
    """A line without its numbers, its columns and what is cut off with …"""
    line = re.sub(r"[-+]?\d[\d,.]*", "#", line.partition("…")[0])
    return " ".join(line.split())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def test_the_tour_can_be_followed(folder, capsys):
    for words, shown in steps():
        if words[0] == "python":
            assert words[1] == "-c"
            exec(words[2], {})
            continue
        name, arguments = words[1], words[1:]
        assert words[0] == "g2netpl"
        if name == "review" and "--export" not in arguments:
            build_parser().parse_args(arguments)  # waits for a browser; it has tests of its own
            continue
        assert main([*arguments, *SHORT.get(name, [])]) == 0, words
        said = capsys.readouterr().out.splitlines()
        form = str.strip if name in EXACT else in_words
        there = [form(line) for line in said]
        for line in shown:
            begin = form(line.partition("…")[0])
            assert any(each.startswith(begin) for each in there), (words, line, said)
    for name in ("check.html", "runs/first/report.html", "completed.csv", "digits.onnx"):
        assert (folder / name).stat().st_size > 1000


def test_the_tour_shows_every_command():
    used = {words[1] for words, _ in steps() if words[0] == "g2netpl"}
    for name in COMMANDS:
        assert name in used or f"`g2netpl {name}" in PAGE, name
