"""What a person sees: no text commands the terminal, and no stream stops the work."""

import csv
import io
import os
import shutil
import unicodedata

import pytest
from PIL import Image
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

from g2netpl.cli import main
from g2netpl.utils.console import Console, shown

EVIL = {  # a name, and how it is to be seen
    "cat\x1b[31m\x1b]0;title\x07": r"cat\x1b[31m\x1b]0;title\x07",
    "c1\x9b2J": r"c1\x9b2J",
    "ab\u202egpj": r"ab\u202egpj",
    "over\rwritten": r"over\rwritten",
    "two\na training may begin": r"two\na training may begin",
    "[red]b[/red]": "[red]b[/red]",
    "[/x]c": "[/x]c",
    ":cat:": ":cat:",
}
LABELS = {name: seen for name, seen in EVIL.items() if "\r" not in name}  # which is rejected
BYTES = os.fsdecode(b"caf\xe9")  # in Latin-1


def commands_in(text):
    """What a terminal would obey or hide, by the tables of Unicode."""
    turns = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    return [
        character
        for character in text.replace("\n", "")
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(character) in turns
        or character in "\u061c\u200b\u200e\u200f\ufeff"
    ]


def test_no_character_that_commands_a_terminal_is_left():
    for start in range(0, 0x110000, 0x1000):
        text = "".join(map(chr, range(start, start + 0x1000)))
        assert not commands_in(shown(text))
    assert "\n" not in shown("a\nb")
    for harmless in ("naïve", "дом", "猫", "👩\u200d🔬", "می\u200cخواهم", "a\\b", "½ · … [x]"):
        assert shown(harmless) == harmless


@pytest.mark.parametrize("name", EVIL)
def test_names_on_a_console_are_shown_and_not_obeyed(name):
    heard = io.StringIO()
    console = Console(file=heard, force_terminal=True, width=200)
    table = Table(name, title=name)
    table.add_row(name)
    console.print(name)
    console.print(table)
    console.print(Text(name))
    with Progress(TextColumn("{task.description}", markup=False), console=console) as progress:
        progress.add_task(name)
    text = heard.getvalue()
    first = EVIL[name].partition(r"\n")[0]
    assert text.count(first) >= 4  # Rich leaves some out of a Text by itself
    for piece in ("\x1b[31m", "\x1b]", "\x07", "\x9b", "\u202e", "over\r", "🐱"):
        assert piece not in text


@pytest.fixture
def evil_labels(tmp_path):
    """Label file and images with every such name; one of them is missing, one is no image."""
    folder = tmp_path / "photos"
    folder.mkdir()
    names = [f"{name.replace('/', '')}.png" for name in LABELS]
    for name in names[1:]:
        Image.new("RGB", (16, 16)).save(folder / name)
    (folder / names[2]).write_text("no image")
    with open(tmp_path / "labels.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["image", *LABELS])
        for row, name in enumerate(names):
            writer.writerow([name, *(int(row == column) for column in range(len(LABELS)))])
    return tmp_path / "labels.csv", folder


def test_check_shows_hostile_names(evil_labels, capsys):
    labels, folder = evil_labels
    assert main(["check", "--labels", str(labels), "--images", str(folder)]) == 2
    shown_to_all = capsys.readouterr()
    assert not commands_in(shown_to_all.out + shown_to_all.err)
    for seen in LABELS.values():
        assert f"\n{seen} " in shown_to_all.out
    assert "\nReady to train." not in shown_to_all.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "--labels", "\x1b[2J\u202e.csv"],
        ["predict", "run", "--images", "\x1b[2J\u202e", "--output", "a.csv"],
        ["check", "--labels", "a.csv", "--\x1b[2J\u202e"],
        ["\x1b[2J\u202e"],
    ],
    ids=str,
)
def test_errors_show_hostile_names(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(arguments)
    except SystemExit as told:  # argparse
        code = told.code
    assert code == 2
    error = capsys.readouterr().err
    assert not commands_in(error)
    assert r"\x1b[2J" in error
    assert error.count("\n") == 1


def test_an_image_that_no_table_can_name_is_refused(small_run, photos, tmp_path, capsys):
    image = tmp_path / f"{BYTES}.png"
    shutil.copy(next(photos.glob("*.png")), image)
    for where in (image, tmp_path):
        arguments = ["predict", str(small_run), "--images", str(where)]
        assert main([*arguments, "--output", str(tmp_path / "a.csv")]) == 2
        assert "rename it" in capsys.readouterr().err
