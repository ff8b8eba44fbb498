"""--overwrite: old results come back unless the new ones got as far as a checkpoint."""

import os
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from g2netpl.base import locks
from g2netpl.base.errors import InputError
from g2netpl.base.locks import locked
from g2netpl.cli import main
from g2netpl.images.features import FeatureFolder, write_features
from g2netpl.labels.table import LabelTable
from g2netpl.runs import backup
from g2netpl.runs.backup import Backup, recover
from g2netpl.runs.config import RunConfig
from g2netpl.runs.records import read_run
from g2netpl.training import train as training
from g2netpl.training.train import train


def everything(folder):
    """All files below a folder and their bytes, and the empty folders."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.name != locks.LOCK and (path.is_file() or not any(path.iterdir()))
    }


def fill(folder, command, name="old"):
    """Results of a command, with folders where it has them, and a file of the user's own."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(f'{{"format": 2, "command": "{command}", "of": "{name}"}}')
    (folder / "report.html").write_text(name)
    (folder / "review.jsonl").write_text("decisions of people")
    if command == "train":
        (folder / "checkpoints" / "0-1").mkdir(parents=True)
        (folder / "checkpoints" / "0-1" / "manifest.json").write_text(name)
    else:
        (folder / "labels").mkdir()
        (folder / "labels" / "train.csv").write_text(name)
        (folder / "labels" / "mine.csv").write_text("a file of the user's own")
        cell = folder / "runs" / f"an fspl seed 0 rate 1 batch {len(name)}"
        cell.mkdir(parents=True)
        (cell / "run.json").write_text('{"format": 2, "command": "train"}')
    return folder


class Killed(BaseException):
    """As if the process were gone."""


def killed_at(number, action, patch):
    """Do it until the n-th change of a name on the disk; whether it came so far."""
    left = [number]

    def dying(real):
        def call(*arguments, **named):
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return real(*arguments, **named)

        return call

    with patch.context() as patched:
        for owner, name in ((os, "rename"), (Path, "rename"), (shutil, "rmtree")):
            patched.setattr(owner, name, dying(getattr(owner, name)))
        patched.setattr(backup, "_remove", dying(backup._remove))
        try:
            action()
        except Killed:
            return True
    return False


@pytest.mark.parametrize("command", ["train", "compare"])
def test_killed_at_any_moment_the_old_results_come_back(tmp_path, monkeypatch, command):
    whole = everything(fill(tmp_path / "whole", command))
    moments = 0
    for number in range(100):
        folder = fill(tmp_path / f"run-{number}", command)

        def replaced(folder=folder):
            Backup(folder, command)
            shutil.rmtree(folder / "labels", ignore_errors=command == "train")
            new = fill(folder.with_name("new"), command, "new")
            shutil.copytree(new, folder, dirs_exist_ok=True)
            shutil.rmtree(new)
            if command == "compare":
                (folder / "labels" / "mine.csv").write_text("a file of the user's own")
            raise Killed

        assert killed_at(number, replaced, monkeypatch)
        shutil.rmtree(tmp_path / "new", ignore_errors=True)
        for again in range(100):  # and so is whoever puts them back
            if not killed_at((number + again) % 7, partial(recover, folder), monkeypatch):
                break
        recover(folder)
        assert read_run(folder)["of"] == "old"
        assert everything(folder) == whole
        moments += (folder / "run.json").is_file()
    assert moments == 100


def test_killed_while_old_results_are_dropped_the_new_ones_stay(tmp_path, monkeypatch):
    for number in range(4):
        folder = fill(tmp_path / f"run-{number}", "train")
        old = Backup(folder, "train")
        (folder / "run.json").write_text('{"format": 2, "command": "train", "of": "new"}')
        killed_at(number, old.drop, monkeypatch)
        of = read_run(folder)["of"]
        assert of == ("old" if number == 0 else "new")
        later = Backup(folder, "train")
        later.restore()
        assert read_run(folder)["of"] == of
        assert not (folder / backup.REPLACED).exists()


def test_who_looks_on_leaves_a_process_at_work_alone(tmp_path):
    folder = fill(tmp_path / "run", "train")
    with locked(folder):
        Backup(folder, "train")
        (folder / "run.json").write_text('{"format": 2, "command": "train", "of": "new"}')
        assert read_run(folder)["of"] == "new"
    assert read_run(folder)["of"] == "old"  # it ended without a word


@pytest.fixture
def finished(small_training):
    """A finished training, and what is in its folder."""
    run = train(RunConfig(**small_training(checkpoint_steps=1, learning_rate=1e-3)))
    (run.folder / "review.jsonl").write_text("decisions of people")
    return run.folder, everything(run.folder)


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"learning_rate": 3e37}, 5, "smaller learning rate"),
        ({"learning_rate": 3e37, "mode": "linear-init"}, 5, "smaller learning rate"),
        ({"learning_rate": 1e38}, 2, "at a learning rate of 1e+38"),
        ({"image_size": 200_000}, 2, "less than or equal to 8192"),
    ],
)
def test_a_flag_that_cannot_be_trained_with_costs_nothing(
    finished, small_training, capsys, changes, code, words
):
    folder, before = finished
    arguments = ["train", "--overwrite"]
    for name, value in small_training(checkpoint_steps=1, **changes).items():
        flag = "--" + name.replace("_", "-")
        arguments += [flag] if value is True else [flag, str(value)]
    assert main(arguments) == code
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert everything(folder) == before


def test_one_step_is_tried_and_forgotten(finished, small_training):
    folder, _ = finished
    keys = small_training(checkpoint_steps=1, learning_rate=1e-3)
    again = train(RunConfig(**keys), overwrite=True)
    anew = train(RunConfig(**{**keys, "output": str(folder) + "-2"}))
    for name in ("model.safetensors", "soft_labels.npy"):
        assert (again.folder / name).read_bytes() == (anew.folder / name).read_bytes()


@pytest.mark.parametrize("saved", [False, True])
def test_a_failure_before_the_first_checkpoint_puts_the_old_run_back(
    finished, small_training, monkeypatch, saved
):
    folder, before = finished
    config = RunConfig(**small_training(method="an", track=()))

    def fail(*_, **__):
        assert not (folder / "result.json").exists()
        raise InputError("no use")

    if saved:
        monkeypatch.setattr(training, "finish", fail)
    else:
        monkeypatch.setattr("g2netpl.training.session.fit", fail)
    with pytest.raises(InputError, match="no use"):
        train(config, overwrite=True)
    if saved:  # the new one can be gone on with
        assert not (folder / "result.json").exists()
        monkeypatch.undo()
        assert train(config, resume=True).config.method == "an"
    else:
        assert everything(folder) == before
    assert (folder / "review.jsonl").read_text() == "decisions of people"
    assert not list(folder.glob(".*"))


@pytest.fixture
def features(tmp_path):
    values = np.random.default_rng(0).normal(size=(80, 6)).astype(np.float32)
    labels = (values[:, :3] > 0.3).astype(np.int8)
    labels[0] = 1
    table = LabelTable(tuple(map(str, range(80))), tuple("abc"), labels)
    write_features(tmp_path / "features", FeatureFolder(values, table, values, table))
    return tmp_path / "features"


def test_a_comparison_of_nothing_but_divergence_replaces_none(features, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["compare", "--features", str(features), "--methods", "an", "--settings", "full"]
    arguments += ["--seeds", "0", "--epochs", "1", "--jobs", "1", "--output", str(out)]
    assert main([*arguments, "--batch-sizes", "8"]) == 0
    before = everything(out)
    for rate, code in (("3e37", 5), ("1e38", 2)):
        more = ["--batch-sizes", "8", "--learning-rates", rate, "--overwrite"]
        assert main([*arguments, *more]) == code
        assert everything(out) == before
    capsys.readouterr()
    assert main([*arguments, "--batch-sizes", "16", "--overwrite"]) == 0
    assert everything(out) != before


def test_a_comparison_on_images_too(photos, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["compare", "--labels", photos / "train.csv", "--images", photos, "--methods", "an"]
    arguments += ["--settings", "fspl", "--seeds", "0", "--epochs", "1", "--backbone", "tiny"]
    arguments += ["--workers", "0", "--device", "cpu", "--mode", "end-to-end", "--output", out]
    arguments = [str(word) for word in arguments]
    small = ["--image-size", "32", "--learning-rates"]
    assert main([*arguments, *small, "1e-3"]) == 0
    before = everything(out)
    for rate, code in (("3e37", 5), ("1e38", 2)):
        assert main([*arguments, *small, rate, "--overwrite"]) == code
        assert everything(out) == before
    large = ["--image-size", "200000", "--learning-rates", "1e-3"]
    assert main([*arguments, *large, "--overwrite"]) == 2
    assert everything(out) == before
    capsys.readouterr()


def test_commands_that_cannot_go_on_replace_results_at_their_end(
    features, tmp_path, monkeypatch, scenes, capsys
):
    monkeypatch.setattr("g2netpl.images.scenes.make_scenes", lambda *_: scenes)
    out = tmp_path / "demo"
    demo = ["demo", "--output", str(out), "--epochs", "1", "--jobs", "1", "--overwrite"]
    assert main(demo) == 0
    before = everything(out)

    def fail(*_):
        assert not (out / "report.html").exists()
        raise KeyboardInterrupt

    monkeypatch.setattr("g2netpl.reports.comparison.write_comparison_report", fail)
    assert main(demo) == 130
    assert everything(out) == before
    capsys.readouterr()


def test_features_that_cannot_be_computed_replace_none(photos, tmp_path, monkeypatch, capsys):
    out = tmp_path / "features"
    arguments = ["features", "--labels", str(photos / "train.csv"), "--images", str(photos)]
    arguments += [
        "--backbone",
        "tiny",
        "--image-size",
        "32",
        "--workers",
        "0",
        "--output",
        str(out),
    ]
    assert main(arguments) == 0
    before = everything(out)

    def fail(*_, **__):
        raise InputError("no use")

    for place in (
        "g2netpl.training.inputs.ImageInputs.features",
        "g2netpl.images.features.write_features",
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, fail)
            assert main([*arguments, "--overwrite"]) == 2
        assert everything(out) == before
    capsys.readouterr()


def test_commands_that_cannot_go_on_say_so_at_sigterm(
    features, tmp_path, monkeypatch, scenes, sigterm, capsys
):
    monkeypatch.setattr("g2netpl.images.scenes.make_scenes", lambda *_: scenes)
    monkeypatch.setattr("g2netpl.experiments.cells.train_cell", lambda *_: sigterm())
    monkeypatch.setattr("g2netpl.experiments.labelling_plan.check_plan", lambda *_: sigterm())
    out = tmp_path / "out"
    demo = ["demo", "--epochs", "1", "--jobs", "1"]
    for command in (demo, ["plan", "--features", str(features)]):
        assert main([*command, "--output", str(out)]) == 75
        said = capsys.readouterr().err
        assert said == "g2netpl: stopped; nothing is kept; run the same command again\n"
        assert not out.exists()  # so that it can be run
