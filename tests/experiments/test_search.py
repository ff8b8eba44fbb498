import json
import re
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from g2netpl import RunConfig, read_labels
from g2netpl.base.locks import locked
from g2netpl.cli import main
from g2netpl.experiments import search as searching
from g2netpl.labels.formats import csv_table
from g2netpl.labels.table import LabelTable
from g2netpl.runs import run as runs


@pytest.fixture
def arguments(photos, tmp_path):
    flags = ["--labels", str(photos / "train.csv"), "--images", str(photos), "--only-listed"]
    flags += ["--test-labels", str(photos / "test.csv"), "--setting", "fspl", "--backbone", "tiny"]
    flags += ["--image-size", "32", "--epochs", "2", "--workers", "0", "--method", "an"]
    flags += ["--expected-positives", "2.3", "--learning-rates", "1e-2,1e-5"]
    return ["search", *flags, "--batch-sizes", "8,30", "--output", str(tmp_path / "out")]


def with_labels(arguments, path):
    """The same with another label file; a second --labels would be joined to the first."""
    place = arguments.index("--labels") + 1
    return [*arguments[:place], str(path), *arguments[place + 1 :]]


def cells_of(folder):
    return {path.parent.name: json.loads(path.read_text()) for path in folder.glob("*/result.json")}


def test_the_best_on_validation_is_chosen(arguments, tmp_path, capsys):
    assert main(arguments) == 0
    cells = cells_of(tmp_path / "out")
    assert set(cells) == {
        f"rate-{rate}-batch-{batch}" for rate in ("0.01", "1e-05") for batch in (8, 30)
    }
    best = max(cells.values(), key=lambda cell: cell["validation_map"])
    written = json.loads((tmp_path / "out" / "search.json").read_text())
    assert written["chosen"]["validation_map"] == best["validation_map"]
    assert written["chosen"]["learning_rate"] == best["learning_rate"]
    assert len(written["cells"]) == 4
    shown = capsys.readouterr().out
    assert f"test mAP {best['test_map']:.1%}" in shown.splitlines()[-2]
    # no test figure of another cell is shown
    assert shown.count("test mAP") == 1


def test_a_search_that_was_broken_off_goes_on(arguments, tmp_path):
    assert main(arguments) == 0
    before = cells_of(tmp_path / "out")
    lost = tmp_path / "out" / "rate-0.01-batch-30"
    for path in lost.iterdir():
        path.unlink()
    lost.rmdir()
    kept = tmp_path / "out" / "rate-0.01-batch-8" / "model.safetensors"
    written = kept.stat().st_mtime_ns
    assert main(arguments) == 0
    assert kept.stat().st_mtime_ns == written
    after = cells_of(tmp_path / "out")
    for name, cell in before.items():
        assert {**after[name], "seconds": 0} == {**cell, "seconds": 0}
    # with other data or another method it is another search
    assert main([*arguments, "--method", "epr"]) == 3


def test_other_rates_are_added_and_chosen_from_together(arguments, tmp_path, capsys):
    assert main([*arguments, "--learning-rates", "1e-7", "--batch-sizes", "30"]) == 0
    before = json.loads((tmp_path / "out" / "search.json").read_text())
    capsys.readouterr()
    assert main([*arguments, "--batch-sizes", "8"]) == 0
    after = json.loads((tmp_path / "out" / "search.json").read_text())
    assert after["cells"][:1] == before["cells"]
    assert [cell["learning_rate"] for cell in after["cells"]] == [1e-7, 1e-2, 1e-5]
    assert after["chosen"] == before["chosen"] == after["cells"][0]  # the others are worse
    assert after["chosen"] == max(after["cells"], key=lambda cell: cell["validation_map"])
    shown = capsys.readouterr().out
    assert shown.count("1/2 learning rate 0.01, batch 8") == 1
    assert re.search(r"^ *1e-07 +\S+% *$", shown, flags=re.M)
    assert re.search(r"^ *0\.01 +\S+% *$", shown, flags=re.M)
    # what was trained otherwise cannot be chosen from
    assert main([*arguments, "--epochs", "3", "--learning-rates", "1e-3"]) == 3
    err = capsys.readouterr().err
    assert "out: other --epochs than rate-0.01-batch-8 was trained with" in err
    assert json.loads((tmp_path / "out" / "search.json").read_text()) == after


def test_a_search_may_be_moved_but_not_its_labels_changed(arguments, photos, tmp_path, capsys):
    labels = tmp_path / "labels.csv"
    lines = (photos / "train.csv").read_text().splitlines(keepends=True)
    labels.write_text("".join(lines))
    arguments = [*with_labels(arguments, labels), "--batch-sizes", "30", "--learning-rates"]
    assert main([*arguments, "1e-7"]) == 0
    (tmp_path / "out").rename(tmp_path / "moved")
    elsewhere = ["--output", str(tmp_path / "moved")]
    assert main([*arguments, "1e-1", *elsewhere]) == 0
    written = json.loads((tmp_path / "moved" / "search.json").read_text())
    assert [cell["learning_rate"] for cell in written["cells"]] == [1e-7, 1e-1]
    assert written["chosen"] == written["cells"][0]  # the one that was trained before it moved
    assert written["chosen"]["folder"] == str(tmp_path / "moved" / "rate-1e-07-batch-30")
    labels.write_text("".join(lines[:-9]))
    capsys.readouterr()
    assert main([*arguments, "1e-3", *elsewhere]) == 3
    assert (
        "moved: other content of the label files than rate-0.1-batch-30" in capsys.readouterr().err
    )


PAPER = {(rate, batch) for rate in (1e-2, 1e-3, 1e-4, 1e-5) for batch in (8, 16)}


@pytest.fixture
def asked(monkeypatch):
    """The (rate, batch) of every training that is asked for; nothing is trained."""
    pairs = []

    def train(config, **rest):
        pairs.append((config.learning_rate, config.batch_size))
        result = {"validation_map": 0.5, "best_epoch": 1, "test_map": None}
        return SimpleNamespace(folder=config.output, result=result)

    monkeypatch.setattr(searching, "train", train)
    monkeypatch.setattr(runs, "load_run", lambda folder: SimpleNamespace(result={"test_map": None}))
    return pairs


def test_the_default_grid_is_the_papers(small_training, tmp_path, asked):
    keys = small_training("out", method="an")
    given = {key.replace("_", "-"): value for key, value in keys.items() if key != "only_listed"}
    flags = [f"--{key}={value}" for key, value in given.items()]
    (tmp_path / "out").mkdir()
    assert main(["search", "--only-listed", *flags]) == 0
    assert len(asked) == 8
    assert set(asked) == PAPER
    asked.clear()
    again = RunConfig.read({**keys, "output": str(tmp_path / "again")}, "test")
    assert len(list(searching.search_grid(again))) == 8
    assert set(asked) == PAPER


def test_nothing_is_chosen_on_test(arguments, photos, tmp_path, capsys):
    full = read_labels(photos / "train.csv")
    tags = LabelTable(full.images, full.classes, np.where(full.values == 1, 1, -1))
    csv_table.write(tags, tmp_path / "tags.csv")
    changed = [*with_labels(arguments, tmp_path / "tags.csv"), "--setting", "own"]
    assert main(changed) == 2
    assert "nothing is chosen on test" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    # nor where the test file is given as the validation file
    assert main([*arguments, "--validation-labels", str(photos / "test.csv")]) == 2
    shown = capsys.readouterr().err
    assert "nothing is chosen on test" in shown
    assert len(shown.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_foreign_folder_and_a_bad_grid_are_refused(arguments, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("")
    assert main(arguments) == 3
    elsewhere = [*arguments, "--output", str(tmp_path / "other")]
    assert main([*elsewhere, "--learning-rates", "0"]) == 2
    assert main([*elsewhere, "--batch-sizes", "x"]) == 2
    assert not (tmp_path / "other").exists()


def test_a_study_looks_between_the_rates_and_goes_on(arguments, tmp_path, capsys):
    pytest.importorskip("optuna")
    flags = [*arguments, "--learning-rates", "1e-4,1e-2", "--batch-sizes", "8,30", "--trials", "4"]
    assert main(flags) == 0
    written = json.loads((tmp_path / "out" / "search.json").read_text())
    cells = written["cells"]
    assert len(cells) == 4
    assert all(1e-4 <= cell["learning_rate"] <= 1e-2 for cell in cells)
    assert len({cell["learning_rate"] for cell in cells}) == 4
    assert written["chosen"] == max(cells, key=lambda cell: cell["validation_map"])
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob("out/*/model.safetensors")}
    assert main([*flags[:-1], "5"]) == 0  # the first four are as they were
    more = json.loads((tmp_path / "out" / "search.json").read_text())["cells"]
    assert more[:4] == cells
    assert len(more) == 5
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    assert capsys.readouterr().out.count("test mAP") == 2


def test_a_study_needs_a_range(arguments, tmp_path, capsys):
    pytest.importorskip("optuna")
    for changes in (["--trials", "0"], ["--trials", "2", "--learning-rates", "1e-3"]):
        assert main([*arguments, *changes]) == 2
        assert "two learning rates to search between" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_without_optuna_a_study_says_what_to_install(arguments, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main([*arguments, "--trials", "2"]) == 2
    assert "g2netpl[study]" in capsys.readouterr().err


def test_rates_that_look_alike_have_folders_of_their_own(arguments, tmp_path, asked, monkeypatch):
    folders = []
    train = searching.train

    def watched(config, **rest):
        folders.append(config.output)
        return train(config, **rest)

    monkeypatch.setattr(searching, "train", watched)
    (tmp_path / "out").mkdir()
    rates = ["--learning-rates", "0.00123456781,0.00123456782,1e-3", "--batch-sizes", "8"]
    assert main([*arguments, *rates]) == 0
    names = [f"rate-{rate}-batch-8" for rate in ("0.00123456781", "0.00123456782", "0.001")]
    assert folders == [str(tmp_path / "out" / name) for name in names]


@pytest.mark.parametrize(
    "content", ['{"chosen": {"lear', "", "[]", '{"chosen": null}', '{"cells": [{"new": 1}]}']
)
def test_a_damaged_search_json_is_made_anew(searched, tmp_path, capsys, content):
    folder, arguments = searched
    shutil.copytree(folder, tmp_path / "out")
    path = tmp_path / "out" / "search.json"
    before = path.read_text().replace(str(folder), str(tmp_path / "out"))
    path.write_text(content)
    assert main([*arguments, "--output", str(tmp_path / "out"), "--learning-rates", "1e-5"]) == 0
    assert path.read_text() == before  # with the cell of the other rate
    capsys.readouterr()


@pytest.fixture(scope="module")
def searched(photos, tmp_path_factory):
    folder = tmp_path_factory.mktemp("searched") / "out"
    flags = ["--labels", str(photos / "train.csv"), "--images", str(photos), "--only-listed"]
    flags += ["--setting", "fspl", "--backbone", "tiny", "--image-size", "32", "--epochs", "1"]
    flags += ["--workers", "0", "--method", "an", "--expected-positives", "2.3"]
    flags += ["--batch-sizes", "30", "--learning-rates", "1e-2,1e-5"]
    assert main(["search", *flags, "--output", str(folder)]) == 0
    return folder, ["search", *flags]


def test_one_search_at_a_time(searched, tmp_path, capsys):
    """Also with other rates: both would write search.json."""
    folder, arguments = searched
    shutil.copytree(folder, tmp_path / "out")
    with locked(tmp_path / "out"):
        more = ["--output", str(tmp_path / "out"), "--learning-rates", "1e-3"]
        assert main([*arguments, *more]) == 3
    assert "another process is training there" in capsys.readouterr().err
    assert not (tmp_path / "out" / "rate-0.001-batch-30").exists()
