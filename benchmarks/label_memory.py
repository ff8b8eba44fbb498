"""The memory of labels at 1,000,000 images × 1,000 classes, in a process of its own.

Rows read and written per second, warm, in random batches of 256, and the anonymous memory above
that of a process that has imported torch. Bars: 20,000 rows/s, 500 MB. The files take 4 GB.

    python benchmarks/label_memory.py
    python benchmarks/label_memory.py --rows 100000 --classes 1000
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from measure import Figure, show

from g2netpl.game.mapped_memory import MemoryPlace

ROWS, CLASSES, BATCH = 1_000_000, 1_000, 256


def anonymous_memory() -> int:
    """Bytes of this process that no file stands behind."""
    with open("/proc/self/status", encoding="ascii") as file:
        lines = dict(line.split(":", 1) for line in file)
    return 1024 * int(lines["RssAnon"].split()[0])


def measure(rows: int, classes: int, seconds: float, folder: str) -> dict[str, float]:
    """In the child: the memory as a training would make it."""
    torch.set_num_threads(1)
    before = anonymous_memory()
    memory = MemoryPlace(Path(folder)).memory("latents", (rows, classes), 0.0, torch.device("cpu"))
    latents = torch.rand(BATCH, classes)
    order = torch.randperm(rows)[: BATCH * 400].split(BATCH)
    for batch in order:  # warm: the pages are there
        memory.write(batch, latents[: len(batch)] + 0.0 * memory.read(batch))
    memory.end_epoch()
    for batch in order:
        memory.write(batch, memory.read(batch).mul_(0.99))
    memory.end_epoch()
    seen, most, spent = 0, 0, 0.0
    while spent < seconds:  # an epoch visits a row once
        began = time.perf_counter()
        for batch in order:
            memory.write(batch, memory.read(batch).mul_(0.99))
            seen += len(batch)
        spent += time.perf_counter() - began
        most = max(most, anonymous_memory() - before)
        began = time.perf_counter()
        memory.end_epoch()
        end = time.perf_counter() - began
    return {"rate": seen / spent, "memory": most, "end": end}


def label_memory(rows: int = ROWS, classes: int = CLASSES, seconds: float = 5.0) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--measure", folder, "--rows", str(rows)]
        command += ["--classes", str(classes), "--seconds", str(seconds)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    what, note = f"label memory, {rows:,} × {classes:,}", f"end of an epoch {found['end']:.1f} s"
    return [
        Figure(f"{what}, read + write", found["rate"], "{:,.0f} rows/s", least=2e4, note=note),
        Figure(f"{what}, memory", found["memory"] / 1e6, "{:,.0f} MB", most=500.0),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--classes", type=int, default=CLASSES)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--measure", metavar="FOLDER", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.measure:
        print(json.dumps(measure(flags.rows, flags.classes, flags.seconds, flags.measure)))
    else:
        show(label_memory(flags.rows, flags.classes, flags.seconds))
