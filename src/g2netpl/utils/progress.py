"""Progress of long work: a bar on a terminal, elsewhere a line about every half minute.

with Work(console, "features", len(source)) as work:
    compute_features(module, source, on_batch=work.advance)
"""

from datetime import timedelta
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
        self.console, self.what, self.total = console, what, total
        self.done = min(before, total)
        self.is_live = console.is_terminal and not console.quiet
        note = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False, table_column=note),
            console=console,
            disable=not self.is_live,
            expand=True,
        )
        self._task = self._progress.add_task(what, total=total, completed=self.done, note="")
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
            left = self._progress.tasks[0].time_remaining
            more = "" if left is None else f", {timedelta(seconds=round(left))} left"
            self.print_line(f"{self.what}: {self.done / max(self.total, 1):.0%}{more}")

    def finished(self, note: str) -> None:
        """One more part is done, with this result."""
        self.advance()
        self.say(note if self.is_live else f"{self.done}/{self.total} {note}")

    def say(self, note: str) -> None:
        """Show a result: next to the bar, or as a line."""
        self._progress.update(self._task, note=note)
        if not self.is_live:
            self.print_line(note)

    def describe(self, what: str) -> None:
        """Change what the bar is called."""
        self.what = what
        self._progress.update(self._task, description=what)

    def print_line(self, line: str) -> None:
        """Print a line that stays on the screen."""
        self._printed_at = self.console.get_time()
        self.console.print(line)
