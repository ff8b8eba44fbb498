"""`predict` on a million images: flat memory, ten kills, no row twice or missing; and with Ray.

    python benchmarks/predict_at_scale.py                     1,000,000 images, killed 10 times
    python benchmarks/predict_at_scale.py --images 20000 --kills 3 --output runs/scale
    python benchmarks/predict_at_scale.py --images 60000 --kills 0 --ray    also with Ray

Small PNG pictures in tar shards of 10,000 are made and a tiny network to score them. `predict` into
a folder is killed (SIGKILL) at random moments and started again until it ends by itself. Its memory
and that of its loader processes is looked at every half second; a plot has it against the images
that are done. In the end only pyarrow reads the folder: every name must be there once, and every
score must be the one that the bundle gives to a file of the same colour.
"""

import argparse
import csv
import io
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = 997  # of the pictures, so that neighbours differ
PER_SHARD = 10_000


def make_images(folder: Path, count: int) -> None:
    """Tar shards of pictures of 16 × 16 pixels; the number of one says its colour."""
    contents = [path.read_bytes() for path in colours(folder.parent)]
    folder.mkdir(parents=True)
    for first in range(0, count, PER_SHARD):
        with tarfile.open(folder / f"{first // PER_SHARD:05d}.tar", "w") as shard:
            for number in range(first, min(first + PER_SHARD, count)):
                member = tarfile.TarInfo(f"{number:08d}.png")
                content = contents[number % COLOURS]
                member.size = len(content)
                shard.addfile(member, io.BytesIO(content))


def colours(folder: Path) -> list[Path]:
    """A file for each colour."""
    (folder / "colours").mkdir(exist_ok=True)
    paths = [folder / "colours" / f"{colour}.png" for colour in range(COLOURS)]
    for colour, path in enumerate(paths):
        pixels = np.zeros((16, 16, 3), np.uint8)
        pixels[:] = colour % 256, colour * 7 % 256, colour * 31 % 256
        pixels[:8, : 1 + colour % 16] = 255
        Image.fromarray(pixels).save(path)
    return paths


def make_bundle(folder: Path) -> Path:
    """A tiny network, trained for an epoch on the built-in scenes."""
    from g2netpl.cli import main
    from g2netpl.images.scenes import make_scenes, write_scenes

    bundle = folder / "tiny.onnx"
    if not bundle.exists():
        write_scenes(make_scenes(train=60, test=20, seed=1), folder / "scenes")
        flags = ["--labels", folder / "scenes/train.csv", "--images", folder / "scenes"]
        flags += ["--output", folder / "run", "--backbone", "tiny", "--image-size", 32]
        flags += ["--epochs", 1, "--workers", 0, "--device", "cpu", "--overwrite"]
        assert main(["train", *map(str, flags)]) == 0
        assert main(["export", str(folder / "run"), "--output", str(bundle)]) == 0
    return bundle


def command(bundle: Path, images: Path, output: Path, *more: str) -> list[str]:
    """`g2netpl predict`, as a process."""
    said = [sys.executable, "-m", "g2netpl", "predict", str(bundle), "--images", str(images)]
    return [*said, "--output", str(output), *more]


def memory(pid: int) -> int:
    """Bytes that a process and its children hold for themselves (anonymous memory)."""
    found = 0
    for each in (pid, *children(pid)):
        try:
            text = Path(f"/proc/{each}/status").read_text()
        except OSError:
            continue
        held = re.search(r"RssAnon:\s+(\d+) kB", text)
        found += 1024 * int(held[1]) if held else 0
    return found


def children(pid: int) -> list[int]:
    """All processes below one."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    first = [int(each) for each in text.split()]
    return first + [below for each in first for below in children(each)]


def blocks_there(output: Path) -> int:
    return len(list(output.glob("part-*.parquet")))


def killed_and_finished(
    said: list[str], output: Path, kills: int, total: int, log: Path
) -> list[tuple[float, int, int, int]]:
    """Start, kill and start again; gives seconds, start, blocks there and bytes, twice a second."""
    seen, began, draw = [], time.monotonic(), random.Random(0)
    for start in range(kills + 1):
        goal = total * (start + draw.random()) / (kills + 1) if start < kills else None
        with open(log, "ab") as told:
            process = subprocess.Popen(said, stdout=told, stderr=told)
        while process.poll() is None:
            there = blocks_there(output)
            seen.append((time.monotonic() - began, start, there, memory(process.pid)))
            if goal is not None and there >= goal:
                time.sleep(draw.random())  # anywhere within a block
                process.kill()
                process.wait()
            time.sleep(0.5)
        if process.returncode == 0:
            break
        assert process.returncode == -9, log.read_text()[-2000:]
    assert process.returncode == 0, log.read_text()[-2000:]
    return seen


def check(bundle: Path, output: Path, count: int) -> dict[str, object]:
    """Every row once, with the scores of its colour: by pyarrow, and by the bundle on files."""
    import pyarrow.parquet as parquet

    from g2netpl import load_bundle

    classifier = load_bundle(bundle)
    expected = classifier.predict(colours(output.parent))
    seen, worst = np.zeros(count, np.int64), 0.0
    for path in sorted(output.glob("*.parquet")):
        table = parquet.read_table(path)
        numbers = np.array([int(name[:8]) for name in table.column("image").to_pylist()])
        np.add.at(seen, numbers, 1)
        for column, name in enumerate(classifier.classes):
            given = table.column(name).to_numpy()
            worst = max(worst, float(np.abs(given - expected[numbers % COLOURS, column]).max()))
    return {
        "rows": int(seen.sum()),
        "missing": int((seen == 0).sum()),
        "twice": int((seen > 1).sum()),
        "largest difference of any score": round(worst, 6),
        "other files": sorted(each.name for each in output.iterdir() if each.suffix != ".parquet"),
        "bytes per image": round(sum(each.stat().st_size for each in output.iterdir()) / count, 1),
    }


def plot(seen: list[tuple[float, int, int, int]], images: int, target: Path) -> None:
    """Memory against images that are done, a colour per start."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    last = max(there for _, _, there, _ in seen)
    figure, axes = pyplot.subplots(figsize=(8, 3.2), layout="constrained")
    for start in sorted({start for _, start, _, _ in seen}):
        points = [
            (images * there / last, held / 1e6) for _, each, there, held in seen if each == start
        ]
        axes.plot(*zip(*points, strict=True), linewidth=1)
    axes.set(xlabel="images done", ylabel="memory, MB", ylim=(0, None))
    axes.set_title(f"predict on {images:,} images, started {start + 1} times", fontsize=10)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    figure.savefig(target, dpi=120)


def timed(what: str, said: list[list[str]], count: int) -> None:
    """Several commands at once, by the clock."""
    began = time.monotonic()
    running = [subprocess.Popen(each, stdout=subprocess.DEVNULL) for each in said]
    codes = [each.wait() for each in running]
    seconds = time.monotonic() - began
    print(f"{what}: {seconds:.1f} s, {count / seconds:,.0f} images/s, exit codes {codes}")


def side_by_side(bundle: Path, images: Path, folder: Path, count: int) -> None:
    """One process, and Ray with as many workers as cores."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in ("one", "ray"):
        shutil.rmtree(folder / name, ignore_errors=True)
    here = ("--workers", "0")
    timed("one process", [command(bundle, images, folder / "one", *here)], count)
    timed("--engine ray", [command(bundle, images, folder / "ray", "--engine", "ray")], count)
    for name in ("one", "ray"):
        print(name, check(bundle, folder / name, count))
    same = all(
        path.read_bytes() == (folder / "ray" / path.name).read_bytes()
        for path in (folder / "one").glob("*.parquet")
    )
    print("files are the same to the byte:", same)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("runs/scale"))
    parser.add_argument("--figure", type=Path, help="where the plot goes")
    parser.add_argument("--ray", action="store_true", help="compare with Ray")
    flags = parser.parse_args()

    flags.output.mkdir(parents=True, exist_ok=True)
    bundle = make_bundle(flags.output)
    images, output = flags.output / f"images-{flags.images}", flags.output / "scores"
    if not images.exists():
        make_images(images, flags.images)
    if flags.ray:
        side_by_side(bundle, images, flags.output, flags.images)
        return
    shutil.rmtree(output, ignore_errors=True)
    blocks = len(list(images.iterdir()))
    said = command(bundle, images, output, "--workers", str(flags.workers))
    began = time.monotonic()
    seen = killed_and_finished(said, output, flags.kills, blocks, flags.output / "log.txt")
    seconds = time.monotonic() - began
    with open(flags.output / "memory.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("seconds", "start", "blocks", "bytes"), *seen])
    plot(seen, flags.images, flags.figure or flags.output / "memory.png")
    starts = 1 + max(start for _, start, _, _ in seen)
    most = [max(held for _, each, _, held in seen if each == start) for start in range(starts)]
    print(f"{blocks:,} blocks, started {starts} times, {seconds:.0f} s in all")
    print("most memory of each start, MB:", [round(each / 1e6) for each in most])
    print(check(bundle, output, flags.images))


if __name__ == "__main__":
    main()
