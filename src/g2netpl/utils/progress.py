"""How far long work is: a bar on a terminal, elsewhere a line about every half minute.

    with Work(console, "features", len(source)) as work:
        compute_features(module, source, on_batch=work.advance)

Work on a console that has a `beat`, that of other work, is a part of that and is told with it. Time
is what the console takes for it.
"""

from typing import Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
)
from rich.table import Column
from rich.text import Text

from g2netpl.utils.console import Console

EVERY = 30.0  # seconds from line to line
_WIDE = 100  # columns of a terminal


class Work:
    """Some work that is counted through; `before` of it was done earlier, at no cost now."""

    counts = True  # whether the bar has the numbers beside it

    def __init__(
        self,
        console: Console,
        what: str,
        total: int,
        unit: str = "images",
        before: int = 0,
    ) -> None:
        self.console, self.what, self.total, self.unit = console, what, total, unit
        self.before, self.done, self.ended = before, before, False
        self.shown = console.is_terminal and not console.quiet
        self.began = self._spoke = console.get_time()
        self.note, self._lines = "", 0
        self._first: tuple[float, int] | None = None  # when the first of it was done, and how much
        self.progress = _progress(console, self)
        self.task = self.progress.add_task(
            self.place, total=total, completed=before, note="", work=self
        )

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.ended = True
        self.progress.stop()
        if self._lines and not any(problem):
            self.tell(f"{self.what}: took {clock_time(self.seconds)}")

    @property
    def place(self) -> str:
        """Where it is, in words."""
        return self.what

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return self.console.get_time() - self.began

    @property
    def rate(self) -> float | None:
        """How much in a second, the first of it left out, which takes longer; None before that."""
        if self.done == self.before:
            return None
        since, done = self.began, self.before
        if self._first is not None and self._first[1] < self.done:
            since, done = self._first
        return (self.done - done) / max(self.console.get_time() - since, 1e-9)

    @property
    def left(self) -> float | None:
        """How many seconds it will take still."""
        return None if self.rate is None else (self.total - self.done) / self.rate

    def __str__(self) -> str:
        parts = [f"{self.done / max(self.total, 1):.0%}"]
        if self.rate is not None and self.left is not None:
            speed = f"{self.rate:,.{0 if self.rate >= 10 else 1}f} {self.unit}/s"
            parts += [speed] if self.unit else []
            parts.append(f"left {clock_time(self.left)}")
        return f"{self.place}: {', '.join(parts)}"

    def advance(self, count: int = 1) -> None:
        """Some more is done."""
        self.done += count
        if self._first is None:
            self._first = self.console.get_time(), self.done
        self._draw()
        self.beat()

    def beat(self, inner: str = "") -> None:
        """Say where it is, and work inside it, if nobody can see it and it was not said lately."""
        if self.shown:
            return
        line = "; ".join(filter(None, (str(self), inner)))
        tell = getattr(self.console, "beat", None)  # any console of rich will do
        if tell is not None:
            tell(line)
        elif self.console.get_time() - self._spoke >= EVERY:
            self._lines += 1
            self.tell(line)

    def tell(self, line: str) -> None:
        """Something that is to stay on the screen."""
        self._spoke = self.console.get_time()
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def say(self, note: str) -> None:
        """What came of it so far: beside the bar, or a line."""
        self.note = note
        self._draw()
        if not self.shown:
            self.tell(note)

    def _draw(self) -> None:
        self.progress.update(self.task, completed=self.done, description=self.place, note=self.note)


class Cells(Work):
    """Trainings, one after the other or some at a time; `before` of them were finished earlier."""

    counts = False

    def __init__(self, console: Console, total: int, before: int = 0) -> None:
        super().__init__(console, "cells", total, "", min(before, total))

    @property
    def place(self) -> str:
        """Which of them is trained."""
        return f"cell {min(self.done + 1, self.total)} of {self.total}"

    def finished(self, note: str) -> None:
        """One more is trained."""
        self.done += 1
        self.say(note if self.shown else f"{self.done}/{self.total} {note}")

    def inside(self) -> Console:
        """A console for one of them, on which nothing is said but how far it is."""
        return Console(quiet=True, beat=self.beat, get_time=self.console.get_time)


def clock_time(seconds: float) -> str:
    """A duration: `2:10`, `1:02:10`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def about(seconds: float) -> str:
    """A duration for people: `about 20 minutes`, `about 3.5 hours`."""
    minutes = seconds / 60
    if minutes < 1.5:
        return "less than a minute" if minutes < 1 else "about a minute"
    return f"about {minutes:.0f} minutes" if minutes < 90 else f"about {minutes / 60:,.1f} hours"


class _Times(ProgressColumn):
    """How long it will take still, and in the end how long it took."""

    def render(self, task: Task) -> Text:
        work: Work = task.fields["work"]
        if work.ended:
            return Text(f"took {clock_time(work.seconds)}")
        return Text("" if work.left is None else f"left {clock_time(work.left)}")


def _progress(console: Console, work: Work) -> Progress:
    """A bar, and what was last said; that is cut where there is little room."""
    width = 20 if console.width >= _WIDE else 10
    room = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=width),
        _Times(),
        *([MofNCompleteColumn()] if work.counts else []),
        TextColumn("{task.fields[note]}", markup=False, table_column=room),
    ]
    return Progress(*columns, console=console, disable=not work.shown, expand=True)
