"""Trackers: what they logged is read back by their own means, and compared with history.jsonl."""

import json
import sqlite3
import struct
import sys
from contextlib import closing
from importlib.util import find_spec

import pytest

from g2netpl import RunConfig, train
from g2netpl.cli import main
from g2netpl.training.trackers import STATE, _Tracked
from g2netpl.utils.errors import InputError

LOGGED = {"cost", "validation_map", "regret", "movement", "unresolved"}


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


def interrupted_and_resumed(config, tracker):
    """A run that ends like by a crash directly after its second epoch, and is resumed."""

    def stop(trainer):
        if trainer.state.finished == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config(log_with=tracker), on_epoch=stop)
    return train(config(log_with=tracker), resume=True)


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
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = interrupted_and_resumed(config, "tensorboard")
    events = EventAccumulator(str(run.folder / "tensorboard"))
    events.Reload()
    scalars = {
        tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.scalars.Keys()
    }
    same_numbers(scalars, run.folder)
    assert scalars["result/validation_map"] == [
        (3, pytest.approx(run.result["validation_map"], rel=1e-6))
    ]
    assert "epoch" not in scalars
    (text,) = events.Tensors("config/text_summary")
    assert "| options.penalty | 0.4 |" in text.tensor_proto.string_val[0].decode()


@needs("mlflow")
def test_mlflow_has_every_epoch_once_in_one_run(config, tmp_path):
    run = interrupted_and_resumed(config, f"mlflow:sqlite:///{tmp_path}/ml.db")
    with closing(sqlite3.connect(tmp_path / "ml.db")) as database:
        ((status, name),) = database.execute("SELECT status, name FROM runs")
        params = dict(database.execute("SELECT key, value FROM params"))
        scalars = {}
        rows = database.execute("SELECT key, step, value FROM metrics ORDER BY key, step")
        for key, step, value in rows:
            scalars.setdefault(key, []).append((step, value))
    same_numbers(scalars, run.folder)
    assert status == "FINISHED"
    assert name.startswith("first-")
    assert (params["method"], params["options.penalty"]) == ("g2netpl", "0.4")
    assert scalars["result/best_epoch"] == [(3, run.result["best_epoch"])]


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """A folder for Weights & Biases, which reads its environment once."""
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    wandb.teardown()
    return tmp_path


@needs("wandb")
def test_wandb_has_every_epoch_once_in_one_run(config, offline, capfd):
    run = interrupted_and_resumed(config, "wandb:birds")
    assert capfd.readouterr().out == ""
    scalars, summary, configs, codes, ids = {}, {}, {}, [], set()
    for path in sorted((offline / "wandb").glob("offline-run-*/run-*.wandb")):
        for record in wandb_records(path):
            if record.WhichOneof("record_type") == "run":
                ids.add((record.run.run_id, record.run.display_name, record.run.project))
                configs |= {
                    "".join(e.nested_key) or e.key: e.value_json for e in record.run.config.update
                }
            for item in record.history.item:
                key = item.key or "/".join(item.nested_key)
                scalars.setdefault(key, []).append(
                    (record.history.step.num, json.loads(item.value_json))
                )
            for item in record.summary.update:
                summary[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
            if record.HasField("exit"):
                codes.append(record.exit.exit_code)
    same_numbers(scalars, run.folder)
    ((number, name, project),) = ids
    assert name.startswith("first-")
    assert name.endswith(number)
    assert project == "birds"
    assert configs["options.penalty"] == "0.4"
    assert summary["result/validation_map"] == pytest.approx(run.result["validation_map"])
    assert codes == [255, 0]


def wandb_records(path):
    """The records of a .wandb file, which is a LevelDB log with a header of its own."""
    import wandb
    from wandb.proto.wandb_internal_pb2 import Record

    wandb.teardown()  # waits until everything is written
    content, place, data = path.read_bytes(), 7, b""
    while place + 7 <= len(content):
        left = 32768 - place % 32768
        if left < 7:  # the rest of a block is padding
            place += left
            continue
        length, kind = struct.unpack("<HB", content[place + 4 : place + 7])
        data += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            record = Record()
            record.ParseFromString(data)
            data = b""
            yield record


@needs("mlflow")
@needs("wandb")
def test_a_run_that_fails_is_failed_in_every_tracker(config, offline):
    def fail(trainer):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train(config(log_with=f"wandb,mlflow:sqlite:///{offline}/ml.db"), on_epoch=fail)
    with closing(sqlite3.connect(offline / "ml.db")) as database:
        assert database.execute("SELECT status FROM runs").fetchall() == [("FAILED",)]
    (path,) = offline.glob("wandb/offline-run-*/run-*.wandb")
    codes = [record.exit.exit_code for record in wandb_records(path) if record.HasField("exit")]
    assert codes == [1]


@needs("tensorboard")
@pytest.mark.parametrize("call", ["__init__", "log", "log_result", "end"])
def test_a_tracker_that_fails_warns_once_and_training_continues(config, monkeypatch, call):
    def fail(*_):
        raise OSError("not today")

    monkeypatch.setattr(_Tracked, call, fail)
    with pytest.warns(UserWarning, match="OSError: not today; training continues") as seen:
        run = train(config(log_with="tensorboard"))
    assert len(seen) == 1
    assert len(history(run.folder)) == 3
    if call == "log":
        assert json.loads((run.folder / STATE).read_text())["tensorboard"]["epoch"] == 0


def test_a_missing_package_is_reported_before_anything_is_trained(
    photos, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    arguments = ["train", "--labels", str(photos / "train.csv"), "--images", str(photos)]
    assert main([*arguments, "--output", str(tmp_path / "run"), "--log-with", "mlflow"]) == 2
    problem = capsys.readouterr().err
    assert problem == (
        "g2netpl: --log-with mlflow: the package mlflow is not installed; install it, "
        "or all with pip install 'g2netpl[trackers]'\n"
    )
    assert not (tmp_path / "run").exists()


def test_names_are_read_and_mistakes_told():
    def trackers(value):
        return RunConfig(labels="a", output="b", log_with=value).log_with

    two = ("tensorboard", "mlflow:http://host:5000")
    assert trackers("tensorboard, mlflow:http://host:5000") == two
    assert trackers(["tensorboard", "tensorboard", "none"]) == ("tensorboard",)
    for wrong in ("tensorbord", "tensorboard:runs", 5):
        with pytest.raises(InputError, match=r"unknown tracker .*tensorboard"):
            trackers(wrong)
