"""A bundle against PyTorch on the same cores: images per second, start, memory.

Each is measured in a process of its own, in turns, from image files to calibrated scores (decoding
and resizing in the same process) and for the network only (batches of 16 in memory). The process
of the bundle never loads torch.

    python benchmarks/export_speed.py                          lite1 at 240 px, drawn photos
    python benchmarks/export_speed.py --run RUN --images DIR   a run and photos of your own
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import Figure, show

BATCH = 16


def in_child(kind: str, classifier: str, images: str, count: int) -> dict[str, float]:
    """In the child: load, predict, report."""
    began = time.perf_counter()
    paths = sorted(str(path) for path in Path(images).rglob("*.jpg"))[:count]
    threads = int(os.environ["OMP_NUM_THREADS"])
    if kind == "bundle":
        from g2netpl.runs.bundle import load_bundle

        trained = load_bundle(classifier)
        size = trained.contents.image_size

        def network(batch: np.ndarray) -> None:
            trained.session.run(None, {"pixels": batch})
    else:
        import torch

        from g2netpl.runs.export import BytesToScores
        from g2netpl.runs.run import load_run

        torch.set_num_threads(threads)
        trained = load_run(classifier)
        size = trained.config.image_size
        module = BytesToScores(trained.model, *trained.pixels[1:])

        def network(batch: np.ndarray) -> None:
            with torch.inference_mode():
                module(torch.from_numpy(batch))

    trained.predict(paths[:1])
    started = time.perf_counter()
    trained.predict(paths)
    ended = time.perf_counter()
    batch = np.random.default_rng(0).integers(0, 256, (BATCH, size, size, 3), dtype=np.uint8)
    network(batch)
    steps = max(1, len(paths) // BATCH)
    network_began = time.perf_counter()
    for _ in range(steps):
        network(batch)
    network_ended = time.perf_counter()
    assert kind != "bundle" or "torch" not in sys.modules
    return {
        "start (s)": started - began,
        "files to scores (images/s)": len(paths) / (ended - started),
        "network alone (images/s)": steps * BATCH / (network_ended - network_began),
        "peak memory (MB)": peak_memory(),
    }


def peak_memory() -> float:
    """Of this program; the figure of `resource` begins with that of the parent."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def in_a_process(threads: int, *arguments: object) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def draw_photos(folder: Path, count: int) -> None:
    """JPEGs of 640 × 480, soft shapes with noise."""
    from PIL import Image

    folder.mkdir()
    random = np.random.default_rng(0)
    for number in range(count):
        shapes = Image.fromarray(random.integers(0, 256, (9, 12, 3), dtype=np.uint8))
        pixels = np.asarray(shapes.resize((640, 480), Image.Resampling.BICUBIC)).astype(int)
        noisy = (pixels + random.integers(-15, 16, pixels.shape)).clip(0, 255)
        Image.fromarray(noisy.astype(np.uint8)).save(folder / f"{number:04}.jpg", quality=90)


def train_quickly(folder: Path, photos: Path) -> Path:
    """A run of the default backbone; what it has learnt does not matter here."""
    from g2netpl import RunConfig, train

    names = sorted(path.name for path in photos.iterdir())[:20]
    rows = [f"{name},{number % 2},{(number // 2) % 2}" for number, name in enumerate(names)]
    (folder / "labels.csv").write_text("image,a,b\n" + "\n".join(rows) + "\n")
    config = RunConfig(
        labels=str(folder / "labels.csv"),
        images=str(photos),
        output=str(folder / "run"),
        only_listed=True,
        mode="linear",
        epochs=1,
        workers=0,
        cache=str(folder / "cache"),
        expected_positives=1.0,
    )
    return train(config).folder


def bundle_against_torch(
    run: str | None = None,
    photos: str | None = None,
    count: int = 200,
    rounds: int = 3,
    threads: tuple[int, ...] = (1,),
) -> list[Figure]:
    from g2netpl import load_run
    from g2netpl.runs.export import export

    figures = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images = Path(photos or folder / "photos")
        if photos is None:
            draw_photos(images, count)
        trained = Path(run) if run else train_quickly(folder, images)
        bundle = folder / "bundle.onnx"
        apart = export(load_run(trained), bundle).difference
        figures.append(Figure("bundle, largest difference of scores", apart, "{:.1e}", most=1e-4))
        for number in threads:
            seen: dict[str, list[dict[str, float]]] = {"torch": [], "bundle": []}
            for _ in range(rounds):
                for kind, classifier in (("torch", trained), ("bundle", bundle)):
                    seen[kind].append(in_a_process(number, kind, classifier, images, count))
            for what in seen["torch"][0]:
                torch, ours = (
                    float(np.median([each[what] for each in seen[kind]])) for kind in seen
                )
                note = f"PyTorch {torch:.1f}, bundle {ours:.1f}, {number} thread(s)"
                name_of = f"bundle : PyTorch, {what}"
                figures.append(Figure(name_of, ours / torch, "{:.2f} ×", note=note))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", help="a run folder (default: lite1, trained for a moment)")
    parser.add_argument("--images", help="folder of .jpg photos (default: drawn ones)")
    parser.add_argument("--count", type=int, default=200, help="photos (default: 200)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, os.cpu_count() or 1])
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.measure:
        kind, classifier, images, count = flags.measure
        print(json.dumps(in_child(kind, classifier, images, int(count))))
        return
    threads = tuple(flags.threads)
    show(bundle_against_torch(flags.run, flags.images, flags.count, flags.rounds, threads))


if __name__ == "__main__":
    main()
