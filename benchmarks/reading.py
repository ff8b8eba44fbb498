"""How fast labels and images are read, as ratios measured side by side in one run.

    python benchmarks/reading.py                       photos are made up
    python benchmarks/reading.py --images photos       photos of your own

1. Images: our loader with 2 workers (decode, squash, mirror, collate, hand over) against bare
   Pillow in 2 processes (decode, resize) on the same files. Bar: at least 0.9 of its rate.
2. Labels: a wide CSV of 1,000,000 images × 80 classes against pyarrow's parse of the file. Bars: at
   most 3 times its time, at most 2 GB.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from measure import Figure, make_photos, one_thread, show
from PIL import Image

from g2netpl.images.loader import ImageSource, epoch_groups
from g2netpl.labels.paths import list_images

SIZE, BATCH = 224, 64


def bare(path: str) -> int:
    with Image.open(path) as image:
        small = image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    return int(np.asarray(small)[0, 0, 0])


def images(folder: str | None = None, rounds: int = 3) -> list[Figure]:
    with tempfile.TemporaryDirectory() as made, one_thread():  # the workers need the cores
        if folder is None:
            make_photos(Path(made), 2000)
        root = folder or made
        paths = [f"{root}/{name}" for name in list_images(root)][:4000]
        ratios, rates = [], []
        for _ in range(rounds):
            with get_context("spawn").Pool(2) as pool:
                pool.map(bare, paths[:200], chunksize=20)
                began = time.perf_counter()
                pool.map(bare, paths, chunksize=BATCH)
                theirs = len(paths) / (time.perf_counter() - began)
            source = ImageSource(paths, SIZE, (0.5,) * 3, (0.25,) * 3, workers=2)
            for epoch in (0, 1):  # the workers start in the first
                began = time.perf_counter()
                for _ in source.decoded(epoch_groups(len(paths), BATCH, 0, epoch), epoch):
                    pass
                ours = len(paths) / (time.perf_counter() - began)
            ratios.append(ours / theirs)
            rates.append(ours)
    note = f"{np.median(rates):.0f} images/s, median of {rounds}"
    what = "loading photos : bare Pillow, 2 processes"
    return [Figure(what, float(np.median(ratios)), "{:.2f} ×", least=0.9, note=note)]


def make_table(path: Path, share: float, count: int = 1_000_000, classes: int = 80) -> None:
    random = np.random.default_rng(0)
    with open(path, "w", encoding="utf-8") as file:
        file.write("image," + ",".join(f"class {number}" for number in range(classes)) + "\n")
        for start in range(0, count, 10_000):
            cells = np.where(random.random((10_000, classes)) < 0.04, "1", "0")
            cells = np.where(random.random(cells.shape) < share, cells, "")
            for number, row in enumerate(cells.tolist()):
                file.write(f"images/{start + number:012d}.jpg,{','.join(row)}\n")


READ = """
import resource, sys, time
if sys.argv[2] == "ours":
    from g2netpl import read_labels as read
else:
    from pyarrow.csv import read_csv as read
began = time.perf_counter()
table = read(sys.argv[1])
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def labels(rounds: int = 3, shares: tuple[float, ...] = (1.0, 0.3)) -> list[Figure]:
    figures = []
    with tempfile.TemporaryDirectory() as made:
        for share in shares:
            path = Path(made) / "labels.csv"
            make_table(path, share)
            found: dict[str, list[list[float]]] = {"ours": [], "pyarrow": []}
            for _ in range(rounds):
                for which, results in found.items():
                    command = [sys.executable, "-c", READ, str(path), which]
                    shown = subprocess.run(command, capture_output=True, text=True, check=True)
                    results.append([float(each) for each in shown.stdout.split()])
            seconds = {which: float(np.median(found[which], axis=0)[0]) for which in found}
            memory = max(result[1] for result in found["ours"])
            what = f"CSV of 1,000,000 × 80, {share:.0%} known"
            ratio, note = seconds["ours"] / seconds["pyarrow"], f"ours {seconds['ours']:.1f} s"
            figures += [
                Figure(f"{what} : pyarrow", ratio, "{:.2f} ×", most=3.0, note=note),
                Figure(f"{what}, memory", memory, "{:,.0f} MB", most=2048.0),
            ]
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images")
    parser.add_argument("--rounds", type=int, default=3)
    flags = parser.parse_args()
    show([*labels(flags.rounds), *images(flags.images, flags.rounds)])
