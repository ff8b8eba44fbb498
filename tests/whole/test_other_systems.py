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
data = ["--labels", "photos/train.csv", "--images", "photos", "--set", "only_listed=true"]
run("check", *data[:4])
run("convert", "photos/train.csv", "labels.json", "--to", "coco")
run("convert", "photos/train.csv", "fspl.csv", "--setting", "fspl")
run("train", *data, "--setting", "fspl", "--output", "run", "--cache", "cache", *short)
run("train", *data, "--setting", "fspl", "--output", "run", "--overwrite", "--cache", "cache",
    "--set", "checkpoint_steps=1", *short)
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
