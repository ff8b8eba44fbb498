"""`g2netpl reproduce` on image files: every cell is a run folder that can be resumed."""

import json
import shutil

import numpy as np
import pytest
from rich.console import Console
from test_reproduce import cells_of, csv_of, key, texts

from g2netpl import read_labels
from g2netpl.cli import main
from g2netpl.experiments import cells
from g2netpl.experiments.data import Dataset
from g2netpl.experiments.paper import OURS, RECIPES, Block, Recipe
from g2netpl.experiments.reproduction import Plan, reproduce
from g2netpl.experiments.sweep import Sweep
from g2netpl.labels.io import tables
from g2netpl.labels.table import LabelTable
from g2netpl.reports.reproduction import here
from g2netpl.training.checkpoints import Checkpointing

SMALL = ["--backbone", "tiny", "--set", "image_size=32", "--set", "pretrained=false"]
SMALL += ["--set", "workers=0"]
ONE = ["--learning-rates", "1e-3", "--batch-sizes", "16", "--seeds", "0", "--jobs", "1"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Features of frozen backbones stay within the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def run(what, data, output, *more):
    return main(
        ["reproduce", what, "--data", str(data), "--output", str(output), *SMALL, *ONE, *more]
    )


def run_folders(output, mode):
    return sorted(path.parent for path in (output / mode / "runs").glob("*/run.json"))


def config_of(folder):
    return json.loads((folder / "run.json").read_text())["config"]


# --- following the labels -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def convergence(photos, tmp_path_factory):
    folder = tmp_path_factory.mktemp("convergence") / "out"
    assert run("convergence", photos, folder, "--epochs", "2") == 0
    return folder


def test_a_cell_is_a_run_folder(convergence, photos):
    (folder,) = run_folders(convergence, "full")
    config = config_of(folder)
    expected = {
        "mode": "full",
        "method": "g2netpl",
        "annotation": "random",
        "setting": "fspl",
        "seed": 0,
        "learning_rate": 1e-3,
        "batch_size": 16,
        "epochs": 2,
        "patience": 0,  # all of them, come what may
        "backbone": "tiny",
        "image_size": 32,
        "pretrained": False,
        "expected_positives": "truth",
        "labels": str(photos / "train.csv"),
        "test_labels": str(photos / "test.csv"),
    }
    assert {name: config[name] for name in expected} == expected
    (cell,) = cells_of(folder.parents[1])
    result = json.loads((folder / "result.json").read_text())
    assert {name: cell[name] for name in result} == result | {"method": OURS}
    assert key(cell) == (OURS, "fspl", 0, 1e-3, 16, "")
    assert [record["epoch"] for record in cell["history"]] == [1, 2]
    (line,) = csv_of(convergence / "convergence.csv")
    assert float(line["best epoch"]) == pytest.approx(100 * result["test_map"], abs=0.0051)
    assert float(line["last epoch"]) == pytest.approx(100 * result["last_test_map"], abs=0.0051)
    assert line["± best"] == line["± last"] == ""  # of one seed there is none


def test_labels_are_watched_once_per_epoch(convergence):
    (cell,) = cells_of(convergence / "full")
    assert len(cell["movement"]) == 2
    assert len(csv_of(convergence / "figure-convergence-1.csv")) == 2


def test_the_same_command_trains_nothing_again(convergence, photos, tmp_path, monkeypatch):
    shutil.copytree(convergence, tmp_path / "out")
    before = (tmp_path / "out/full/cells.jsonl").read_bytes()
    monkeypatch.setattr(cells, "train", None)  # to be called would be an error
    assert run("convergence", photos, tmp_path / "out", "--epochs", "2", "--set", "workers=1") == 0
    assert (tmp_path / "out/full/cells.jsonl").read_bytes() == before
    assert texts(tmp_path / "out") == texts(convergence)


@pytest.mark.parametrize("call", [1, 2])
def test_an_interrupted_run_keeps_what_was_watched(
    convergence, photos, tmp_path, monkeypatch, call
):
    """Interrupted in the first epoch, or in the second, before its checkpoint."""
    out, step, calls = tmp_path / "out", Checkpointing.on_epoch_end, []

    def interrupted(*given):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        step(*given)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpointing, "on_epoch_end", interrupted)
        assert run("convergence", photos, out, "--epochs", "2") == 130
    assert run("convergence", photos, out, "--epochs", "2") == 0
    (cell,), (whole,) = cells_of(out / "full"), cells_of(convergence / "full")
    assert cell["movement"] == whole["movement"]
    assert texts(out) == texts(convergence)


# --- semi-supervised methods ----------------------------------------------------------------------


def plan_of(*names, mode=None, epochs=None, dataset=None):
    photos = {"mode": mode, "linear_epochs": 25, "backbone": "resnet50", "image_size": 448}
    protocol = Sweep(None, (), (), (0,), (1e-3,), (16,), epochs=epochs)
    recipes = {name: RECIPES[name] for name in names}
    return Plan(dataset or Dataset("images", "x", "x", "y"), protocol, recipes, photos)


@pytest.mark.parametrize(
    ("mode", "left"),
    [
        (None, {}),
        ("full", {}),
        ("linear", {"fixmatch": "augmentations"}),
        ("lp-ft", {"ups": "from scratch in each round"}),
    ],
)
def test_what_a_mode_cannot_train_is_left_out(mode, left):
    plan = plan_of("semi-supervised", mode=mode)
    trained = {cell.method for _, cell in plan.runs()}
    assert trained == {"fixmatch", "ups", OURS} - set(left)
    notes = plan.left_out("semi-supervised")
    assert len(notes) == len(left)
    for note, (method, why) in zip(notes, left.items(), strict=True):
        assert note.startswith(f"{method} is left out: ")
        assert why in note
        assert str(mode) in note


# --- the paper's way of training ------------------------------------------------------------------


def test_epochs_are_the_papers_unless_told(photos):
    plan = plan_of("table1", "ablation")
    assert (plan.mode("table1"), plan.epochs("table1")) == ("full", 10)
    assert (plan.mode("ablation"), plan.epochs("ablation")) == ("lp-ft", 5)
    told = plan_of("table1", "ablation", mode="linear", epochs=7)
    for name in ("table1", "ablation"):
        assert (told.mode(name), told.epochs(name)) == ("linear", 7)
    dataset = Dataset("images", str(photos), str(photos / "train.csv"), str(photos / "test.csv"))
    plan = plan_of("table1", "ablation", dataset=dataset)
    ours = here(plan)
    assert "full, 10 epochs" in ours["training"]
    assert "lp-ft, 25 epochs linear + 5 full" in ours["training"]
    assert "60 images" in ours["data"]
    assert "20 test images" in ours["data"]


def test_trainings_of_different_modes_are_not_mixed_up(photos, tmp_path):
    """The same cell in two recipes, one of them lp-ft, is trained twice."""
    block = (Block(("an",), ("fspl",)),)
    recipes = {
        "first": Recipe("", "", block),
        "second": Recipe("", "", block, lp_ft=True),
        "third": Recipe("", "", block),
    }
    values = {"backbone": "tiny", "image_size": 32, "pretrained": False, "workers": 0}
    protocol = Sweep(None, (), (), (0,), (1e-3,), (16,), epochs=1)
    dataset = Dataset("images", str(photos), str(photos / "train.csv"), str(photos / "test.csv"))
    plan = Plan(dataset, protocol, recipes, values | {"linear_epochs": 2})
    assert [mode for mode, _ in plan.runs()] == ["full", "lp-ft"]
    found = reproduce(plan, tmp_path, 1, Console(quiet=True))
    lengths = {name: [len(row["history"]) for row in rows] for name, rows in found.items()}
    assert lengths == {"first": [1], "second": [3], "third": [1]}
    assert found["first"] == found["third"]
    assert len(run_folders(tmp_path, "full")) == len(run_folders(tmp_path, "lp-ft")) == 1


def test_a_dry_run_says_how(photos, tmp_path, capsys):
    assert run("ablation", photos, tmp_path / "out", "--dry-run") == 0
    images, *lines, last = capsys.readouterr().out.strip().splitlines()
    assert images == "60 images of 10 classes, 20 test images"
    assert len(set(lines)) == len(lines) == 10
    assert all(line.endswith(": lp-ft 5 epochs") for line in lines)
    assert last == "10 runs"
    assert not (tmp_path / "out").exists()


# --- mistakes -------------------------------------------------------------------------------------


def write(path, table, values=None, classes=None):
    given = table.values if values is None else values
    tables.write(LabelTable(table.images, classes or table.classes, given), path)
    return path


@pytest.fixture
def files(photos, tmp_path):
    """Label files with something odd about each."""
    full, test = read_labels(photos / "train.csv"), read_labels(photos / "test.csv")
    unknown = full.values.copy()
    unknown[3:30, 1] = -1
    folder = tmp_path / "files"
    folder.mkdir()
    write(folder / "unknown.csv", full, unknown)
    write(folder / "one.csv", full.take(np.arange(1)))
    three = full.take(np.arange(3))
    both = np.concatenate([three.values, test.values])
    write(folder / "both.csv", LabelTable((*three.images, *test.images), full.classes, both))
    write(folder / "few.csv", full.take(np.arange(5)))
    write(folder / "tags.csv", test, np.where(test.values == 1, 1, -1))
    write(folder / "other.csv", test, classes=tuple(f"no {name}" for name in test.classes))
    (folder / "broken.csv").write_text("image,a\nw.png,1\nx.png,7\n")
    return folder


TEST = ["--test-labels", "PHOTOS/test.csv"]


@pytest.mark.parametrize(
    ("data", "more", "expected"),
    [
        (".", ["--mode", "foo"], "'lp-ft' or 'auto', got 'foo'"),
        (".", ["--set", "linear_epochs=0"], "linear_epochs: "),
        (".", ["--images", "nowhere"], "nowhere: no such image folder"),
        (".", ["--set", "expected_positives=11"], "11 per image, but there are only 10 classes"),
        ("train.csv", ["--test-labels", "nowhere.csv"], "nowhere.csv: no such label file"),
        ("train.csv", ["--test-labels", "FILES/other.csv"], "unknown class"),
        ("train.csv", ["--test-labels", "FILES/both.csv"], "both.csv: 3 images also trained on"),
        ("train.csv", ["--test-labels", "FILES/tags.csv"], "20 test images: no class has both"),
        ("train.csv", [], "train.csv: no test images; give --test-labels"),
        ("FILES/unknown.csv", TEST, "'truth' needs a file with full labels"),
        ("FILES/one.csv", TEST, "expected at least 2 images, got 1"),
        ("FILES/broken.csv", TEST, "broken.csv:3: class 'a'"),
    ],
)
def test_a_mistake_is_told_before_anything_is_written(
    photos, files, tmp_path, capsys, data, more, expected
):
    root = photos / data.replace("FILES", str(files))
    flags = ["--epochs", "1", *(flag.replace("FILES", str(files)) for flag in more)]
    flags = [flag.replace("PHOTOS", str(photos)) for flag in flags]
    if "--images" not in flags:
        flags += ["--images", str(photos)]
    assert run("table1", root, tmp_path / "out", *flags) == 2
    shown = capsys.readouterr().err
    assert len(shown.strip().splitlines()) == 1
    assert expected in shown
    assert not (tmp_path / "out").exists()
