"""A long training of short epochs: memory and open files must not grow.

The whole command runs, linear on the features of a few made-up photos: loader, game, diagnostics,
validation, history, checkpoints. Memory and open files are read after every 20th epoch; a line is
fitted after the first quarter. Bars: 2 MB per 1,000 epochs (the history itself is about one), and
no file more.

    python benchmarks/soak.py
    python benchmarks/soak.py --epochs 500
"""

import argparse
import csv
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from measure import Figure, make_photos, show

from g2netpl import RunConfig, train


def soak(epochs: int = 2_000, images: int = 60, every: int = 20) -> list[Figure]:
    process = psutil.Process()
    seen: list[tuple[int, int, int]] = []

    def watch(snapshot: Any, *_: object) -> None:
        if snapshot.finished % every == 0:
            memory = process.memory_info().rss
            seen.append((snapshot.finished, memory, process.num_fds()))

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        names = [Path(path).name for path in make_photos(folder, images, 64, 64)]
        random = np.random.default_rng(0)
        with open(folder / "labels.csv", "w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["image", *"abcde"])
            for name in names:
                rows.writerow([name, *random.choice(["1", "0", ""], 5)])
        config = RunConfig(
            labels=str(folder / "labels.csv"),
            images=str(folder),
            output=str(folder / "run"),
            cache=str(folder / "features"),
            backbone="tiny",
            image_size=32,
            mode="linear",
            epochs=epochs,
            patience=0,
            expected_positives=1.5,
        )
        train(config, on_epoch=watch)
    steady = np.array(seen[len(seen) // 4 :], dtype=np.float64)
    thousands = steady[:, 0] / 1_000
    memory = float(np.polyfit(thousands, steady[:, 1] / 1e6, 1)[0])
    files = float(np.polyfit(thousands, steady[:, 2], 1)[0])
    note = f"{seen[0][1] / 1e6:.0f} MB and {seen[0][2]} files at first, "
    note += f"{seen[-1][1] / 1e6:.0f} MB and {seen[-1][2]} at the end"
    per = "per 1,000 epochs"
    return [
        Figure(f"memory {per}, of {epochs:,}", memory, "{:.2f} MB", most=2.0, note=note),
        Figure(f"open files {per}", files, "{:.2f}", most=0.01),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=2_000)
    show(soak(parser.parse_args().epochs))
