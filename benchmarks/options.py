"""What the options about speed are worth on this machine; no bars, they tell what to choose.

1. Memory that the C library keeps (training does this): a step of lite0 without it : with it.
2. bf16: a step in float32 : in bf16, for lite0 and ResNet-50.
3. Photos of 256 px and 640 × 480 to squashed pixels: Pillow : simplejpeg (extra `fast`),
   Pillow : the cache.

    python benchmarks/options.py
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from measure import Figure, make_photos, one_thread, show, side_by_side
from torch.nn import functional

from g2netpl.game.network.network import build_network
from g2netpl.images.cache import ImageCache
from g2netpl.images.pixels import squashed

STEP = """
import json, sys, time, torch
from g2netpl.base.memory import keep_freed_memory
from g2netpl.game.network.network import build_network
if sys.argv[1] == "keep":
    keep_freed_memory()
torch.set_num_threads(1)
network = build_network("lite0", 80, pretrained=False).train()
optimizer = torch.optim.Adam(network.parameters(), lr=1e-4)
inputs, seconds = torch.randn(16, 3, 224, 224), []
for _ in range(5):
    began = time.process_time()
    optimizer.zero_grad()
    network(inputs).square().mean().backward()
    optimizer.step()
    seconds.append(time.process_time() - began)
print(json.dumps(sorted(seconds[1:])[1]))
"""


def kept_memory(rounds: int = 2) -> list[Figure]:
    seconds: dict[str, list[float]] = {"keep": [], "give back": []}
    for _ in range(rounds):
        for which, found in seconds.items():
            done = subprocess.run(
                [sys.executable, "-c", STEP, which], capture_output=True, text=True, check=True
            )
            found.append(json.loads(done.stdout))
    without, kept = (float(np.median(seconds[each])) for each in ("give back", "keep"))
    what = "lite0 step, freed memory given back : kept"
    return [Figure(what, without / kept, "{:.2f} ×", note=f"kept: {kept:.2f} s, 1 thread")]


def half_precision(rounds: int = 3) -> list[Figure]:
    figures = []
    for name, batch in (("lite0", 8), ("resnet50", 4)):
        network = build_network(name, 80, pretrained=False).train()
        inputs, labels = torch.randn(batch, 3, 224, 224), torch.zeros(batch, 80)

        def step(half: bool, network=network, inputs=inputs, labels=labels) -> None:
            network.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                logits = network(inputs)
            functional.binary_cross_entropy_with_logits(logits.float(), labels).backward()

        with one_thread():
            full, half = side_by_side(
                rounds, lambda step=step: step(False), lambda step=step: step(True)
            )
        figures.append(Figure(f"{name} step on a CPU, float32 : bf16", full / half, "{:.2f} ×"))
    return figures


def decoding(rounds: int = 3, size: int = 224) -> list[Figure]:
    figures = []
    for width, height in ((256, 256), (640, 480)):
        with tempfile.TemporaryDirectory() as made, one_thread():
            paths = make_photos(Path(made), 60, width, height)
            cache = ImageCache(len(paths), size)
            for row, path in enumerate(paths):
                cache.put(row, squashed(path, size))

            def pillow(paths=paths) -> None:
                for path in paths:
                    squashed(path, size, "pillow")

            def fast(paths=paths) -> None:
                for path in paths:
                    squashed(path, size, "simplejpeg")

            def kept(cache=cache) -> None:
                for row in range(cache.count):
                    np.array(cache.get(row))

            slow, quick, there = side_by_side(rounds, pillow, fast, kept, clock=time.process_time)
        photos = f"photos of {width} × {height}, Pillow"
        note = f"Pillow {1e3 * slow / len(paths):.2f} ms each"
        figures += [
            Figure(f"{photos} : simplejpeg", slow / quick, "{:.2f} ×", note=note),
            Figure(f"{photos} : cache", slow / there, "{:.0f} ×"),
        ]
    return figures


if __name__ == "__main__":
    show([*kept_memory(), *half_precision(), *decoding()])
