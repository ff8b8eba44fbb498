"""--plugin: methods from a file of the user's own, on the command line and in worker processes."""

import json
import shlex
import signal

import pytest
from feature_folders import write_folder

from g2netpl.cli import main
from g2netpl.game import plugins
from g2netpl.game.methods import METHODS

HALVES = """
import torch
from g2netpl.game import METHODS, LabelPlayer, Method, Options, Proposal

class Halves(LabelPlayer):
    def __init__(self, setup, options):
        pass

    def propose(self, batch, progress, predict):
        known = batch.observed >= 0
        targets = torch.where(known, batch.observed.float(), 0.5)
        return Proposal(targets, torch.where(known, 1.0, 0.1))

METHODS["halves"] = Method(Halves, Options, summary="the unknown is a half", source="this test")
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "halves.py"
    path.write_text(HALVES)
    return str(path)


@pytest.fixture
def features(tmp_path):
    return str(write_folder(tmp_path / "features"))


def test_an_own_method_is_compared_in_worker_processes(own, features, tmp_path, capsys):
    words = f"--settings fspl --seeds 0,1 --epochs 1 --learning-rates 1e-2 --features {features}"
    output = tmp_path / "compared"
    command = ["compare", "--methods", "an,halves", *words.split(), "--output", str(output)]
    assert main([*command, "--jobs", "2"]) == 2
    assert "unknown method 'halves'" in capsys.readouterr().err
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as some launchers leave it to their processes
    assert main([*command, "--jobs", "2", "--plugin", own]) == 0
    rows = json.loads((output / "results.json").read_text())
    assert [row["method"] for row in rows] == ["an", "halves"] * 2
    assert "halves.py" not in (output / "run.json").read_text()


def test_an_own_method_is_trained_and_its_run_used_without_the_file(
    own, small_training, tmp_path, capsys
):
    keys = small_training(method="halves", setting="fspl", expected_positives=2.0)
    arguments = ["train", "--plugin", own]
    for name, value in keys.items():
        flag = "--" + name.replace("_", "-")
        arguments += [flag] if value is True else [flag, str(value)]
    assert main(arguments) == 0
    del METHODS["halves"]
    plugins.LOADED.clear()
    assert main(["report", keys["output"]]) == 0
    assert main(["complete", keys["output"], "--output", str(tmp_path / "completed.csv")]) == 0
    capsys.readouterr()
    assert main(["train", "--resume", "--output", keys["output"]]) == 2
    assert "comes with --plugin FILE" in capsys.readouterr().err


def test_what_is_said_after_a_stop_goes_on_with_the_plugin(
    tmp_path, small_training, sigterm, capsys
):
    path = tmp_path / "my own" / "halves.py"
    path.parent.mkdir()
    once = "import signal\nONCE = [signal.SIGTERM]\n" + HALVES
    stop = "        while ONCE: signal.raise_signal(ONCE.pop())\n        known ="
    path.write_text(once.replace("        known =", stop))
    arguments = ["train", "--plugin", str(path)]
    for name, value in small_training(method="halves").items():
        flag = "--" + name.replace("_", "-")
        arguments += [flag] if value is True else [flag, str(value)]
    assert main(arguments) == 75
    said = capsys.readouterr().err
    program, *command = shlex.split(said.partition("go on with: ")[2])
    assert program == "g2netpl"
    del METHODS["halves"]
    plugins.LOADED.clear()
    path.write_text(HALVES)
    assert main(command) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 / 0", "mine.py:1: ZeroDivisionError"),
        ("x = 1\nprint(", "mine.py:2: SyntaxError"),
        ("import nothing_of_this_name", "mine.py:1: ModuleNotFoundError"),
        ("x = 1", "adds no row to g2netpl.game.METHODS"),
        ("from g2netpl.game import METHODS\nMETHODS['an'] = METHODS['wan']", "changes method 'an'"),
        (None, "no such plugin file"),
    ],
)
def test_a_mistake_in_the_file_is_one_line(tmp_path, capsys, text, words):
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    assert main(["methods", "--plugin", str(path)]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_a_configuration_cannot_name_a_program(own, tmp_path, capsys):
    config = tmp_path / "run.toml"
    config.write_text(f'plugin = "{own}"\nlabels = "a.csv"\noutput = "b"\n')
    assert main(["train", "--config", str(config)]) == 2
    assert "unknown key 'plugin'" in capsys.readouterr().err
    assert not plugins.LOADED


def test_methods_lists_them(own, capsys):
    assert main(["methods", "--plugin", own]) == 0
    assert "the unknown is a half" in capsys.readouterr().out


def compared(path, features, output, *more):
    words = f"--settings fspl --seeds 0,1 --epochs 1 --learning-rates 1e-2 --features {features}"
    command = ["compare", "--methods", "halves", *words.split(), "--output", str(output)]
    return main([*command, "--plugin", str(path), *more])


@pytest.mark.parametrize("jobs", ["2"])
def test_what_fails_in_a_plugin_is_no_bug_of_ours(features, tmp_path, capsys, jobs):
    path = tmp_path / "mine.py"
    path.write_text(HALVES.replace("known = batch.observed >= 0", 'known = "a" + 1'))
    assert compared(path, features, tmp_path / "out", "--jobs", jobs) == 2
    said = capsys.readouterr().err
    line = 1 + HALVES.splitlines().index("        known = batch.observed >= 0")
    assert f"g2netpl: in your plugin {path}:{line}: TypeError: can only concatenate" in said
    assert said.count("\n") == 1
