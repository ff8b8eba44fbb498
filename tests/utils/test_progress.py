"""How far long work is: bars on terminals of several widths, lines elsewhere; time is given."""

import io
import re

import pytest

from g2netpl.utils.console import Console
from g2netpl.utils.progress import EVERY, Cells, Work, about

NOTE = "[an] unobserved_weight=0.05 sspl:0.2 seed 0 rate 0.0003 batch 64: epoch 3: cost 0.1"


class Clock:
    """Seconds that pass when a test says so."""

    now = 1000.0

    def __call__(self):
        return self.now

    def passes(self, seconds):
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def console(clock):
    """No terminal."""
    return Console(file=io.StringIO(), width=80, get_time=clock)


def terminal(width, clock):
    return Console(width=width, force_terminal=True, file=io.StringIO(), get_time=clock)


def lines(console):
    return console.file.getvalue().splitlines()


def last_line(console):
    """What a terminal shows in the end."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    return plain.strip("\n").split("\n")[-1].split("\r")[-1].rstrip()


# --- on a terminal --------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 120, 200])
def test_one_line_with_a_labelled_time_and_what_fits_of_the_note(clock, width):
    screen = terminal(width, clock)
    with Cells(screen, 30) as cells:
        clock.passes(45)
        cells.finished(NOTE)
    shown = last_line(screen)
    assert re.match(r"cell 2 of 30 [━╸╺]+ took 0:45 ", shown)
    room = shown.split("took 0:45 ")[1]
    assert NOTE.startswith(room.removesuffix("…"))
    assert len(shown) <= width
    assert (room == NOTE) == (width >= 200) or len(shown) == width


def test_a_slow_start_is_not_taken_for_the_rate(console, clock):
    """A minute until the first 10 of 1,000 images, then 20 in a second: 970 are left, 48.5 s."""
    work = Work(console, "predict", 1000)
    assert str(work) == "predict: 0%"
    clock.passes(60)
    work.advance(10)
    assert str(work).startswith("predict: 1%, 0.2 images/s")
    clock.passes(1)
    work.advance(20)
    assert str(work) == "predict: 3%, 20 images/s, left 0:48"


def test_the_time_that_is_left_is_called_so(clock):
    screen = terminal(80, clock)
    with Work(screen, "features", 100) as work:
        clock.passes(10)
        work.advance(10)
        work.progress.refresh()
        assert re.search(r"features .* left 1:30 +10/100", last_line(screen))
        clock.passes(EVERY)
        work.advance(0)
    assert re.match(r"features [━╸╺]+ took 0:40 +10/100$", last_line(screen))
    assert "%" not in last_line(screen)  # the bar shows it


# --- without a terminal ---------------------------------------------------------------------------


def test_a_line_each_half_minute_with_percent_rate_and_time_left(console, clock):
    with Work(console, "features", 1000) as work:
        for _ in range(100):
            clock.passes(1)
            work.advance(10)
    assert lines(console) == [
        "features: 30%, 10 images/s, left 1:10",
        "features: 60%, 10 images/s, left 0:40",
        "features: 90%, 10 images/s, left 0:10",
        "features: took 1:40",
    ]


def test_slow_work_has_a_rate_too_and_short_work_says_nothing(console, clock):
    with Work(console, "features", 10) as work:
        clock.passes(40)
        work.advance(2)
    assert lines(console)[0] == "features: 20%, 0.1 images/s, left 2:40"
    quick = Console(file=io.StringIO(), get_time=clock)
    with Work(quick, "features", 10) as work:
        clock.passes(EVERY - 1)
        work.advance(10)
    assert lines(quick) == []


def test_cells_are_counted_through_with_the_work_inside_each(console, clock):
    with Cells(console, 4) as cells:
        with Work(cells.inside(), "epoch 1 of 2", 100) as inner:
            clock.passes(40)
            inner.advance(50)
            inner.say("not said: a console inside others is quiet")
        clock.passes(20)
        cells.finished("the first")
        clock.passes(30)
        cells.beat()
        clock.passes(1)
        cells.beat()
    assert lines(console) == [
        "cell 1 of 4: 0%; epoch 1 of 2: 50%, 1.2 images/s, left 0:40",
        "1/4 the first",
        "cell 2 of 4: 25%, left 4:30",
        "cells: took 1:31",
    ]


# --- words ----------------------------------------------------------------------------------------


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
