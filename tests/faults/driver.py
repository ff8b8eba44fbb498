"""Runs `g2netpl` many times without importing torch as many times: a server forks for each run.

The server has imported everything and has one Python thread, so its children are as good as new
processes.
"""

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import g2netpl

TESTS = Path(__file__).parents[1]
PATIENCE = 120.0  # seconds until a run is taken to hang


@dataclass(frozen=True)
class Outcome:
    """How a run ended: its exit code (negative: a signal), what it printed, and calls counted."""

    code: int
    text: str
    calls: int

    @property
    def is_one_line(self):
        """Whether it ended with one line of ours, and no traceback."""
        last = self.text.strip().splitlines()[-1:]
        return "Traceback" not in self.text and bool(last) and last[0].startswith("g2netpl: ")


class Driver:
    """The client's end."""

    def __init__(self, warm_up):
        here = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(g2netpl.__file__).parents[1])}
        self._server = subprocess.Popen(
            [sys.executable, "-m", "faults.driver", *warm_up],
            cwd=TESTS,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **here},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._server.stdout.readline().strip() != "ready":
            raise RuntimeError("the server did not start")

    def close(self):
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()

    def run(self, arguments, *faults):
        """Run `g2netpl ARGUMENTS` to its end; `calls` are those of the first fault's function."""
        self._server.stdin.write(json.dumps([arguments, faults]) + "\n")
        self._server.stdin.flush()
        return Outcome(*json.loads(self._server.stdout.readline()))


def _wait(process):
    """Wait for a child, which is killed if it hangs; gives its exit code."""
    began, is_killed = time.monotonic(), False
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if not is_killed and time.monotonic() - began > PATIENCE:
            os.kill(process, signal.SIGKILL)
            is_killed = True
        time.sleep(0.002)


def _serve(warm_up):
    import torch

    from g2netpl.cli import main

    torch.set_num_threads(1)
    answers, sys.stdout = sys.stdout, open(os.devnull, "w")  # noqa: SIM115
    if main(warm_up) != 0:
        sys.exit("the first run failed")
    if threading.active_count() != 1:  # pools of OpenBLAS and Arrow start again after a fork
        sys.exit(f"threads that a child would not have: {threading.enumerate()}")
    gc.collect()
    gc.freeze()  # what children do not touch need not be copied
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as folder:
            log, calls = Path(folder, "log"), Path(folder, "calls")
            child = os.fork()
            if child == 0:
                _be_child(*json.loads(line), log, calls)
            code = _wait(child)
            counted = int(calls.read_text()) if calls.exists() else 0
            answer = code, log.read_text(errors="replace"), counted
        print(json.dumps(answer), file=answers, flush=True)
    os._exit(0)  # without a word about what was frozen


def _be_child(arguments, faults, log, calls):
    """Run the command as a process of its own would; never returns."""
    from faults.injection import install
    from g2netpl.cli import main

    code = 70
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for number in (1, 2):
            os.dup2(descriptor, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        counters = install(faults)
        code = main(arguments)
        calls.write_text(str(counters[0].calls if counters else 0))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1:])
