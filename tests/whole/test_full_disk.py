"""A full disk ends every command alike: exit code 2, one line, and what was there stays."""

import errno
import json
import os

import pytest
from test_review_security import DECIDE, STATE, Server, good

from g2netpl.cli import main
from g2netpl.runs.answers import read_decisions


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def quota(*_):
    raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))


@pytest.fixture
def ends(capsys, monkeypatch):
    """Runs a command on a full disk; returns its exit code and its only line."""

    def run(*arguments, what="os.fsync", problem=full):
        with monkeypatch.context() as patch:
            patch.setattr(what, problem)
            capsys.readouterr()
            code = main([str(each) for each in arguments])
        error = capsys.readouterr().err
        assert error.startswith("g2netpl: ")
        assert error.count("\n") == 1
        return code, error

    return run


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("target", "problem"),
    [("labels.csv", quota), ("labels.parquet", full)],
)
def test_label_files(photos, tmp_path, ends, target, problem):
    command = ["convert", photos / "train.csv", tmp_path / target, "--overwrite"]
    assert main([str(each) for each in command]) == 0
    before = contents(tmp_path)
    code, said = ends(*command, problem=problem)
    assert code == 2
    assert target in said
    assert f": {os.strerror(errno.ENOSPC if problem is full else errno.EDQUOT)}; " in said
    assert said.endswith("; make room and run the command again\n")
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "command",
    [
        ["complete", "RUN", "--details", "OUT/long.csv"],
        ["complete", "RUN", "--output", "OUT/labels.csv"],
        ["predict", "RUN", "--images", "PHOTOS", "--output", "OUT/scores.csv"],
        ["review", "RUN", "--export", "OUT/reviewed.csv"],
        ["report", "RUN", "--output", "OUT/report.html"],
        ["export", "RUN", "--output", "OUT/bundle.onnx"],
    ],
    ids=lambda command: " ".join(command[::3]),
)
def test_outputs(small_run, photos, tmp_path, ends, command):
    if command[0] == "export":
        pytest.importorskip("onnxscript", reason="the extra 'export' is not installed")
    places = {"RUN": str(small_run), "PHOTOS": str(photos), "OUT": str(tmp_path)}
    before = contents(small_run)
    for name, place in places.items():
        command = [word.replace(name, place, 1) for word in command]
    code, said = ends(*command)
    assert code == 2
    assert f"{tmp_path}" in said
    assert "No space left on device" in said
    assert contents(tmp_path) == {}
    assert contents(small_run) == before


def test_a_checkpoint(small_train, ends):
    code, said = ends(*small_train, what="g2netpl.training.checkpoints.atomic_write")
    assert code == 2
    assert "No space left on device" in said
    assert said.endswith("; make room and run the command again\n")


def test_an_answer_is_not_saved_and_the_page_stays(tmp_path, monkeypatch):
    with Server(tmp_path) as server:
        before = (server.folder / "review.jsonl").read_bytes()
        for call in ("write", "fsync"):
            with monkeypatch.context() as patch:
                patch.setattr(os, call, full)
                status, _, body = server.post(DECIDE, good())
            assert status == 507
            assert json.loads(body) == {"error": "not saved: No space left on device"}
            assert (server.folder / "review.jsonl").read_bytes() == before
            assert json.loads(server.get(STATE)[2])["progress"]["answered"] == 1
        assert server.post(DECIDE, good())[0] == 200
        assert [each.id for each in read_decisions(server.folder)] == ["0" * 32, "a" * 32]
