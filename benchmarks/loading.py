"""Images in shards against single files: images/s, side by side in one run.

    python benchmarks/loading.py                     2,000 photos are made up
    python benchmarks/loading.py --images photos     photos of your own

Our loader (decode, squash, mirror, collate, hand over) reads the same photos as files, from tar
shards and from Parquet, with 0, 2 and 4 workers, in the order that a training would read them in.
Each is compared with bare Pillow (decode, resize) on the files in as many processes, one for 0.
`cold` asks the system before each round to drop what it keeps of the files' content; names and
folders stay known to it. Reading alone leaves the pixels out. Indexing is the pass made once.
"""

import argparse
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import psutil
import pyarrow
import pyarrow.parquet
from measure import make_photos, one_thread
from reading import BATCH, SIZE, bare

from g2netpl.base.inside import open_file
from g2netpl.images.loader import ImageSource, epoch_groups
from g2netpl.images.packing import pack
from g2netpl.images.sources import images_at, list_images, locate, shards_of
from g2netpl.labels.table import LabelTable

WORKERS = (0, 2, 4)


def make_kinds(root: str, made: Path) -> dict[str, str]:
    names = list_images(root)
    paths = locate(names, root)
    table = LabelTable(tuple(names), ("photo",), np.ones((len(names), 1), dtype=np.int8))
    pack(table, paths, made / "shards", 64_000_000, 1000)
    rows = [{"bytes": Path(path).read_bytes(), "path": Path(path).name} for path in paths]
    kind = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    columns = pyarrow.table({"image": pyarrow.array(rows, kind)})
    pyarrow.parquet.write_table(columns, made / "photos.parquet", row_group_size=100)
    return {"files": root, "shards": str(made / "shards"), "Parquet": str(made / "photos.parquet")}


def forget(paths: Sequence[str]) -> None:
    """Drop what the system keeps of the content of files."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def files_of(address: str) -> list[str]:
    root = Path(address)
    return [str(path) for path in ([root] if root.is_file() else root.rglob("*")) if path.is_file()]


def processor_seconds() -> float:
    """Of this process and all that it started."""
    this = psutil.Process()
    times = [each.cpu_times() for each in (this, *this.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def rates(count: int, work: Callable[[], object]) -> tuple[float, float]:
    """Images by the second, and by the second of a processor."""
    began, used = time.perf_counter(), processor_seconds()
    work()
    seconds, own = time.perf_counter() - began, processor_seconds() - used
    return count / seconds, count / max(own, 0.01)  # the system counts in hundredths


def measure(
    folder: str | None, count: int, rounds: int, workers_asked: Sequence[int] = WORKERS
) -> None:
    with tempfile.TemporaryDirectory() as temporary, one_thread():
        made = Path(temporary)
        os.environ["XDG_CACHE_HOME"] = str(made / "cache")
        if folder is None:
            (made / "photos").mkdir()
            make_photos(made / "photos", count)
        kinds = make_kinds(folder or str(made / "photos"), made)
        for kind in ("shards", "Parquet"):
            wall, own = rates(len(list_images(kinds["files"])), partial(images_at, kinds[kind]))
            print(f"indexing {kind}: {wall:.0f} images/s, {own:.0f} by processor seconds")
        for cold in (False, True):
            _read_alone(kinds, cold, rounds)
        for cold in (False, True):
            for workers in workers_asked:
                _compare(kinds, workers, cold, rounds)


def _read_alone(kinds: dict[str, str], cold: bool, rounds: int) -> None:
    """Bytes without pixels, by one process; those of shards and Parquet have their SHA-256."""
    files = [file for address in kinds.values() for file in files_of(address)]
    for kind, address in kinds.items():
        paths, found = locate(list_images(address), address), []
        for epoch in range(rounds):
            order = np.concatenate(epoch_groups(len(paths), BATCH, 0, epoch, shards_of(paths)))
            if cold:
                forget(files)
            found.append(rates(len(paths), partial(_read, [paths[row] for row in order])))
        wall, own = np.median(found, axis=0)
        how = f"{'cold' if cold else 'warm'}, reading alone, {kind:<7}"
        print(f"{how}: {wall:6.0f} images/s, {own:6.0f} by processor seconds", flush=True)


def _read(paths: Sequence[str]) -> None:
    for path in paths:
        with open_file(path) as file:
            file.read()


def _compare(kinds: dict[str, str], workers: int, cold: bool, rounds: int) -> None:
    paths = {kind: locate(list_images(address), address) for kind, address in kinds.items()}
    count = len(paths["files"])
    files = [file for address in kinds.values() for file in files_of(address)]
    sources = {
        kind: ImageSource(
            each, SIZE, (0.5,) * 3, (0.25,) * 3, workers=workers, shards=shards_of(each)
        )
        for kind, each in paths.items()
    }
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in ("bare", *sources)}
    with get_context("spawn").Pool(max(workers, 1)) as pool:
        for epoch in range(rounds + 1):  # the processes start in the first
            for kind in found:
                if cold:
                    forget(files)
                if kind == "bare":
                    work = partial(pool.map, bare, [*map(str, paths["files"])], chunksize=BATCH)
                else:
                    groups = epoch_groups(count, BATCH, 0, epoch, sources[kind].shards)
                    work = partial(deque, sources[kind].decoded(groups, epoch), maxlen=0)
                found[kind].append(rates(count, work))
    medians = {kind: np.median(each[1:], axis=0) for kind, each in found.items()}
    for kind, (wall, own) in medians.items():
        ratios = " and ".join(f"{each:.2f}" for each in (wall, own) / medians["bare"])
        how = f"{'cold' if cold else 'warm'}, {workers} workers, {kind:<7}"
        print(f"{how}: {wall:5.0f} images/s, {own:5.0f} by processor seconds; bare × {ratios}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--images", help="a folder of photos")
    parser.add_argument("--count", type=int, default=2000, help="photos to make up")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="*", default=WORKERS)
    flags = parser.parse_args()
    measure(flags.images, flags.count, flags.rounds, flags.workers)
