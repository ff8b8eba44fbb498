"""How much memory and time few labels on many images and classes take.

    python benchmarks/labels_at_scale.py                         1,000,000 images × 10,000 classes
    python benchmarks/labels_at_scale.py --images 10000000       ten times as many rows
    python benchmarks/labels_at_scale.py --kind openimages       a row per label
    python benchmarks/labels_at_scale.py --classes 1000 --files 2    half the images are in both

A label file with 3 labels per image is made, read in a process of its own, and put where a training
reads it from: 1,000 batches of 64 images at random. Bars: at most 500 MB of anonymous memory for a
million images, at most 2 GB and 2 minutes for ten million, at the peak and above a process that has
imported torch. Seconds are of the clock, and of the processor in brackets.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from measure import Figure, show

MEASURE = """
import json, re, sys, threading, time
from pathlib import Path
import torch
from g2netpl.labels.formats import read_labels
from g2netpl.game.observed import ObservedLabels
from g2netpl.labels.settings import Setting, observe

def anonymous():
    return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

before, peak, over, took = anonymous(), 0.0, threading.Event(), {}

def watch():
    global peak
    while not over.wait(0.02):
        peak = max(peak, anonymous() - before)

def timed(what, work):
    began, processor = time.perf_counter(), time.process_time()
    result = work()
    took[what] = [time.perf_counter() - began, time.process_time() - processor]
    return result

threading.Thread(target=watch, daemon=True).start()
table = timed("read", lambda: read_labels(sys.argv[1:]))
visible = observe(table, Setting.parse("own"), 0)
observed = timed("prepare", lambda: ObservedLabels.of(visible.held))
timed("fingerprint", table.fingerprint)
index = torch.randint(len(observed), (1000, 64), generator=torch.Generator().manual_seed(0))

def read_batches():
    return sum(int((observed.rows(rows) >= 0).sum()) for rows in index)

found = timed("1,000 batches", read_batches)
over.set()
peak = max(peak, anonymous() - before)
print(json.dumps({"peak": peak, "known": table.known, "found": found, "took": took}))
"""


def names(numbers: np.ndarray) -> list[str]:
    return [f"images/{number:012d}.jpg" for number in numbers.tolist()]


def make_file(
    path: Path, kind: str, images: int, classes: int, labels: int, first: int = 0
) -> None:
    random = np.random.default_rng(first)
    tags = [f"class {number:05d}" for number in range(classes)]
    with open(path, "w", encoding="utf-8") as file:
        file.write("image,labels\n" if kind == "tags" else "ImageID,LabelName,Confidence\n")
        for start in range(0, images, 100_000):
            rows = first + np.arange(start, min(start + 100_000, images))
            drawn = random.integers(0, classes, (len(rows), labels)).tolist()
            for name, numbers in zip(names(rows), drawn, strict=True):
                if kind == "tags":
                    file.write(f"{name},{';'.join(tags[number] for number in numbers)}\n")
                else:
                    file.writelines(f"{name},{tags[number]},1\n" for number in numbers)


def labels_at_scale(
    images: int = 1_000_000,
    classes: int = 10_000,
    labels: int = 3,
    kind: str = "tags",
    files: int = 1,
) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"labels-{number}.csv" for number in range(files)]
        for number, path in enumerate(paths):
            make_file(path, kind, images, classes, labels, number * images // 2)
        command = [sys.executable, "-c", MEASURE, *map(str, paths)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    measured = json.loads(done.stdout)
    note = ", ".join(
        f"{name} {wall:.1f} s ({processor:.1f})"
        for name, (wall, processor) in measured["took"].items()
    )
    whole = sum(wall for wall, _ in measured["took"].values())
    what, large = f"few labels on {images:,} × {classes:,}", images * files > 1_000_000
    what += f" in each of {files} files" if files > 1 else ""
    return [
        Figure(
            f"{what}, memory",
            measured["peak"],
            "{:,.0f} MB",
            most=2000.0 if large else 500.0,
            note=f"{measured['known']:,} labels",
        ),
        Figure(what, whole, "{:.0f} s", most=120.0 if large else None, note=note),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=10_000)
    parser.add_argument("--labels", type=int, default=3, help="of each image")
    parser.add_argument("--kind", choices=("tags", "openimages"), default="tags")
    parser.add_argument("--files", type=int, default=1, help="each shares half with the next")
    flags = parser.parse_args()
    show(labels_at_scale(flags.images, flags.classes, flags.labels, flags.kind, flags.files))
