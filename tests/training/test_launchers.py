"""Real launchers, signals to them, and killed ranks. Minutes: `pytest -m long`."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import g2netpl
from g2netpl import RunConfig, load_run, train

pytestmark = pytest.mark.long

HERE = Path(sys.executable).parent
# the same source as here, from any folder
EVERYWHERE = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(g2netpl.__file__).parents[1])}
TORCHRUN = [str(HERE / "torchrun"), "--nproc_per_node", "2", "-m", "g2netpl"]


@pytest.fixture
def values(small_training):
    def make(name, **changes):
        usual = {"epochs": 20, "batch_size": 7, "workers": 1, "checkpoint_steps": 1}
        return small_training(name, **{**usual, **changes})

    return make


class Launch:
    """A launcher that trains, and what it says."""

    def __init__(self, values, log, *more):
        self.log = log
        settings = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
        with open(log, "w") as file:
            self.process = subprocess.Popen(
                [*TORCHRUN, "train", *more, *settings],
                env={**os.environ, **EVERYWHERE},
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self):
        return self.log.read_text()

    def until(self, folder, pattern, seconds=300):
        """Wait until some file exists."""
        end = time.monotonic() + seconds
        while not list(Path(folder).glob(pattern)):
            assert time.monotonic() < end, self.said
            assert self.process.poll() is None, self.said
            time.sleep(0.05)

    def code(self, seconds=300):
        try:
            return self.process.wait(seconds)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)

    def rank(self, number):
        """The process of a rank."""
        launcher = self.process.pid
        children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
        for child in children:
            if f"RANK={number}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(
                b"\0"
            ):
                return int(child)
        raise AssertionError(f"no rank {number}")


@pytest.fixture
def launch(tmp_path):
    def start(values, *more):
        return Launch(values, tmp_path / f"log{len(list(tmp_path.glob('log*')))}", *more)

    return start


def assert_equal(one, two):
    first, second = (load_file(f"{values['output']}/model.safetensors") for values in (one, two))
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    soft = [load_run(values["output"]).soft_labels() for values in (one, two)]
    assert (soft[0] == soft[1]).all()


def test_a_launcher_trains_and_one_rank_prints(launch, values):
    keys = values("run", mode="linear", epochs=3)
    begun = launch(keys)
    assert begun.code() == 0, begun.said
    for words in ("epoch 3 of 3: loss 0.", "written to", "60 images, 10 classes"):
        assert begun.said.count(words) == 1
    alone = train(RunConfig.read(values("alone", mode="linear", epochs=3), "test"))
    found = load_run(keys["output"]).result
    assert found["validation_map"] is not None
    assert found["test_map"] == pytest.approx(alone.result["test_map"], abs=0.1)


def stop_launcher(begun):
    begun.process.terminate()
    assert begun.code(120) != 0
    assert begun.said.count("g2netpl: stopped and saved; resume with") == 1
    assert "SIGKILL" not in begun.said


def kill_rank(begun):
    os.kill(begun.rank(1), signal.SIGKILL)
    assert begun.code(120) == 1


@pytest.mark.parametrize("end", [stop_launcher, kill_rank])
def test_after_a_signal_or_a_killed_rank_a_resume_is_bitwise(launch, values, end):
    whole, keys = values("whole"), values("stopped")
    assert launch(whole).code() == 0
    begun = launch(keys)
    begun.until(keys["output"], "checkpoints/0-000002-*")
    end(begun)
    again = launch(keys, "--resume")
    assert again.code() == 0, again.said
    assert "resuming after epoch" in again.said
    assert_equal(whole, keys)
