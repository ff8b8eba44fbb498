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


def environment(**more):
    """That of a process which shall run the same package as we do, on one core."""
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(g2netpl.__file__).parents[1]),
        **more,
    }


@dataclass(frozen=True)
class Outcome:
    """How a run ended: its exit code (negative: a signal), what it said, where faults struck."""

    code: int
    said: str
    places: list[str]

    @property
    def is_one_line(self):
        """Whether it ended with one line of ours, and no traceback."""
        last = self.said.strip().splitlines()[-1:]
        return "Traceback" not in self.said and bool(last) and last[0].startswith("g2netpl: ")


class Driver:
    """The client's end."""

    def __init__(self, warm_up=()):
        self._server = subprocess.Popen(
            [sys.executable, "-m", "faults.driver", *warm_up],
            cwd=TESTS,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._server.stdout is not None
        if self._server.stdout.readline().strip() != "ready":
            raise RuntimeError("the server did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()

    def run(self, arguments, *faults, counting=False):
        """Run `g2netpl ARGUMENTS` to its end.

        With `counting`, faults do nothing; their calls are counted, and told as their places.
        """
        if counting:
            faults = [{"number": 0, "action": "", **fault} for fault in faults]
        request = {"arguments": arguments, "faults": faults, "counting": counting}
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return Outcome(**json.loads(self._server.stdout.readline()))


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
    if warm_up and main(warm_up) != 0:
        sys.exit("the first run failed")
    if threading.active_count() != 1:  # pools of OpenBLAS and Arrow start again after a fork
        sys.exit(f"threads that a child would not have: {threading.enumerate()}")
    gc.collect()
    gc.freeze()  # what children do not touch need not be copied
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        with tempfile.TemporaryDirectory() as folder:
            log, place = f"{folder}/log", f"{folder}/place"
            child = os.fork()
            if child == 0:
                _be_child(request, log, place)
            code = _wait(child)
            said = Path(log).read_text(errors="replace") if os.path.exists(log) else ""
            places = Path(place).read_text().splitlines() if os.path.exists(place) else []
        answer = {"code": code, "said": said, "places": places}
        print(json.dumps(answer), file=answers, flush=True)
    os._exit(0)  # without a word about what was frozen


def _be_child(request, log, place):
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
        counters = install(request["faults"], place)
        code = main(request["arguments"])
        if request["counting"]:
            Path(place).write_text("".join(f"{counter.calls}\n" for counter in counters))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1:])
