"""Groups of processes for the tests, forked from one that has imported everything."""

import multiprocessing
import os
import signal
import tempfile
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as processes
from torch import nn

from g2netpl.game.network import network
from g2netpl.game.network.network import Backbone

_FORK = multiprocessing.get_context("forkserver")
_FORK.set_forkserver_preload(["ranks", "g2netpl.training.train", "accelerate", "timm"])


def _plain(pretrained):
    """A backbone that sees the images of a batch one by one: without batch norm."""
    layers = [nn.Conv2d(3, 8, 5, stride=4), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU()]
    return Backbone(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), 16)


network.BACKBONES["plain"] = _plain


@dataclass(frozen=True)
class Outcome:
    """What came of a job on one rank: a value, or an error."""

    value: Any = None
    error: str | None = None
    text: str = ""
    code: int = 0


class Group:
    """Connected processes that do the same job at the same time."""

    def __init__(self, size):
        self.size = size
        self.folder = tempfile.TemporaryDirectory()
        self.pipes, self.members = [], []
        for rank in range(size):
            ours, theirs = _FORK.Pipe()
            member = _FORK.Process(
                target=_serve, args=(rank, size, f"{self.folder.name}/store", theirs), daemon=True
            )
            member.start()
            theirs.close()
            self.pipes.append(ours)
            self.members.append(member)

    def start(self, job, *arguments):
        """Begin a job on all ranks."""
        for pipe in self.pipes:
            pipe.send((job, arguments))

    def outcomes(self):
        """What came of it; None from a rank that is gone."""
        found = []
        for pipe in self.pipes:
            try:
                assert pipe.poll(120), "the ranks hang"
                found.append(pipe.recv())
            except (EOFError, ConnectionError):
                found.append(None)
        return found

    def run(self, job, *arguments):
        """The values that all ranks come to."""
        self.start(job, *arguments)
        found = self.outcomes()
        for outcome in found:
            assert outcome is not None
            assert outcome.error is None, f"{outcome.error}: {outcome.text}"
        return [outcome.value for outcome in found]

    def kill(self, rank, number=signal.SIGKILL):
        """Send a signal to one of our own processes."""
        os.kill(self.members[rank].pid, number)

    def close(self):
        """End all of them."""
        for member in self.members:
            member.kill()
            member.join()
        self.folder.cleanup()


def _serve(rank, size, store, pipe):
    torch.set_num_threads(1)
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    os.environ.update({name: str(value) for name, value in place.items()})
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", OMP_NUM_THREADS="1")
    processes.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    while True:
        job, arguments = pipe.recv()
        try:
            outcome = Outcome(job(*arguments))
        except BaseException as problem:
            code = getattr(problem, "exit_code", 70)
            outcome = Outcome(None, type(problem).__name__, str(problem), code)
        pipe.send(outcome)
