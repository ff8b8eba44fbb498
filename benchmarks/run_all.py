"""One table of all numbers that have a bound, each measured side by side in this run.

    python benchmarks/run_all.py                 everything
    python benchmarks/run_all.py step memory     some of it

Every part has a process of its own, also by itself: `python benchmarks/export_speed.py`. Exit code
1 if a bar is missed.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from importlib import import_module

from measure import Figure, show

SPLITS = {  # module, function, what is less than by default
    "step": ("cost_of_the_game", "step_times", {}),
    "memory": ("cost_of_the_game", "memory", {}),
    "features": ("frozen_features", "frozen_features", {"rounds": 1}),
    "bundle": ("export_speed", "bundle_against_torch", {"rounds": 1}),
}


def work_of(part: str) -> Callable[[], list[Figure]]:
    module, function, less = SPLITS[part]
    return partial(getattr(import_module(module), function), **less)


def in_a_process(part: str) -> list[Figure]:
    """The figures of a part; a line without a value where it fails."""
    command = [sys.executable, __file__, "--here", part]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
        return [Figure(part, None, "{}", note=last[:80])]
    return [Figure(**figure) for figure in json.loads(done.stdout.splitlines()[-1])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(SPLITS)}")
    parser.add_argument("--here", choices=SPLITS, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.here:
        print(json.dumps([asdict(figure) for figure in work_of(flags.here)()]))
        return 0
    unknown = set(flags.parts) - set(SPLITS)
    if unknown:
        parser.error(f"unknown part {sorted(unknown)[0]!r} (known: {', '.join(SPLITS)})")
    figures: list[Figure] = []
    for part in flags.parts or SPLITS:
        began = time.perf_counter()
        found = in_a_process(part)
        figures += found
        print(f"{part}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
        for each in found:
            line = f"  {each.what}: {each.shown} {each.bar} {each.verdict} {each.note}"
            print(line.rstrip(), file=sys.stderr, flush=True)
    show(figures)
    return int(any(figure.verdict in ("missed", "not measured") for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
