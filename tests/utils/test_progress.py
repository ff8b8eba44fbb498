"""Progress of long work: one line on a terminal, lines elsewhere; the clock is the test's."""

import io
import re

import pytest

from g2netpl.utils.console import Console
from g2netpl.utils.progress import EVERY, Work


class Clock:
    """Seconds that pass when a test says so."""

    now = 1000.0

    def passes(self, seconds):
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


def console_of(clock, **options):
    return Console(file=io.StringIO(), get_time=lambda: clock.now, **options)


@pytest.mark.parametrize("width", [80, 120])
def test_one_line_on_a_terminal_with_what_fits_of_the_note(clock, width):
    console = console_of(clock, width=width, force_terminal=True)
    note = "loss 0.1 · mAP 54.0% · " * 5
    with Work(console, "epoch 1 of 2", 100) as work:
        for _ in range(4):
            clock.passes(10)
            work.advance(10)
        work.say(note)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue()).strip("\n")
    shown = plain.split("\n")[-1].split("\r")[-1].rstrip()
    assert re.match(r"epoch 1 of 2 [━╸╺]+ +40/100 0:00:40 0:01:00 loss", shown)
    assert len(shown) == width
    assert shown.endswith("…")


def test_elsewhere_a_line_each_half_minute_and_the_results(clock):
    console = console_of(clock, width=80)
    with Work(console, "features", 1000) as work:
        for _ in range(100):
            clock.passes(1)
            work.advance(10)
        work.say("done")
    assert console.file.getvalue().splitlines() == [
        "features: 30%, 0:01:10 left",
        "features: 60%, 0:00:40 left",
        "features: 90%, 0:00:10 left",
        "done",
    ]


def test_short_work_says_nothing(clock):
    console = console_of(clock)
    with Work(console, "features", 10) as work:
        clock.passes(EVERY - 1)
        work.advance(10)
    assert console.file.getvalue().splitlines() == []
