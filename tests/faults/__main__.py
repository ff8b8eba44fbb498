"""All trials, and at the end a table of what was wanted and seen: `make faults`; some by name."""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from faults import damage, deaths, ranks, refusals
from faults.driver import Driver
from faults.scene import KINDS, Lab, make_photos


@dataclass(frozen=True)
class Trial:
    """Something that is tried a number of times; each try gives what it was, and what was wrong."""

    name: str
    wanted: str  # of every try
    least: int  # tries
    tries: Callable  # of the lab


def each(name, wanted, least, tries, kinds):
    """The same trial for several kinds of training."""
    return [
        Trial(f"{name}, {kind}", wanted, least, lambda lab, kind=kind: tries(lab, kind))
        for kind in kinds
    ]


FOUR = ("g2netpl", "role", "g2netpl linear", "role linear")
SUITE = [
    *each("kill -9", "the same bits", 30, deaths.kills, KINDS),
    *each("killed 20 times", "the same bits", 21, deaths.hard_life, ("g2netpl", "role linear")),
    *each("SIGTERM or Ctrl-C", "exit 75, the same bits", 10, deaths.stops, FOUR),
    Trial("SIGTERM between steps", "exit 75, the same bits", 16, deaths.stops_between),
    Trial("SIGTERM before the first", "exit 75, the same bits", 8, deaths.stops_before),
    Trial("SIGTERM, Ctrl-C, kill -9 at start", "nothing in the way", 5, refusals.early_signals),
    Trial("Ctrl-C in a terminal", "exit 75, one line", 3, refusals.at_the_terminal),
    Trial("second Ctrl-C", "exit 130, the same bits", 10, deaths.second_keys),
    Trial("crash at each call of the disk", "the same bits", 200, deaths.crashes),
    Trial("kill -9 while overwriting", "the old or the new bits", 32, deaths.overwrites),
    *each(
        "slow disk", "the same bits", 3, deaths.slow_disks, ("g2netpl linear", "in-place linear")
    ),
    Trial("dead loader process", "exit 6, the same bits", 18, deaths.dead_workers),
    Trial("loader processes left alone", "the same bits", 3, deaths.orphans),
    Trial("damaged checkpoint", "the one before, or exit 4", 100, damage.damages),
    Trial("a part of another moment", "other bits", 15, damage.teeth),
    Trial("full disk", "exit 74, the same bits", 14, damage.full_disks),
    Trial("full disk, a real one", "exit 74, the same bits", 0, damage.small_disk),
    Trial("no numbers", "nobody moves; exit 5", 9, damage.non_finite),
    Trial("no numbers, in pieces", "exit 5", 4, damage.non_finite_in_pieces),
    Trial("two runs in a folder", "exit 3", 5, refusals.two_runs),
    Trial("two processes in a folder", "exit 3", 4, refusals.two_processes),
    Trial("changed since it began", "exit 3", 9, refusals.changes),
    Trial("unfinished", "exit 3", 3, refusals.unfinished),
    Trial("1, 2, 3 ranks", "as one process", 40, ranks.together),
    Trial("launchers and killed ranks", "all gone, the same bits", 16, ranks.launched),
]


def main(words):
    """Run the trials whose name contains one of the words; returns the exit code."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # trials send it
    began, rows, failed = time.monotonic(), [], 0
    with tempfile.TemporaryDirectory() as root:
        lab = Lab(None, root)
        make_photos(lab.photos)
        with Driver(lab.new("g2netpl linear-init").arguments()) as driver:
            lab.driver = driver
            for trial in SUITE:
                if words and not any(word in trial.name for word in words):
                    continue
                start = time.monotonic()
                tries = list(trial.tries(lab))
                problems = [(what, problem) for what, problem in tries if problem]
                if len(tries) < trial.least:
                    problems.append((f"{trial.least} tries", f"there were {len(tries)}"))
                seen, seconds = len(tries) - len(problems), time.monotonic() - start
                print(f"{trial.name}: {seen} of {len(tries)} in {seconds:.0f} s", flush=True)
                for what, problem in problems:
                    print(f"    {what}: {problem}", flush=True)
                rows.append((trial.name, f"{len(tries)} × {trial.wanted}", str(seen), seconds))
                failed += len(problems)
    print()
    print_table(rows)
    seconds, load = time.monotonic() - began, os.getloadavg()[2]
    print(f"\n{'failed' if failed else 'all as wanted'} in {seconds:.0f} s on ", end="")
    print(f"{os.cpu_count()} processors, {load:.1f} of them asked for on average")
    return int(failed > 0)


def print_table(rows):
    """As it stands in docs/use/reliability.md."""
    widths = [max(len(row[column]) for row in [*rows, ("trial", "wanted")]) for column in (0, 1)]
    for row in (("trial", "wanted", "seen", "seconds"), ("---", "---", "---:", "---:"), *rows):
        last = row[3] if isinstance(row[3], str) else f"{row[3]:.0f}"
        print(f"| {row[0]:<{widths[0]}} | {row[1]:<{widths[1]}} | {row[2]:>4} | {last:>7} |")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
