"""Groups of connected processes for the tests, forked from one that has imported everything."""

import multiprocessing
import os
import tempfile

import torch
from torch import distributed

_FORK = multiprocessing.get_context("forkserver")
_FORK.set_forkserver_preload(["ranks", "g2netpl.training.train", "timm"])


class Group:
    """Connected processes that do the same job at the same time."""

    def __init__(self, size):
        self.folder = tempfile.TemporaryDirectory()
        self.pipes, self.members = [], []
        for rank in range(size):
            ours, theirs = _FORK.Pipe()
            place = (rank, size, f"{self.folder.name}/store", theirs)
            member = _FORK.Process(target=_serve, args=place, daemon=True)
            member.start()
            theirs.close()
            self.pipes.append(ours)
            self.members.append(member)

    def run(self, job, *arguments):
        """What every rank returns; an error of any rank fails the test."""
        outcomes = self.outcomes(job, *arguments)
        assert [error for _, error in outcomes] == [None] * len(outcomes)
        return [value for value, _ in outcomes]

    def outcomes(self, job, *arguments):
        """What every rank returns, or None, and what it raises, or None."""
        for pipe in self.pipes:
            pipe.send((job, arguments))
        for pipe in self.pipes:
            assert pipe.poll(300), "the ranks hang"
        return [pipe.recv() for pipe in self.pipes]

    def close(self):
        for member in self.members:
            member.kill()
            member.join()
        self.folder.cleanup()


def _serve(rank, size, store, pipe):
    torch.set_num_threads(1)
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    os.environ.update({name: str(value) for name, value in place.items()})
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", OMP_NUM_THREADS="1")
    distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=size
    )
    while True:
        job, arguments = pipe.recv()
        try:
            outcome = job(*arguments), None
        except BaseException as problem:
            outcome = None, f"{type(problem).__name__}: {problem}"
        pipe.send(outcome)
