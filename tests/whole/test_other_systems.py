"""What runs where there is no POSIX: all of it in a process that behaves as on Windows.

It is a stand-in (see `windows_stand_in`), made of what Windows documents; no Windows was asked.
"""

import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = "import sys\nfrom windows_stand_in import begin\nbegin()\nfrom g2netpl.cli import main\n"


@pytest.fixture
def on_windows(tmp_path):
    """Run a script there, in an empty folder."""
    if sys.platform != "linux":
        pytest.skip("needs /proc to see which files are open")

    def run(script):
        path = tmp_path / "script.py"
        path.write_text(BEGIN + script)
        where = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 300}
        code = f"import sys; sys.path[:0] = [{str(Path(__file__).parent)!r}]; {RUN}"
        done = subprocess.run([sys.executable, "-c", code, path], **where)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


RUN = "exec(compile(open(sys.argv[1]).read(), sys.argv[1], 'exec'))"

COMMANDS = """
from pathlib import Path
from g2netpl.images.scenes import make_scenes, write_scenes
write_scenes(make_scenes(40, 10, seed=1), Path("photos"))

def run(*words):
    assert main(list(words)) == 0, words

short = ["--backbone", "tiny", "--image-size", "32", "--epochs", "2", "--workers", "0"]
data = ["--labels", "photos/train.csv", "--images", "photos", "--only-listed"]
run("check", *data[:4])
run("convert", "photos/train.csv", "labels.json", "--to", "coco")
run("observe", *data[:2], "--setting", "fspl", "--output", "fspl.csv")
run("train", *data, "--setting", "fspl", "--output", "run", "--cache", "cache", *short)
run("train", *data, "--setting", "fspl", "--output", "run", "--overwrite", "--cache", "cache",
    "--checkpoint-steps", "1", *short)
run("train", "--resume", "--output", "run")
run("report", "run")
run("complete", "run")
run("predict", "run", "--images", "photos", "--output", "scores.csv")
assert not Path("run/.lock").exists()
print("done")
"""


def test_commands_run(on_windows):
    said = on_windows(COMMANDS)
    assert said.endswith("done\n")
    assert "note: a power cut may take the last checkpoint with it" in " ".join(said.split())


PARTS = """
import os
from pathlib import Path
import numpy as np, torch
from g2netpl.base.errors import Refused
from g2netpl.base.locks import check_ours, locked
from g2netpl.review.answers_writer import DecisionLog

def refused(work):
    try:
        work()
    except Refused as problem:
        return str(problem)
    raise AssertionError("nobody was refused")

def enter(folder):
    with locked(folder):
        raise AssertionError("both")

run = Path("run")
with locked(run, surely=True):
    check_ours(run)
    assert "another process" in refused(lambda: enter(run))
    assert "a training its folder" in refused(lambda: DecisionLog(run))
assert not run.exists()  # it was left empty
run.mkdir()
log = DecisionLog(run)
assert "another process" in refused(lambda: enter(run))
assert "another g2netpl review" in refused(lambda: DecisionLog(run))
(run / "review.jsonl").read_bytes()  # others may look
log.close()
enter_again = locked(run)
with enter_again:
    pass
print("locks")

from g2netpl.images import kept_tables
pictures = []
for number in range(5):
    Path(f"{number}.png").write_bytes(bytes([number]))
    pictures.append(f"{number}.png")
truth = np.arange(20, dtype=np.float32).reshape(5, 4)
asked = []

def compute(rows):
    asked.append(rows.tolist())
    if len(asked) == 2:
        raise KeyboardInterrupt
    return truth[rows]

def kept():
    return kept_tables.kept(Path("cache"), "key", pictures, (4,), compute)

kept_tables._BLOCK = 8
Path("cache").mkdir()
try:
    kept()
except KeyboardInterrupt:
    pass
assert np.array_equal(kept(), truth)
assert len(asked) == 4 and asked[2] == asked[1]  # it went on where it stood
Path("2.png").write_bytes(b"another")
truth[2] = 99
assert np.array_equal(kept(), truth)  # a table that was mapped is replaced
print("activations")
"""


def test_locks_and_mapped_files(on_windows):
    assert on_windows(PARTS).split() == ["locks", "activations"]
