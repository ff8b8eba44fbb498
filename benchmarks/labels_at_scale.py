"""How much memory and time few labels on many images and classes take.

    python benchmarks/labels_at_scale.py                         1,000,000 images × 10,000 classes
    python benchmarks/labels_at_scale.py --images 10000000       ten times as many rows
    python benchmarks/labels_at_scale.py --kind openimages       a row per label

A label file with 3 labels per image is made, read in a process of its own, and put where a training
reads it from: 1,000 batches of 64 images at random. Bars: at most 500 MB of anonymous memory for a
million images, at most 2 GB and 2 minutes for ten million, at the peak and above a process that has
imported torch. Seconds are of the clock, and of the processor in brackets.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

MEASURE = """
import re, sys, threading, time
from pathlib import Path
import torch
from g2netpl.formats import read_labels
from g2netpl.observed import ObservedLabels
from g2netpl.settings import Setting, observe

def anonymous():
    return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

before, peak, over = anonymous(), 0.0, threading.Event()

def watch():
    global peak
    while not over.wait(0.02):
        peak = max(peak, anonymous() - before)

def timed(what, work):
    began, processor = time.perf_counter(), time.process_time()
    result = work()
    seconds, processor = time.perf_counter() - began, time.process_time() - processor
    megabytes = anonymous() - before
    print(f"{what:32} {seconds:8.1f} s ({processor:.1f})   {megabytes:8.0f} MB", flush=True)
    return result

threading.Thread(target=watch, daemon=True).start()
table = timed("read_labels", lambda: read_labels(sys.argv[1]))
visible = observe(table, Setting.parse("own"), 0)
observed = timed("observed labels of a training", lambda: ObservedLabels.of(visible.held))
timed("fingerprint", table.fingerprint)
index = torch.randint(len(observed), (1000, 64), generator=torch.Generator().manual_seed(0))

def read_batches():
    return sum(int((observed.rows(rows) >= 0).sum()) for rows in index)

found = timed("1,000 batches of 64", read_batches)
over.set()
peak = max(peak, anonymous() - before)
print(f"peak {peak:.0f} MB; {table.known:,} labels, {found:,} of them in the batches")
"""


def names(numbers: np.ndarray) -> list[str]:
    return [f"images/{number:012d}.jpg" for number in numbers.tolist()]


def make_file(path: Path, kind: str, images: int, classes: int, labels: int) -> None:
    random = np.random.default_rng(0)
    tags = [f"class {number:05d}" for number in range(classes)]
    with open(path, "w", encoding="utf-8") as file:
        file.write("image,labels\n" if kind == "tags" else "ImageID,LabelName,Confidence\n")
        for start in range(0, images, 100_000):
            rows = np.arange(start, min(start + 100_000, images))
            drawn = random.integers(0, classes, (len(rows), labels)).tolist()
            for name, numbers in zip(names(rows), drawn, strict=True):
                if kind == "tags":
                    file.write(f"{name},{';'.join(tags[number] for number in numbers)}\n")
                else:
                    file.writelines(f"{name},{tags[number]},1\n" for number in numbers)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=10_000)
    parser.add_argument("--labels", type=int, default=3, help="of each image")
    parser.add_argument("--kind", choices=("tags", "openimages"), default="tags")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.csv"
        make_file(path, flags.kind, flags.images, flags.classes, flags.labels)
        print(
            f"{flags.kind}: {flags.images:,} images × {flags.classes:,} classes, {flags.labels} "
            f"labels each, {path.stat().st_size / 2**20:,.0f} MB of CSV",
            flush=True,
        )
        subprocess.run([sys.executable, "-c", MEASURE, str(path)], check=True)
