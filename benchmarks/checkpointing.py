"""How long the training loop stands still for a checkpoint of ResNet-50 with Adam. Bar: 1 s.

    python benchmarks/checkpointing.py [--folder WHERE_RUNS_ARE]

The loop copies everything and goes on; a thread writes the copy. The labels are those of 30,000
images × 80 classes, in memory.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from measure import Figure, observed_positives, show

from g2netpl.game.methods import make_player
from g2netpl.game.network.network import build_network
from g2netpl.game.network.optimizers import make_optimizer
from g2netpl.game.player import Setup
from g2netpl.training.checkpoints import Writer
from g2netpl.training.epochs import Loop, Steps
from g2netpl.training.snapshots import Snapshot, copy_state


def checkpointing(folder: str | None = None, rounds: int = 3) -> list[Figure]:
    network = build_network("resnet50", 80, pretrained=False)
    optimizer = make_optimizer("Adam", network.parameters(), 1e-4)
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()  # makes the moments
    player = make_player("g2netpl", {}, Setup(observed_positives(30_000, 80), 2.9, 1e-4))
    before = Snapshot(finished=1, best_network=copy_state(network))
    steps = Steps(network, player, optimizer, 1, 0, before, Loop())
    blocked, whole = [], []
    with tempfile.TemporaryDirectory(dir=folder) as made:
        writer = Writer(Path(made))
        for number in range(rounds):
            steps.done = number
            began = time.perf_counter()
            writer.submit(steps.snapshot(), 0)
            blocked.append(time.perf_counter() - began)
            writer.finish()
            whole.append(time.perf_counter() - began)
        newest = max((Path(made) / "checkpoints").iterdir())
        size = sum(path.stat().st_size for path in newest.iterdir())
    note = f"{size / 1e6:.0f} MB, on the disk after {np.median(whole):.1f} s"
    what = "the loop stands still for a ResNet-50 checkpoint"
    return [Figure(what, float(np.median(blocked)), "{:.2f} s", most=1.0, note=note)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder")
    show(checkpointing(parser.parse_args().folder))
