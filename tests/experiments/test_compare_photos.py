"""`g2netpl compare` on image files: every cell is a run as `g2netpl train` makes it."""

import json
import shutil
import signal

import pytest

from g2netpl import RunConfig, load_run, train
from g2netpl.cli import main
from g2netpl.training.checkpoints import Checkpointing

FLAGS = ["--set", "image_size=32", "--backbone", "tiny", "--set", "workers=0", "--epochs", "2"]
FLAGS += ["--settings", "fspl", "--learning-rates", "1e-3", "--batch-sizes", "16", "--seeds", "0"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Features of frozen backbones stay within the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="module")
def compared(photos, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared") / "out"
    data = ["--labels", str(photos / "train.csv"), "--test-labels", str(photos / "test.csv")]
    data += ["--images", str(photos)]
    methods = ["--methods", "an,fixmatch,g2netpl:response=fixed", "--output", str(folder)]
    arguments = ["compare", *data, *methods, *FLAGS]
    assert main(arguments) == 0
    return folder, arguments


def test_a_row_is_a_training_of_its_own(compared, photos, tmp_path):
    folder, _ = compared
    rows = {row["method"]: row for row in json.loads((folder / "results.json").read_text())}
    assert set(rows) == {"an", "fixmatch", "g2netpl:response=fixed"}
    keys = {"labels": str(photos / "train.csv"), "test_labels": str(photos / "test.csv")}
    keys |= {"images": str(photos), "only_listed": True, "output": str(tmp_path / "alone")}
    keys |= {"image_size": 32, "backbone": "tiny", "workers": 0, "epochs": 2, "setting": "fspl"}
    keys |= {"learning_rate": 1e-3, "batch_size": 16, "expected_positives": "truth"}
    keys |= {"method": "g2netpl", "options": {"response": "fixed"}}
    alone = train(RunConfig.read(keys, "test"))
    for key in ("test_map", "last_test_map", "validation_map", "best_epoch"):
        assert rows["g2netpl:response=fixed"][key] == alone.result[key]
    runs = [load_run(path.parent) for path in (folder / "runs").glob("*/result.json")]
    assert sorted(run.config.method for run in runs) == ["an", "fixmatch", "g2netpl"]
    page = (folder / "report.html").read_text()
    assert "images, train.csv, full, tiny at 32 px" in page


def test_it_goes_on_with_what_is_missing(compared, capsys):
    folder, arguments = compared
    lines = (folder / "cells.jsonl").read_text().splitlines(keepends=True)
    (folder / "cells.jsonl").write_text("".join(lines[:2]))
    trained = {path: path.stat().st_mtime_ns for path in (folder / "runs").glob("*/model.*")}
    assert main(arguments) == 0
    again = (folder / "cells.jsonl").read_text().splitlines()
    assert json.loads(again[2])["test_map"] == json.loads(lines[2])["test_map"]
    assert {path: path.stat().st_mtime_ns for path in trained} == trained  # none trained again


def test_without_test_labels_validation_map_is_reported(compare, photos, tmp_path):
    """As in a run of the same configuration, and never called test."""
    code, said = compare("--mode", "linear", "--learning-rates", "1e-3,1e-2", test=None)
    assert code == 0
    assert "60 images of 10 classes, no test images\n" in said.out
    assert not (tmp_path / "out" / "labels").exists()
    lines = (tmp_path / "out" / "cells.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    (row,) = json.loads((tmp_path / "out" / "results.json").read_text())
    assert row["test_map"] is row["last_test_map"] is None
    assert row["validation_map"] == max(each["validation_map"] for each in rows)
    keys = {"labels": str(photos / "train.csv"), "images": str(photos), "only_listed": True}
    keys |= {"image_size": 32, "backbone": "tiny", "workers": 0, "epochs": 2, "setting": "fspl"}
    keys |= {"learning_rate": row["learning_rate"], "batch_size": 16, "mode": "linear"}
    keys |= {"method": "an", "expected_positives": "truth", "output": str(tmp_path / "alone")}
    assert train(RunConfig.read(keys, "test")).result["validation_map"] == row["validation_map"]
    assert "validation mAP × 100, on which epoch and run were chosen" in said.out
    assert "test mAP" not in said.out


@pytest.fixture
def compare(photos, tmp_path, capsys):
    """Run the command on the photos, by default with AN; gives its exit code and its output."""

    def run(*more, labels=photos / "train.csv", test=photos / "test.csv", out="out"):
        arguments = ["compare", "--labels", labels, "--images", photos, "--methods", "an", *FLAGS]
        arguments += ["--output", tmp_path / out]
        arguments += [] if test is None else ["--test-labels", test]
        code = main([str(each) for each in (*arguments, *more)])
        return code, capsys.readouterr()

    return run


def test_ctrl_c_says_how_the_command_resumes(compare, monkeypatch):
    """And not how one of its runs would."""
    step = Checkpointing.on_step_end

    def press(*given):
        signal.raise_signal(signal.SIGINT)
        step(*given)

    monkeypatch.setattr(Checkpointing, "on_step_end", press)
    code, shown = compare()
    assert code == 75
    assert shown.err == "g2netpl: stopped and saved; run the same command again to resume\n"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--backbone", "resnet9999"], "resnet9999"),
        (["--mode", "lp-ft", "--methods", "ups"], "trains the model from scratch in each round"),
        (["--set", "expected_positives=11"], "11 per image, but there are only 10 classes"),
        (["--images", "BROKEN"], "2 images cannot be read"),
    ],
)
def test_mistakes_of_a_training_are_found_before_anything_is_written(
    compare, photos, tmp_path, more, message
):
    if "BROKEN" in more:
        shutil.copytree(photos, tmp_path / "broken")
        for number in (1, 2):
            (tmp_path / "broken" / f"train-0000{number}.png").write_bytes(b"no image")
        more = ["--images", tmp_path / "broken"]
    code, said = compare(*more)
    assert (code, said.err.count("\n")) == (2, 1)
    assert message in said.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            ["--methods", "an", "--set", "image_size=32"],
            "image-size: only for images, with --labels",
        ),
        (["--methods", "fixmatch"], "compares two augmentations of images (mode full)"),
        (["--methods", "an", "--labels", "nowhere.csv"], "nowhere.csv: no such file or folder"),
    ],
)
def test_what_does_not_fit_is_reported_before_anything_is_written(tmp_path, capsys, more, message):
    out = tmp_path / "out"
    assert main(["compare", "--settings", "fspl", "--output", str(out), *more]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()
