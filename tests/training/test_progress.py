"""The bar for the person who waits, on terminals of several widths."""

import io
import re

import pytest
from rich.console import Console

from g2netpl.training.progress import about, epoch_bar, following, image_bar

NOTE = "[an] unobserved_weight=0.05 sspl:0.2 seed 0 rate 0.0003 batch 64: epoch 3: cost 0.1"
RECORD = {"epoch": 2, "cost": 0.3, "validation_map": 0.25, "regret": 0.1, "undecided": 0.2}


def last_line(console):
    """What a terminal shows in the end."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    return plain.strip("\n").split("\n")[-1].split("\r")[-1].rstrip()


@pytest.fixture
def terminal(width):
    return Console(width=width, force_terminal=True, file=io.StringIO())


@pytest.mark.parametrize("width", [80, 120, 200])
def test_one_line_with_count_times_and_what_fits_of_the_note(terminal, width):
    with following(terminal, 30) as bar:
        bar.done("before")
        bar.say(NOTE)
    shown = last_line(terminal)
    assert re.match(r"training [━╸╺]+ +0:00:0\d +\S+ +1/30 ", shown)
    room = shown.split("1/30 ")[1]
    cut = room.removesuffix("…")
    assert NOTE.startswith(cut)
    assert len(shown) <= width
    assert room == NOTE or len(shown) == width  # all the room is used
    assert (room == NOTE) == (width == 200)


@pytest.mark.parametrize("width", [80, 120])
def test_an_epoch_is_told_beside_its_bar(terminal, width):
    with epoch_bar(terminal, 4, 10) as bar:
        bar.advance(20)
        bar.epoch(RECORD)
    shown = last_line(terminal)
    assert shown.startswith("epoch 2 ━")
    assert "cost 0.3000 · mAP 25.0% · regret 0.100" in shown
    assert len(shown) <= width


@pytest.mark.parametrize("width", [80, 200])
def test_a_bar_without_a_note_is_short(terminal, width):
    with image_bar(terminal, "features", 100) as advance:
        advance(7)
    assert re.match(r"features [━╸╺]+ 0:00:0\d \S+ +7/100$", last_line(terminal))


def test_without_a_terminal_a_line_each():
    console = Console(file=io.StringIO(), width=80)
    with following(console, 2) as bar:
        bar.say(NOTE)
        bar.done("first")
    with epoch_bar(console, 4, 10) as bar:
        bar.epoch(RECORD)
    assert console.file.getvalue().splitlines()[:2] == [NOTE, "1/2 first"]
    assert "epoch 2: cost 0.3000" in console.file.getvalue()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (59, "less than a minute"),
        (75, "about a minute"),
        (125, "about 2 minutes"),
        (5300, "about 88 minutes"),
        (5400, "about 1.5 hours"),
        (4_000_000, "about 1,111.1 hours"),
    ],
)
def test_durations_are_for_people(seconds, words):
    assert about(seconds) == words
