"""--plugin: methods from a file of the user's own, on the command line and in worker processes."""

import json
import shlex
import shutil
import signal
from pathlib import Path

import pytest
from feature_folders import write_folder

from g2netpl.cli import main
from g2netpl.core import METHODS, plugins

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_method.py"
LOSS = "        mean, known = "  # first line of the method's loss


@pytest.fixture(autouse=True)
def registry():
    """The registered methods are the same after each test."""
    before, loaded = dict(METHODS), list(plugins.LOADED)
    yield
    METHODS.clear()
    METHODS.update(before)
    plugins.LOADED[:] = loaded


@pytest.fixture
def own(tmp_path):
    return str(shutil.copy(EXAMPLE, tmp_path / "steady.py"))


@pytest.fixture
def features(tmp_path):
    return str(write_folder(tmp_path / "features"))


def test_an_own_method_is_compared_in_worker_processes(own, features, tmp_path, capsys):
    words = f"--settings fspl --seeds 0,1 --epochs 1 --learning-rates 1e-2 --features {features}"
    output = tmp_path / "compared"
    command = ["compare", "--methods", "an,steady", *words.split(), "--output", str(output)]
    assert main([*command, "--jobs", "2"]) == 2
    assert "unknown method 'steady'" in capsys.readouterr().err
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as some launchers leave it to their processes
    assert main([*command, "--jobs", "2", "--plugin", own]) == 0
    rows = json.loads((output / "results.json").read_text())
    assert [row["method"] for row in rows] == ["an", "steady"] * 2
    assert "steady.py" not in (output / "run.json").read_text()


def test_an_own_method_is_trained_and_its_run_used_without_the_file(
    own, small_training, tmp_path, capsys
):
    keys = small_training(method="steady", setting="fspl", expected_positives=2.0)
    arguments = ["train", "--plugin", own]
    for name, value in keys.items():
        arguments += ["--set", f"{name}={value}"]
    assert main(arguments) == 0
    del METHODS["steady"]
    plugins.LOADED.clear()
    assert main(["report", keys["output"]]) == 0
    assert main(["complete", keys["output"], "--details", str(tmp_path / "completed.csv")]) == 0
    capsys.readouterr()
    assert main(["train", "--resume", "--output", keys["output"]]) == 2
    assert "--plugin FILE adds your own" in capsys.readouterr().err


def test_what_is_said_after_a_stop_goes_on_with_the_plugin(
    tmp_path, small_training, sigterm, capsys
):
    path = tmp_path / "my own" / "steady.py"
    path.parent.mkdir()
    once = "import signal\nONCE = [signal.SIGTERM]\n" + EXAMPLE.read_text(encoding="utf-8")
    stop = "        while ONCE: signal.raise_signal(ONCE.pop())\n" + LOSS
    path.write_text(once.replace(LOSS, stop), encoding="utf-8")
    arguments = ["train", "--plugin", str(path)]
    for name, value in small_training(method="steady").items():
        arguments += ["--set", f"{name}={value}"]
    assert main(arguments) == 75
    said = capsys.readouterr().err
    program, *command = shlex.split(said.partition("resume with: ")[2])
    assert program == "g2netpl"
    del METHODS["steady"]
    plugins.LOADED.clear()
    shutil.copy(EXAMPLE, path)
    assert main(command) == 0


def test_a_configuration_cannot_name_a_program(own, tmp_path, capsys):
    config = tmp_path / "run.toml"
    config.write_text(f'plugin = "{own}"\nlabels = "a.csv"\noutput = "b"\n')
    assert main(["train", "--config", str(config)]) == 2
    assert "unknown key 'plugin'" in capsys.readouterr().err
    assert not plugins.LOADED


def compared(path, features, output, *more):
    words = f"--settings fspl --seeds 0,1 --epochs 1 --learning-rates 1e-2 --features {features}"
    command = ["compare", "--methods", "steady", *words.split(), "--output", str(output)]
    return main([*command, "--plugin", str(path), *more])


def test_what_fails_in_a_plugin_is_no_bug_of_ours(features, tmp_path, capsys):
    path = tmp_path / "mine.py"
    text = EXAMPLE.read_text(encoding="utf-8")
    path.write_text(text.replace(LOSS, '        x = "a" + 1\n' + LOSS), encoding="utf-8")
    assert compared(path, features, tmp_path / "out", "--jobs", "2") == 2
    said = capsys.readouterr().err
    line = 1 + [line.startswith(LOSS) for line in text.splitlines()].index(True)
    assert f"{path}:{line}: TypeError: can only concatenate" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("value", ["0.5", "output.logits", "output.logits.detach().mean()"])
def test_a_loss_that_cannot_be_minimised_is_no_bug_of_ours(value, features, tmp_path, capsys):
    path = tmp_path / "mine.py"
    text = EXAMPLE.read_text(encoding="utf-8")
    path.write_text(text.replace(LOSS, f"        return {value}\n" + LOSS), encoding="utf-8")
    assert compared(path, features, tmp_path / "out", "--jobs", "1", "--prior", "none") == 2
    said = capsys.readouterr().err
    assert "method steady: `loss` must return a tensor of one number with a gradient" in said
    assert "bug" not in said


def test_runs_of_an_earlier_content_of_the_file_are_named(own, features, tmp_path, capsys):
    output, words = tmp_path / "out", "its plugin file has changed"
    for changed, names in ((False, 0), (False, 0), (True, 1)):
        if changed:
            plugins.LOADED.clear()
            del METHODS["steady"]
            Path(own).write_text(EXAMPLE.read_text(encoding="utf-8") + "\n# 2\n", encoding="utf-8")
        assert compared(own, features, output, "--jobs", "1") == 0
        assert capsys.readouterr().out.count(words) == names
