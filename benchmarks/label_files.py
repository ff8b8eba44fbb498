"""How long label files take to read, next to pandas.read_csv of the same file.

    python benchmarks/label_files.py [--images 1000000] [--runs 3]

Each file is read in a process of its own, by g2netpl and by pandas in turn: `as text` keeps 007 and
NA unchanged, as g2netpl must. The shortest of the runs counts, in seconds of processor time, which
other programs on the machine change least. The peak is the memory of the process.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CLASSES = [f"class {number}" for number in range(80)]


def write_files(folder: Path, images: int) -> list[Path]:
    """Tags, and a column per class for a tenth of the images."""
    random = np.random.default_rng(0)
    names = np.array(CLASSES, dtype=object)
    tags, wide = folder / "tags.csv", folder / "one-hot.csv"
    counts = random.integers(0, 5, images)
    with open(tags, "w") as file:
        file.write("image,labels\n")
        for row, chosen in enumerate(random.integers(0, len(names), (images, 4))):
            cell = ";".join(dict.fromkeys(names[chosen[: counts[row]]]))
            file.write(f"photos/{row % 1000:03}/{row:09}.jpg,{cell}\n")
    with open(wide, "w") as file:
        file.write(f"image,{','.join(CLASSES)}\n")
        for row, present in enumerate(random.random((images // 10, len(names))) < 0.04):
            cells = ",".join(present.astype(int).astype(str))
            file.write(f"photos/{row % 1000:03}/{row:09}.jpg,{cells}\n")
    return [tags, wide]


def read(reader: str, path: str) -> None:
    """Read a file once and print what it took."""
    import pandas as pd

    from g2netpl.labels.io import read_labels

    started = time.process_time()
    if reader == "g2netpl":
        rows = len(read_labels(path))
    else:
        text = {"dtype": str, "keep_default_na": False} if reader == "pandas, as text" else {}
        rows = len(pd.read_csv(path, **text))
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rows": rows, "seconds": seconds, "peak": peak}))


def main() -> None:
    """Write the files, read them in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--read", nargs=2, metavar=("READER", "FILE"))
    flags = parser.parse_args()
    if flags.read:
        read(*flags.read)
        return
    print("| file | MB | rows | reader | seconds | peak MB | times read_csv |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for path in write_files(Path(folder), flags.images):
            best: dict[str, dict[str, float]] = {}
            for _ in range(flags.runs):
                for reader in ("pandas", "pandas, as text", "g2netpl"):
                    command = [sys.executable, __file__, "--read", reader, str(path)]
                    done = json.loads(subprocess.run(command, check=True, stdout=-1).stdout)
                    if reader not in best or done["seconds"] < best[reader]["seconds"]:
                        best[reader] = done
            for reader, done in best.items():
                ratio = done["seconds"] / best["pandas"]["seconds"]
                size = path.stat().st_size / 1e6
                print(
                    f"| {path.name} | {size:.0f} | {done['rows']:,} | {reader} | "
                    f"{done['seconds']:.2f} | {done['peak']:.0f} | {ratio:.2f} |"
                )


if __name__ == "__main__":
    main()
