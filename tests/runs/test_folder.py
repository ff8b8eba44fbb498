"""Run folders whose files are gone, torn, or hold something else: one line that names the file."""

import json
import shutil

import numpy as np
import pytest

from g2netpl.cli import main
from g2netpl.runs.records import read_training

DEEP = "[" * 100_000


def changed(path, **changes):
    """The JSON of a file with other values; None: without the key."""
    content = json.loads(path.read_text()) | changes
    kept = {key: value for key, value in content.items() if value is not None}
    path.write_text(json.dumps(kept))


def cut(path):
    path.write_bytes(path.read_bytes()[:90])


def text(content):
    return lambda path: path.write_text(content)


def soft(array):
    return lambda path: np.save(path, array)


def labels(**changes):
    def write(path):
        with np.load(path) as arrays:
            np.savez(path, **(dict(arrays) | changes))

    return write


def keys(**changes):
    return lambda path: changed(path, **changes)


DAMAGE = {
    "decisions.json": {
        "gone": lambda path: path.unlink(),
        "torn": cut,
        "an empty object": text("{}"),
        "thresholds of other classes": keys(thresholds=[0.5]),
    },
    "result.json": {
        "an empty object": text("{}"),
        "a text for mAP": keys(validation_map="x"),
    },
    "evaluation.json": {
        "a list": text("[1]"),
        "an empty part": keys(validation={}),
    },
    "run.json": {
        "torn": cut,
        "deep": text(DEEP),
        "no config": keys(config=None),
        "no data": keys(data=None),
        "a number for the classes": keys(classes=3),
    },
    "labels.npz": {
        "gone": lambda path: path.unlink(),
        "torn": cut,
        "other labels": labels(observed=np.full((60, 10), 7)),
        "fewer images": labels(images=np.array(["a.png"])),
    },
    "soft_labels.npy": {
        "gone": lambda path: path.unlink(),
        "torn": cut,
        "of another shape": soft(np.zeros((5, 3), np.float32)),
        "pickled": soft(np.full((60, 10), {}, dtype=object)),
    },
}


@pytest.fixture
def copied(small_run, tmp_path):
    shutil.copytree(small_run, tmp_path / "run")
    return tmp_path / "run"


def error(capsys, arguments):
    """The line that a command ends with, for a mistake in a file."""
    code, message = main([*map(str, arguments)]), capsys.readouterr().err
    assert (code, message.count("\n")) == (2, 1), message[-500:]
    return message


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_named_by_every_command(copied, small_run, tmp_path, capsys, name):
    commands = [["report", copied], ["complete", copied, "--details", tmp_path / "out.csv"]]
    if name.endswith(".json"):
        commands.append(["train", "--resume", "--output", copied])
    for case, damage in DAMAGE[name].items():
        damage(copied / name)
        for command in commands:
            assert str(copied / name) in error(capsys, command), case
        shutil.copy(small_run / name, copied)
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("line", ["null", '{"cost": 1}'])
def test_a_line_of_the_history_that_is_no_epoch_is_named(copied, capsys, line):
    path = copied / "history.jsonl"
    path.write_text(path.read_text() + line + "\n")
    assert f"{path}:3: " in error(capsys, ["report", copied])


def test_unknown_keys_are_kept(copied):
    changed(copied / "run.json", later={"self": 1})
    assert read_training(copied)["later"] == {"self": 1}
