"""Real launchers, signals to them, and killed ranks. Minutes: run by `make faults`."""

import os
import re
import signal
import socket
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
LAUNCHERS = {
    "torchrun": [str(HERE / "torchrun"), "--nproc_per_node", "2", "-m", "g2netpl"],
    "accelerate": [
        *(str(HERE / "accelerate"), "launch", "--multi_gpu", "--num_processes", "2"),
        *("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"),
        *("-m", "g2netpl"),
    ],
}


@pytest.fixture
def given(photos, tmp_path):
    def make(output, **changes):
        return {
            "labels": str(photos / "train.csv"),
            "images": str(photos),
            "output": str(tmp_path / output),
            "test_labels": str(photos / "test.csv"),
            "setting": "fspl",
            "backbone": "tiny",
            "image_size": "32",
            "epochs": "3",
            "batch_size": "7",
            "workers": "1",
            "device": "cpu",
            "cache": str(tmp_path / "cache"),
            "expected_positives": "2.3",
            "checkpoint_steps": "1",
            **changes,
        }

    return make


def arguments(values, *more):
    words = []
    for key, value in values.items():
        words += [f"--{key.replace('_', '-')}", value]
    return ["train", "--set", "only_listed=true", *words, *more]


class Launch:
    """A launcher, or ranks that were started one by one, and what they say."""

    def __init__(self, commands, environments, log):
        self.log = log
        with open(log, "a") as file:
            self.processes = [
                subprocess.Popen(
                    one,
                    env={**os.environ, **EVERYWHERE, **more},
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                for one, more in zip(commands, environments, strict=True)
            ]

    @property
    def said(self):
        return self.log.read_text()

    def until(self, path, seconds=300):
        """Wait until some file is there."""
        end = time.monotonic() + seconds
        while not list(path.parent.glob(path.name)):
            assert time.monotonic() < end, self.said
            assert all(process.poll() is None for process in self.processes), self.said
            time.sleep(0.05)

    def codes(self, seconds=300):
        try:
            return [process.wait(seconds) for process in self.processes]
        finally:
            for process in self.processes:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def launch(tmp_path):
    def start(how, *more):
        log = tmp_path / f"log{len(list(tmp_path.glob('log*')))}"
        if how in LAUNCHERS:
            return Launch([[*LAUNCHERS[how], *more]], [{}], log)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        place = {"WORLD_SIZE": str(how), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        places = [{**place, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(how)]
        return Launch([[sys.executable, "-m", "g2netpl", *more]] * how, places, log)

    return start


def ranks_of(launch):
    """The processes of the ranks below a launcher, by rank."""
    (launcher,) = launch.processes
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    ranks = {}
    for child in children:
        environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        for line in environment:
            if line.startswith(b"RANK="):
                ranks[int(line[5:])] = int(child)
    return ranks


def assert_equal(one, two):
    first, second = (load_file(run.folder / "model.safetensors") for run in (one, two))
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    assert (one.soft_labels() == two.soft_labels()).all()


@pytest.mark.parametrize("how", LAUNCHERS)
def test_a_launcher_trains_and_one_rank_speaks(launch, given, how):
    values = given("run", mode="linear")
    begun = launch(how, *arguments(values))
    assert begun.codes() == [0], begun.said
    for words in ("epoch 3 of 3: cost 0.", "written to", "60 images, 10 classes"):
        assert begun.said.count(words) == 1
    alone = train(
        RunConfig.read({**values, "only_listed": True, "output": f"{values['output']}1"}, "t")
    )
    assert load_run(values["output"]).result["validation_map"] is not None
    assert load_run(values["output"]).result["test_map"] == pytest.approx(
        alone.result["test_map"], abs=0.1
    )


def test_sigterm_to_torchrun_saves_once_and_going_on_is_exact(launch, given):
    whole = launch("torchrun", *arguments(given("whole", epochs="20")))
    assert whole.codes() == [0]
    values = given("stopped", epochs="20")
    begun = launch("torchrun", *arguments(values))
    begun.until(Path(values["output"]) / "checkpoints" / "0-000002-*")
    begun.processes[0].terminate()
    begun.codes(120)
    assert begun.said.count("g2netpl: stopped and saved; resume with") == 1
    assert "SIGKILL" not in begun.said
    again = launch("torchrun", *arguments(values, "--resume"))
    assert again.codes() == [0], again.said
    assert "resuming after epoch" in again.said
    assert_equal(load_run(given("whole")["output"]), load_run(values["output"]))


def test_torchrun_ends_all_when_a_rank_is_killed(launch, given):
    values = given("killed", epochs="20")
    begun = launch("torchrun", *arguments(values))
    begun.until(Path(values["output"]) / "checkpoints" / "0-000001-*")
    os.kill(ranks_of(begun)[1], signal.SIGKILL)
    assert begun.codes(120) == [1]
    again = launch("torchrun", *arguments(values, "--resume"))
    assert again.codes() == [0], again.said
    whole = launch("torchrun", *arguments(given("whole", epochs="20")))
    assert whole.codes() == [0]
    assert_equal(load_run(given("whole")["output"]), load_run(values["output"]))


SRUN = """#!{python}
import os, subprocess, sys
words = sys.argv[1 + sys.argv[1:].index("bash") :]
ranks = [
    subprocess.Popen(words, env={{**os.environ, "SLURM_PROCID": rank, "SLURM_LOCALID": rank}})
    for rank in "01"
]
with open("ranks", "w") as file:
    file.write(" ".join(str(rank.pid) for rank in ranks))
sys.exit(max(rank.wait() for rank in ranks))
"""


def test_the_slurm_script_of_the_docs(given, tmp_path):
    """With an srun of our own: after a signal the job is queued again, and then finishes."""
    page = (Path(__file__).parents[2] / "docs" / "use" / "several-processes.md").read_text()
    script = re.search(r"```sh\n(#!/bin/bash\n.*?)```", page, re.DOTALL)[1]
    tools = tmp_path / "tools"
    tools.mkdir()
    texts = {
        "srun": SRUN.format(python=sys.executable),
        "scontrol": 'if [ "$1" = show ]; then echo localhost; else echo "$@" >> requeued; fi',
        "g2netpl": f'exec {sys.executable} -m g2netpl "$@"',
    }
    for name, text in texts.items():
        (tools / name).write_text(text if text.startswith("#!") else f"#!/bin/bash\n{text}\n")
        (tools / name).chmod(0o755)
    values = {**given("unused", epochs="20"), "only_listed": "true"}
    del values["output"]
    numbers = ("epochs", "batch_size", "image_size", "workers", "checkpoint_steps", "only_listed")
    lines = [f"{k} = {v}" if k in numbers else f'{k} = "{v}"' for k, v in values.items()]
    (tmp_path / "run.toml").write_text("\n".join(lines).replace('"2.3"', "2.3"))
    environment = {
        **os.environ,
        **EVERYWHERE,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_JOB_NODELIST": "localhost",
        "SLURM_NTASKS": "2",
    }

    def submit():
        return subprocess.Popen(["bash", "-c", script], cwd=tmp_path, env=environment)

    job = submit()
    saved = tmp_path / "runs" / "big" / "checkpoints"
    while not list(saved.glob("0-000001-*")):
        assert job.poll() is None
        time.sleep(0.05)
    for rank in (tmp_path / "ranks").read_text().split():
        os.kill(int(rank), signal.SIGTERM)
    assert job.wait(120) == 75
    assert (tmp_path / "requeued").read_text() == f"requeue {os.getpid()}\n"
    assert submit().wait(300) == 0
    assert load_run(tmp_path / "runs" / "big").result["best_epoch"] > 0
    assert (tmp_path / "requeued").read_text().count("requeue") == 1
