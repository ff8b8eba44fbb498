"""Time and memory of the label side against the images N and the classes L, up to N·L = 10⁹.

load    reading a file of tags, three per image
memory  an epoch of the game on random rows without a network: labels read, proposed, moved and
        written; soft labels in memory
files   the same with soft labels in files (as with --label-memory 0)

Each measurement is a process of its own: processor seconds of one thread, and the peak of its
anonymous memory above a process that has imported torch. Small tables come first, and the figure
is drawn anew after each, so it may be stopped at any time. Up to 10⁹ it takes half an hour and 8 GB
of memory; what would need more than half of the memory that is free is left out.

    python benchmarks/scaling.py                        writes docs/figures/scaling.{csv,png}
    python benchmarks/scaling.py --most 1e7 --output runs/scaling
"""

import argparse
import csv
import itertools
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from g2netpl.game.mapped_memory import MemoryPlace
from g2netpl.game.observed import ObservedLabels

from g2netpl.base.memory import available_memory
from g2netpl.game.batches import training_batches
from g2netpl.game.methods import make_player
from g2netpl.game.player import Setup
from g2netpl.images.loader import ArraySource
from g2netpl.labels.formats import read_labels

IMAGES = (1_000, 10_000, 100_000, 1_000_000)
CLASSES = (20, 100, 1_000, 10_000)
BATCH = 64
TITLES = {
    "load": "reading a file of tags",
    "memory": "an epoch of the game, labels in memory",
    "files": "an epoch of the game, labels in files",
}


def load(images: int, classes: int, folder: Path) -> Callable[[], object]:
    path, random = folder / "labels.csv", np.random.default_rng(0)
    with open(path, "w", encoding="utf-8") as file:
        file.write("image,labels\n")
        for start in range(0, images, 100_000):
            tags = random.integers(0, classes, (min(100_000, images - start), 3)).tolist()
            file.writelines(
                f"{start + number:08d}.jpg,{';'.join(f'c{tag}' for tag in row)}\n"
                for number, row in enumerate(tags)
            )
    return lambda: read_labels(path)


def game(images: int, classes: int, folder: Path, limit: int) -> Callable[[], object]:
    columns = torch.randint(0, classes, (images,))
    observed = torch.full((images, classes), -1, dtype=torch.int8)
    observed[torch.arange(images), columns] = 1
    known = ObservedLabels.of(observed)
    place = MemoryPlace(folder / "labels", limit)
    predicted, source = torch.rand(BATCH, classes), ArraySource(torch.zeros(images, 1))

    def epoch() -> None:
        player = make_player("g2netpl", {}, Setup(known, 3.0, 1e-3, memory_place=place))
        for batch in training_batches(source, known, BATCH, 0, 0):
            player.propose(batch, 0.5, torch.sigmoid)
            player.respond(batch, predicted[: len(batch)], 0.5)
        player.end_epoch()

    return epoch


def anonymous() -> float:
    """MB of this process that no file stands behind."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(r"RssAnon:\s+(\d+)", text)
    return int(found[1]) / 1024 if found else float("nan")


def measure(work: str, images: int, classes: int, answer: Connection) -> None:
    """In the child: send seconds and MB."""
    torch.set_num_threads(1)
    peak, over, before = 0.0, threading.Event(), anonymous()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.01):
            peak = max(peak, anonymous())

    with tempfile.TemporaryDirectory() as made:
        if work == "load":
            run = load(images, classes, Path(made))
        else:
            run = game(images, classes, Path(made), 0 if work == "files" else 1 << 62)
        watcher = threading.Thread(target=watch)
        watcher.start()
        began = time.process_time()
        run()
        seconds = time.process_time() - began
        over.set()
        watcher.join()
    answer.send((seconds, max(peak, anonymous()) - before))


def in_a_process(work: str, images: int, classes: int) -> tuple[float, float] | None:
    context = get_context("fork")  # torch is imported once
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=measure, args=(work, images, classes, theirs))
    child.start()
    theirs.close()
    try:
        found: tuple[float, float] = ours.recv()
    except EOFError:
        return None
    finally:
        child.join()
    return found


def write(rows: list[dict[str, Any]], output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    with open(output.with_suffix(".csv"), "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, ["work", "images", "classes", "seconds", "megabytes"])
        table.writeheader()
        for row in rows:
            table.writerow({**row, **{key: f"{row[key]:.4g}" for key in ("seconds", "megabytes")}})
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(11, 6.4), sharex=True, sharey="row")
    for column, (work, title) in enumerate(TITLES.items()):
        for classes in CLASSES:
            chosen = [row for row in rows if (row["work"], row["classes"]) == (work, classes)]
            images = [row["images"] for row in chosen]
            for line, key in enumerate(("seconds", "megabytes")):
                least = (1e-3, 1.0)[line]
                values = [max(least, row[key]) for row in chosen]
                axes[line, column].plot(images, values, "o-", label=f"{classes:,} classes")
        axes[0, column].set_title(title, fontsize=10)
        axes[1, column].set_xlabel("images")
        for axis in axes[:, column]:
            axis.set(xscale="log", yscale="log")
            axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("processor seconds, one thread")
    axes[1, 0].set_ylabel("peak of anonymous memory, MB")
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(output.with_suffix(".png"), dpi=110)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=float, default=1e9, help="largest N·L")
    parser.add_argument("--output", default="docs/figures/scaling", help="without the ending")
    flags = parser.parse_args()
    rows: list[dict[str, Any]] = []
    tables = sorted(itertools.product(CLASSES, IMAGES), key=lambda table: table[0] * table[1])
    for classes, images in tables:
        if images * classes > flags.most:
            continue
        for work in TITLES:
            what = f"{work}, {images:,} × {classes:,}"
            if work == "memory" and 14 * images * classes > available_memory() / 2:
                print(f"{what}: left out, needs too much memory", flush=True)
                continue
            found = in_a_process(work, images, classes)
            if found is None:
                print(f"{what}: failed", file=sys.stderr, flush=True)
                continue
            seconds, megabytes = found
            print(f"{what}: {seconds:.3g} s, {megabytes:.0f} MB", flush=True)
            rows.append({"work": work, "images": images, "classes": classes})
            rows[-1] |= {"seconds": seconds, "megabytes": megabytes}
            rows.sort(key=lambda row: (row["work"], row["classes"], row["images"]))
        write(rows, Path(flags.output))


if __name__ == "__main__":
    main()
