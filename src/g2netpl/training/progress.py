"""What happened, epoch by epoch: JSON lines on disk, a bar and warnings for who waits."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from g2netpl.base.console import Console
from g2netpl.runs.records import Epoch, Reading

_WIDE = 100  # columns of a terminal
_JUMP = 0.3  # mean movement of labels that do not settle; those that do stay below 0.15

Item = TypeVar("Item")


def write_history(path: Path, history: Sequence[Mapping[str, Any]]) -> None:
    """Write all epochs, a JSON object per line.

    Not down to the disk, which short epochs would have to wait for: checkpoints hold it too.
    """
    lines = "".join(json.dumps(record) + "\n" for record in history)
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(lines, encoding="utf-8")
    os.replace(temporary, path)


def describe(record: Mapping[str, Any]) -> str:
    """One epoch in one line."""
    parts = [f"cost {record['cost']:.4f}"]
    for key, name, form in (
        ("validation_map", "mAP", "{:.1%}"),
        ("regret", "regret", "{:.3f}"),
        ("undecided", "undecided", "{:.0%}"),
        ("images_per_second", "", "{:.0f} images/s"),
    ):
        if record.get(key) is not None:
            parts.append(f"{name} {form.format(record[key])}".strip())
    return " · ".join(parts)


def collapsed(reading: Reading, expected: float) -> bool:
    """True where the predictions have left [k/3, 3k]."""
    seen = reading["predicted_positives"]
    return seen is not None and not expected / 3 <= seen <= 3 * expected


def restless(history: Sequence[Reading]) -> bool:
    """True where soft labels jump to and fro: for two epochs they moved further than any settle."""
    moved = [record.get("movement") for record in history[-2:]]
    return len(moved) == 2 and all(each is not None and each > _JUMP for each in moved)


def restless_words(history: Sequence[Reading]) -> str:
    """What to say of such labels."""
    return (
        f"the soft labels jump to and fro, by {history[-1]['movement']:.2f} on average in an "
        "epoch: their steps are too long; use a smaller step_size (in proportion to σ² where σ is "
        "small), or with ROLE a smaller estimate_learning_rate"
    )


def warn_of_collapse(console: Console, history: list[Epoch], k: float) -> None:
    """Say once when the predictions of the game have run away from k, after the first epochs."""
    away = [collapsed(record, k) and record["soft_positives"] is not None for record in history]
    if len(history) >= 3 and away[-1] and not any(away[2:-1]):
        seen = history[-1]["predicted_positives"]
        console.print(
            f"warning: the network now predicts {seen:.2f} positives per image, k is {k:.2f}; "
            "if mAP suffers, try a smaller --learning-rate"
        )


def warn_of_jumps(console: Console, history: list[Epoch]) -> None:
    """Say once when the soft labels do not settle."""
    if restless(history) and not any(restless(history[:n]) for n in range(len(history))):
        console.print(f"warning: {restless_words(history)}")


def follow(
    console: Console, outcomes: Iterable[Item], total: int, name: Callable[[Item], str]
) -> Iterator[Item]:
    """Pass outcomes through under a bar; a line for each where there is no terminal."""
    with following(console, total) as bar:
        for outcome in outcomes:
            bar.done(name(outcome))
            yield outcome


class Following:
    """A bar over trainings, or over all images of all epochs; lines where there is no terminal."""

    def __init__(self, progress: Progress, console: Console, total: int) -> None:
        self.progress, self.console, self.total = progress, console, total
        self.task = progress.add_task("training", total=total, note="")
        self._done = 0

    def tell(self, line: str) -> None:
        """Something that is to stay on the screen."""
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def say(self, note: str) -> None:
        """How far a training is."""
        self.progress.update(self.task, note=note)
        if not self.console.is_terminal:
            self.tell(note)

    def done(self, note: str) -> None:
        """A training is done."""
        self._done += 1
        self.progress.update(self.task, advance=1, note=note)
        if not self.console.is_terminal:
            self.tell(f"{self._done}/{self.total} {note}")

    def advance(self, images: int) -> None:
        """Some images are done."""
        self.progress.update(self.task, advance=images)

    def epoch(self, record: Epoch) -> None:
        """An epoch is done."""
        note = describe(record)
        self.progress.update(self.task, note=note, description=f"epoch {record['epoch']}")
        if not self.console.is_terminal:
            self.tell(f"epoch {record['epoch']}: {note}")


@contextmanager
def following(console: Console, total: int) -> Iterator[Following]:
    """Show progress over several trainings."""
    with _bar(console, MofNCompleteColumn(), _note()) as progress:
        yield Following(progress, console, total)


@contextmanager
def image_bar(console: Console, what: str, images: int) -> Iterator[Callable[[int], None]]:
    """Show progress over images; gives a function to call after some of them."""
    with _bar(console, MofNCompleteColumn()) as progress:
        task = progress.add_task(what, total=images)
        yield lambda count: progress.update(task, advance=count)


@contextmanager
def epoch_bar(console: Console, epochs: int, images: int) -> Iterator[Following]:
    """Show progress while training."""
    with _bar(console, _note()) as progress:
        yield Following(progress, console, epochs * images)


def _note() -> TextColumn:
    """What was last said; it takes what room the bar leaves, and is cut where that is little."""
    room = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    return TextColumn("{task.fields[note]}", markup=False, table_column=room)


def _bar(console: Console, *more: ProgressColumn) -> Progress:
    """A bar with times, and more columns; nothing where there is no terminal."""
    width = 20 if console.width >= _WIDE else 10
    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=width))
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    expand = any(column.get_table_column().ratio for column in more)
    hidden = console.quiet or not console.is_terminal
    return Progress(*columns, *times, *more, console=console, disable=hidden, expand=expand)


def about(seconds: float) -> str:
    """A duration for people: `about 20 minutes`, `about 3.5 hours`."""
    minutes = seconds / 60
    if minutes < 1.5:
        return "less than a minute" if minutes < 1 else "about a minute"
    return f"about {minutes:.0f} minutes" if minutes < 90 else f"about {minutes / 60:,.1f} hours"
