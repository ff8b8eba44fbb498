"""What the end of a loader process is called, and what it is not."""

import subprocess
import sys

import pytest
from PIL import Image

from g2netpl import RunConfig, train
from g2netpl.images.loader import WorkerLost, lost_worker

KILLED = "DataLoader worker (pid 7) is killed by signal: Killed. "
CAUGHT = "Caught RuntimeError in DataLoader worker process 0.\nOriginal Traceback:\n  File x\n"
FULL = "RuntimeError: unable to write to file </torch_1_2_3>: No space left on device (28)"


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (RuntimeError(KILLED), "killed by signal"),
        (RuntimeError(CAUGHT + FULL), "No space left on device"),
        (ConnectionResetError(104, "Connection reset by peer"), "reset by peer"),
        (EOFError(), "EOFError"),
    ],
)
def test_a_lost_process_is_one_line(problem, why):
    found = lost_worker(problem)
    assert isinstance(found, WorkerLost)
    assert why in str(found)
    assert "\n" not in str(found)


@pytest.mark.parametrize(
    "problem", [RuntimeError(CAUGHT + "RuntimeError: shapes differ"), OSError(28, "full")]
)
def test_a_mistake_of_ours_is_not_called_a_lost_process(problem):
    assert lost_worker(problem) is None


def test_a_lost_process_is_reported_with_the_command_that_resumes(
    small_training, monkeypatch, tmp_path
):
    def broken(*_):
        raise RuntimeError(KILLED)

    config = RunConfig(**small_training())
    with monkeypatch.context() as patch:
        patch.setattr("g2netpl.images.loader.start_workers", broken)
        with pytest.raises(WorkerLost, match="killed by signal: Killed") as lost:
            train(config)
    advice = f"; resume with: g2netpl train --resume --output {config.output}"
    assert str(lost.value).endswith(f"if memory is short, use fewer --workers{advice}")
    assert train(config, resume=True).result["best_epoch"] in (1, 2)


@pytest.mark.parametrize("first", ["g2netpl.images.loader", "torch.utils.data"])
def test_a_process_ends_whose_images_are_in_use_still(first, tmp_path):
    picture = tmp_path / "a.png"
    Image.new("RGB", (8, 8)).save(picture)
    lines = (
        f"import {first}, numpy",
        "from g2netpl.images.loader import ImageSource",
        f"source = ImageSource([{str(picture)!r}], 8, (0, 0, 0), (1, 1, 1), workers=1)",
        "print(next(source.load([numpy.array([0])], None)).shape)",
    )
    command = [sys.executable, "-c", "\n".join(lines)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert (ended.stdout, ended.stderr) == ("torch.Size([1, 3, 8, 8])\n", "")
