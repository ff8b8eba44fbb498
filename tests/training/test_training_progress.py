"""What a training says of its epochs; time is given."""

import io
import re

import pytest

from g2netpl.training.progress import Epochs
from g2netpl.utils.console import Console

RECORD = {"epoch": 2, "cost": 0.3, "validation_map": 0.25, "regret": 0.1, "undecided": 0.2}


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def console(clock):
    return Console(file=io.StringIO(), width=80, get_time=clock)


def played(console, clock, seconds, *shape, steps):
    """What is said in some steps of 10 images that take so long."""
    with Epochs(console, *shape) as epochs:
        for _ in range(steps):
            clock.now += seconds
            epochs.advance(10)
    return console.file.getvalue().splitlines()


def test_the_first_steps_tell_how_long_it_will_take(console, clock):
    """10 epochs of 100 images at 10 s for 10 images are 1,000 s; the first step was slower."""
    clock.now -= 50
    with Epochs(console, 10, 100) as epochs:
        clock.now += 50
        for _ in range(20):
            clock.now += 10
            epochs.advance(10)
    told = [line for line in console.file.getvalue().splitlines() if "about" in line]
    assert told == ["about 17 minutes for 10 epochs"]


def test_a_line_says_which_epoch_it_is(console, clock):
    said = played(console, clock, 11, 5, 100, 20, steps=12)
    assert "epoch 21 of 25: 6%, 0.9 images/s, left 8:37" in said
    assert [line for line in said if line.startswith("epoch 22 of 25: 24%")]
    assert said[-1] == "training: took 2:12"


def test_each_epoch_has_a_line_and_its_words_are_explained_once(console):
    with Epochs(console, 4, 10) as epochs:
        epochs.epoch({**RECORD, "regret": None, "undecided": None})
        epochs.epoch(RECORD)
        epochs.epoch(RECORD)
    plain, terms, first, second = console.file.getvalue().splitlines()
    assert plain == "epoch 2 of 4: cost 0.3000 · mAP 25.0%"
    assert terms == (
        "regret: what the soft labels, guesses at labels that nobody gave, would still gain by "
        "their best move, 0 when settled; undecided: soft labels between 0.25 and 0.75, neither "
        "yes nor no"
    )
    assert first == second == f"{plain} · regret 0.100 · undecided 20%"


def test_an_epoch_is_told_beside_its_bar(clock):
    screen = Console(width=80, force_terminal=True, file=io.StringIO(), get_time=clock)
    with Epochs(screen, 4, 10) as epochs:
        clock.now += 7
        epochs.advance(20)
        epochs.epoch(RECORD)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.file.getvalue())
    shown = plain.strip("\n").split("\n")[-1].split("\r")[-1].rstrip()
    assert re.match(r"epoch 3 of 4 [━╸╺]+ took 0:07 cost 0.3000 · mAP 25.0% · reg", shown)
    assert len(shown) <= 80
