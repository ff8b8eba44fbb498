"""Trackers: what they were told is read back by their own means, against history.jsonl."""

import json
import sqlite3
import sys
from importlib.util import find_spec

import pytest

from g2netpl import RunConfig, train
from g2netpl.base.errors import InputError
from g2netpl.cli import main
from g2netpl.runs.tracker_names import parse_trackers
from g2netpl.training.trackers import STATE, TRACKERS

LOGGED = {"cost", "validation_map", "regret", "movement", "undecided"}


def needs(package):
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")


@pytest.fixture
def config(small_training):
    usual = {"epochs": 3, "options": {"penalty": 0.4}, "patience": 0, "test_labels": None}

    def make(**changes):
        return RunConfig.read(small_training("first", **{**usual, **changes}), "test")

    return make


def history(folder):
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]


def break_off_in_epoch(number):
    """Like Ctrl-C after the trackers were told of an epoch, and before its checkpoint is saved."""

    def stop(now, *_):
        if now.finished == number:
            raise KeyboardInterrupt

    return stop


def interrupted_and_resumed(config, track, later=None):
    """Epoch 2 is trained twice: once before the break, once after."""
    with pytest.raises(KeyboardInterrupt):
        train(config(track=track), on_epoch=break_off_in_epoch(2))
    return train(config(track=later or track), resume=True)


def tensorboard_scalars(folder):
    """{tag: [(step, value)]} as TensorBoard itself reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    scalars = {
        tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.scalars.Keys()
    }
    return scalars, events


def same_numbers(scalars, folder):
    """Epochs 1 to 3, each once, as in history.jsonl."""
    for key in LOGGED:
        written = [(each["epoch"], each[key]) for each in history(folder)]
        assert [step for step, _ in scalars[key]] == [1, 2, 3]
        assert [value for _, value in scalars[key]] == pytest.approx(
            [value for _, value in written], rel=1e-6
        )


@needs("tensorboard")
def test_tensorboard_has_every_epoch_once_and_the_result(config):
    run = interrupted_and_resumed(config, "tensorboard")
    scalars, events = tensorboard_scalars(run.folder / "tensorboard")
    same_numbers(scalars, run.folder)
    assert scalars["result/validation_map"] == [
        (3, pytest.approx(run.result["validation_map"], rel=1e-6))
    ]
    assert "epoch" not in scalars
    (text,) = events.Tensors("config/text_summary")
    assert "| options.penalty | 0.4 |" in text.tensor_proto.string_val[0].decode()


@needs("tensorboard")
def test_a_folder_for_several_runs_and_a_run_that_is_replaced(config, tmp_path):
    for name in ("one", "two"):
        train(config(output=str(tmp_path / name), epochs=1, track=f"tensorboard:{tmp_path}/all"))
    assert {path.name.rpartition("-")[0] for path in (tmp_path / "all").iterdir()} == {"one", "two"}
    for epochs in (2, 1):
        run = train(config(epochs=epochs, track="tensorboard"), overwrite=True)
    assert [step for step, _ in tensorboard_scalars(run.folder / "tensorboard")[0]["cost"]] == [1]


@needs("tensorboard")
def test_a_tracker_that_joins_later_hears_of_the_earlier_epochs(config):
    run = interrupted_and_resumed(config, "none", "tensorboard")
    same_numbers(tensorboard_scalars(run.folder / "tensorboard")[0], run.folder)


@needs("mlflow")
def test_mlflow_has_every_epoch_once_in_one_run(config, tmp_path):
    run = interrupted_and_resumed(config, f"mlflow:{tmp_path / 'ml'}")
    with sqlite3.connect(tmp_path / "ml" / "mlflow.db") as database:
        ((number, status, name),) = database.execute("SELECT run_uuid, status, name FROM runs")
        params = dict(database.execute("SELECT key, value FROM params"))
        scalars = {}
        rows = database.execute("SELECT key, step, value FROM metrics ORDER BY key, step")
        for key, step, value in rows:
            scalars.setdefault(key, []).append((step, value))
    database.close()
    same_numbers(scalars, run.folder)
    assert status == "FINISHED"
    assert name.startswith("first-")
    assert params["method"] == "g2netpl"
    assert params["options.penalty"] == "0.4"
    assert scalars["result/best_epoch"] == [(3, run.result["best_epoch"])]
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/ml/mlflow.db")
    assert [each.step for each in client.get_metric_history(number, "cost")] == [1, 2, 3]


@needs("trackio")
def test_trackio_has_every_epoch_once_in_one_run(config, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("trackio.utils.TRACKIO_DIR", tmp_path / "trackio")
    monkeypatch.setattr("trackio.sqlite_storage.TRACKIO_DIR", tmp_path / "trackio")
    run = interrupted_and_resumed(config, "trackio:birds")
    assert capfd.readouterr().out == ""
    (path,) = (tmp_path / "trackio").glob("birds*.db")
    scalars, names = {}, set()
    with sqlite3.connect(path) as database:
        for name, step, metrics in database.execute(
            "SELECT run_name, step, metrics FROM metrics ORDER BY step, id"
        ):
            names.add(name)
            for key, value in json.loads(metrics).items():
                scalars.setdefault(key, []).append((step, value))
    database.close()
    assert len(names) == 1
    same_numbers(scalars, run.folder)
    assert scalars["result/validation_map"] == [
        (3, pytest.approx(run.result["validation_map"], rel=1e-6))
    ]


class Broken:
    """Fails from some call on, and counts what it was asked after that."""

    def __init__(self, where, folder):
        self.calls = 0
        self.fails_in = where

    def begin(self, name, config, memory):
        return self._do("begin", {"run": name})

    def log(self, numbers, step):
        self._do("log")

    def finish(self, numbers, step):
        self._do("finish")

    def close(self, finished):
        self._do("close")

    def _do(self, what, answer=None):
        if what == self.fails_in:
            Broken.failures += 1
            raise OSError(f"no {what} today")
        return answer


@pytest.mark.parametrize("call", ["begin", "log"])
def test_a_tracker_that_fails_warns_once_and_training_goes_on(config, monkeypatch, call):
    monkeypatch.setitem(TRACKERS, "tensorboard", Broken)
    monkeypatch.setattr("g2netpl.training.trackers.check_trackers", lambda names: None)
    monkeypatch.setattr("g2netpl.training.checks.check_trackers", lambda names: None)
    Broken.failures = 0
    with pytest.warns(UserWarning, match=f"OSError: no {call} today; training goes on") as seen:
        run = train(config(track=f"tensorboard:{call}"))
    assert len(seen) == Broken.failures == 1
    assert len(history(run.folder)) == 3
    if call == "log":
        assert json.loads((run.folder / STATE).read_text())[f"tensorboard:{call}"]["epoch"] == 0


def test_a_missing_package_is_told_before_anything_is_trained(
    photos, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    arguments = ["train", "--labels", str(photos / "train.csv"), "--images", str(photos)]
    assert main([*arguments, "--output", str(tmp_path / "run"), "--track", "mlflow"]) == 2
    problem = capsys.readouterr().err
    assert problem == (
        "g2netpl: --track mlflow: the package mlflow is not installed; install it with "
        "pip install 'g2netpl[mlflow]'\n"
    )
    assert not (tmp_path / "run").exists()


@needs("tensorboard")
def test_the_flag_may_be_given_again_or_hold_a_list(photos, tmp_path, capsys):
    short = ["--backbone", "tiny", "--image-size", "32", "--epochs", "1", "--workers", "0"]
    arguments = ["train", "--labels", str(photos / "train.csv"), "--images", str(photos), *short]
    arguments += ["--track", f"tensorboard:{tmp_path}/a,tensorboard:{tmp_path}/b"]
    arguments += ["--track", f"tensorboard:{tmp_path}/c", "--output", str(tmp_path / "run")]
    assert main(arguments) == 0
    for name in "abc":
        (folder,) = (tmp_path / name).iterdir()
        assert [step for step, _ in tensorboard_scalars(folder)[0]["cost"]] == [1]


def test_names_are_read_and_mistakes_told():
    assert parse_trackers("tensorboard, mlflow:http://host:5000") == (
        "tensorboard",
        "mlflow:http://host:5000",
    )
    assert parse_trackers(["tensorboard", "tensorboard", "none"]) == ("tensorboard",)
    with pytest.raises(InputError, match=r"unknown tracker 'tensorbord' .*'tensorboard'"):
        parse_trackers("tensorbord")
    with pytest.raises(InputError, match="track: expected names of trackers, got 5"):
        RunConfig(labels="a", output="b", track=5)
