"""What the options about speed are worth on this machine; no bars, they tell what to choose.

1. Memory that the C library keeps (training does this): a step of lite0 without it : with it.
2. bf16: a step in float32 : in bf16, for lite0 and ResNet-50.

    python benchmarks/options.py
"""

import json
import subprocess
import sys

import numpy as np
import torch
from measure import Figure, one_thread, show, side_by_side
from torch.nn import functional

from g2netpl.game.network.network import build_network

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


if __name__ == "__main__":
    show([*kept_memory(), *half_precision()])
