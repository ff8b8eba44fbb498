"""Progress of long work: a bar on a terminal, elsewhere a line about every half minute.

with Work(console, "features", len(source)) as work:
    compute_features(module, source, on_batch=work.advance)
"""

from typing import Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from g2netpl.utils.console import Console

EVERY = 30.0  # seconds between lines


class Work:
    """Work of `total` parts, `before` of which were done earlier."""

    def __init__(self, console: Console, what: str, total: int, before: int = 0) -> None:
        self.console, self.what, self.total, self.done = console, what, total, before
        self.is_live = console.is_terminal and not console.quiet
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn(
                "{task.fields[note]}",
                markup=False,
                table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
            ),
            console=console,
            disable=not self.is_live,
            expand=True,
        )
        self._task = self._progress.add_task(what, total=total, completed=before, note="")
        self._printed_at = console.get_time()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def advance(self, count: int = 1) -> None:
        """Some more parts are done."""
        self.done += count
        self._progress.update(self._task, completed=self.done)
        if not self.is_live and self.console.get_time() - self._printed_at >= EVERY:
            self.print_line(str(self))

    def say(self, note: str) -> None:
        """Show a result: next to the bar, or as a line."""
        self._progress.update(self._task, note=note)
        if not self.is_live:
            self.print_line(note)

    def describe(self, what: str) -> None:
        """Change what the bar is called."""
        self.what = what
        self._progress.update(self._task, description=what)

    def __str__(self) -> str:
        left = self._progress.tasks[0].time_remaining
        more = "" if left is None else f", {clock_time(left)} left"
        return f"{self.what}: {self.done / max(self.total, 1):.0%}{more}"

    def print_line(self, line: str) -> None:
        """Print a line that stays on the screen."""
        self._printed_at = self.console.get_time()
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


class Cells(Work):
    """The cells of a sweep."""

    def __init__(self, console: Console, total: int, before: int = 0) -> None:
        super().__init__(console, "cells", total, min(before, total))

    def finished(self, note: str) -> None:
        """One more is trained."""
        self.advance()
        self.say(note if self.is_live else f"{self.done}/{self.total} {note}")


def clock_time(seconds: float) -> str:
    """A duration: `2:10`, `1:02:10`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
