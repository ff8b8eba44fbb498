"""What the benchmarks share: numbers with a bound and a verdict, and fair clocks.

Ratios are measured side by side in one run. A loop that stays in one process is timed by its own
processor seconds on one thread, so that other work on the machine does not count; what involves
several processes or the disk is timed by the clock on the wall, or by the processor seconds of all
of them.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Figure:
    """One line of the table; without a bar it is there to be known."""

    what: str
    value: float | None  # None: could not be measured
    unit: str  # a format with one place
    least: float | None = None
    most: float | None = None
    note: str = ""

    @property
    def shown(self) -> str:
        """The value in its unit."""
        return "—" if self.value is None else self.unit.format(self.value)

    @property
    def bar(self) -> str:
        """What it has to keep to."""
        if self.most is not None:
            return "≤ " + self.unit.format(self.most)
        return "" if self.least is None else "≥ " + self.unit.format(self.least)

    @property
    def verdict(self) -> str:
        """Whether it does."""
        if self.value is None:
            return "not measured"
        if not self.bar:
            return ""
        high = self.most is not None and self.value > self.most
        low = self.least is not None and self.value < self.least
        return "missed" if high or low else "met"


def show(figures: Sequence[Figure]) -> None:
    """Print the table."""
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "measured", "bar", "verdict", "note")
    for each in figures:
        table.add_row(each.what, each.shown, each.bar, each.verdict, each.note)
    Console(width=150, markup=False, highlight=False).print(table)


@contextmanager
def one_thread() -> Iterator[None]:
    """For processor seconds that mean something."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def processor_seconds() -> float:
    """Of this process and of those that it has started and not ended."""
    import psutil

    here = psutil.Process()
    times = [each.cpu_times() for each in (here, *here.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def side_by_side(
    rounds: int, *works: Callable[[], object], clock: Callable[[], float] = time.process_time
) -> list[float]:
    """Median seconds of each piece of work, done in turns; the first round warms up."""
    seconds: list[list[float]] = []
    for _ in range(rounds + 1):
        seconds.append([])
        for work in works:
            began = clock()
            work()
            seconds[-1].append(clock() - began)
    return [float(value) for value in np.median(seconds[1:], axis=0)]


def make_photos(folder: Path, count: int, width: int = 256, height: int = 256) -> list[str]:
    """Smooth colours with some noise: JPEG files about as large as photos of that size."""
    random = np.random.default_rng(0)
    paths = []
    for number in range(count):
        coarse = Image.fromarray(random.integers(0, 255, (8, 8, 3), dtype=np.uint8))
        smooth = coarse.resize((width, height), Image.Resampling.BICUBIC)
        noisy = np.asarray(smooth, dtype=np.int16) + random.normal(0, 12, (height, width, 3))
        paths.append(str(folder / f"{number:05d}.jpg"))
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(paths[-1], quality=90)
    return paths


def observed_positives(count: int, classes: int) -> "torch.Tensor":
    """One observed positive per image, nothing else."""
    import torch

    observed = torch.full((count, classes), -1, dtype=torch.int8)
    columns = np.random.default_rng(0).integers(0, classes, count)
    observed[torch.arange(count), torch.from_numpy(columns)] = 1
    return observed
