"""All trials, a table, and how long they took: `make faults`; some of them by name."""

import sys
import tempfile
import time

from faults import damage, deaths, refusals
from faults.driver import Driver
from faults.scene import KINDS, Lab, make_photos

SUITE = [
    *((f"kill -9, {kind}", lambda lab, kind=kind: deaths.kills(lab, kind)) for kind in KINDS),
    *(
        (f"killed 20 times, {kind}", lambda lab, kind=kind: deaths.hard_life(lab, kind))
        for kind in ("g2netpl", "role linear")
    ),
    *(
        (f"SIGTERM or Ctrl-C, {kind}", lambda lab, kind=kind: deaths.stops(lab, kind))
        for kind in ("g2netpl", "role", "g2netpl linear", "role linear")
    ),
    ("SIGTERM between steps", deaths.stops_between),
    ("SIGTERM before the first", deaths.stops_before),
    ("second Ctrl-C", deaths.second_keys),
    ("crash at each call of the disk", deaths.crashes),
    ("slow disk", deaths.slow_disks),
    ("dead loader process", deaths.dead_workers),
    ("loader processes left alone", deaths.orphans),
    ("damaged checkpoints", damage.damages),
    ("another moment's part is noticed", damage.teeth),
    ("full disk", damage.full_disks),
    ("full disk, a real one", damage.small_disk),
    ("no numbers", damage.nonsense),
    ("two runs in a folder", refusals.two_runs),
    ("two processes in a folder", refusals.two_processes),
    ("signals while it starts", refusals.early_signals),
    ("Ctrl-C in a terminal", refusals.at_the_terminal),
    ("changed since it began", refusals.changes),
    ("unfinished", refusals.unfinished),
]


def main(words):
    """Run the trials whose name contains one of the words; returns the exit code."""
    began, failed = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as root:
        lab = Lab(None, root)
        make_photos(lab.photos)
        with Driver(lab.new("g2netpl linear-init").arguments()) as driver:
            lab.driver = driver
            print(f"{'trial':<40}{'number':>8}{'passed':>8}{'seconds':>9}", flush=True)
            for name, trial in SUITE:
                if words and not any(word in name for word in words):
                    continue
                start = time.monotonic()
                tries = list(trial(lab))
                problems = [(what, problem) for what, problem in tries if problem]
                passed, seconds = len(tries) - len(problems), time.monotonic() - start
                print(f"{name:<40}{len(tries):>8}{passed:>8}{seconds:>9.0f}", flush=True)
                for what, problem in problems:
                    print(f"    {what}: {problem}", flush=True)
                failed += len(problems)
    print(f"{'failed' if failed else 'all passed'} in {time.monotonic() - began:.0f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
