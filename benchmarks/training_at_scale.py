"""How much memory a whole training takes where there are very many labels, most of them unknown.

    python benchmarks/training_at_scale.py                       200,000 images × 2,000 classes
    python benchmarks/training_at_scale.py --images 20000        a tenth of it, in some seconds
    python benchmarks/training_at_scale.py --method role

`g2netpl train --mode linear` with 3 tags per image, in a process of its own. Its features are 16
random numbers per image in place of a backbone's. The figure is the peak of anonymous memory above
a process that has imported torch, also as a multiple of one table of all labels in 4 bytes each.
Files that are mapped into memory are not in it: the system takes their pages back when it needs
them.
"""

import argparse
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

MEASURE = """
import re, sys, threading, time
from pathlib import Path
import numpy as np
import torch
from rich.console import Console
from g2netpl import RunConfig, train
from g2netpl.game.network import network
from g2netpl.training import inputs as sources
from g2netpl.game.network.network import Backbone

folder, method, size = sys.argv[1], sys.argv[2], int(sys.argv[3])

def anonymous():
    return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

class Sixteen(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.unused = torch.nn.Parameter(torch.zeros(1))

    def forward(self, images):
        raise RuntimeError("the features are known")

def features(module, source, **unused):
    return np.random.default_rng(0).standard_normal((len(source), 16), dtype=np.float32)

network.BACKBONES["sixteen"] = lambda pretrained: Backbone(Sixteen(), 16)
sources.compute_features = features
values = {
    "labels": f"{folder}/labels.csv", "images": f"{folder}/images", "only_listed": True,
    "output": f"{folder}/run", "cache": f"{folder}/cache", "backbone": "sixteen", "mode": "linear",
    "method": method, "expected_positives": 3.0, "epochs": 2, "batch_size": 1024, "workers": 0,
    "device": "cpu",
}
config = RunConfig.read(values, "benchmark")
before, peak, over = anonymous(), 0.0, threading.Event()

def watch():
    global peak
    while not over.wait(0.02):
        peak = max(peak, anonymous() - before)

watcher = threading.Thread(target=watch)
watcher.start()
began, processor = time.perf_counter(), time.process_time()
try:
    run = train(config, console=Console(quiet=True))
finally:
    over.set()
    watcher.join()
seconds, processor = time.perf_counter() - began, time.process_time() - processor
print(f"{method}: {seconds:.0f} s ({processor:.0f} s of the processor), "
      f"peak {peak:,.0f} MB of anonymous memory: {peak * 2**20 / (4 * size):.2f} tables of 4 bytes")
"""


def make_data(folder: Path, images: int, classes: int, labels: int) -> None:
    """Names with tags, and files that can be opened; many names share a file."""
    picture = io.BytesIO()
    Image.new("RGB", (8, 8)).save(picture, "PNG")
    (folder / "images").mkdir()
    drawn = np.random.default_rng(0).integers(0, classes, (images, labels)).tolist()
    with open(folder / "labels.csv", "w", encoding="utf-8") as file:
        file.write("image,labels\n")
        for row, tags in enumerate(drawn):
            path = folder / "images" / f"{row:07d}.png"
            if row % 10_000 == 0:
                path.write_bytes(picture.getvalue())
                first = path
            else:
                os.link(first, path)
            file.write(f"{path.name},{';'.join(f'class {tag:05d}' for tag in tags)}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=200_000)
    parser.add_argument("--classes", type=int, default=2_000)
    parser.add_argument("--labels", type=int, default=3, help="of each image")
    parser.add_argument("--method", default="g2netpl")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        make_data(Path(name), flags.images, flags.classes, flags.labels)
        size = flags.images * flags.classes
        print(
            f"{flags.images:,} images × {flags.classes:,} classes, {flags.labels} tags each; a "
            f"table of 4 bytes is {4 * size / 2**20:,.0f} MB",
            flush=True,
        )
        command = [sys.executable, "-c", MEASURE, name, flags.method, str(size)]
        subprocess.run(command, check=True)
