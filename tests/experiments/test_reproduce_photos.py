"""`g2netpl reproduce` on image files: every cell is a run folder that can be resumed."""

import json
import shutil

import pytest
from rich.console import Console
from test_reproduce import cells_of, csv_of, key, texts

from g2netpl.cli import main
from g2netpl.experiments import cells
from g2netpl.experiments.data import PhotoData
from g2netpl.experiments.paper import OURS, RECIPES, Block, Recipe
from g2netpl.experiments.reproduction import Plan, reproduce
from g2netpl.experiments.sweep import Sweep

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


# --- semi-supervised methods ----------------------------------------------------------------------


def plan_of(*names, mode=None, epochs=None, files=("x", "x", "y")):
    keys = {"linear_epochs": 25, "backbone": "resnet50", "image_size": 448}
    keys |= {} if mode is None else {"mode": mode}
    protocol = Sweep((), (), (0,), (1e-3,), (16,), epochs=epochs)
    return Plan(PhotoData(*files, own_keys=keys), protocol, {name: RECIPES[name] for name in names})


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


def test_epochs_are_the_papers_unless_given():
    plan = plan_of("table1", "ablation")
    assert (plan.mode("table1"), plan.epochs("table1")) == ("full", 10)
    assert (plan.mode("ablation"), plan.epochs("ablation")) == ("lp-ft", 5)
    given = plan_of("table1", "ablation", mode="linear", epochs=7)
    for name in ("table1", "ablation"):
        assert (given.mode(name), given.epochs(name)) == ("linear", 7)
    assert plan.training("table1") == "full, 10 epochs"
    assert plan.training("ablation") == "lp-ft, 25 epochs linear + 5 full"


def test_runs_of_different_modes_are_not_mixed_up(photos, tmp_path):
    """The same cell in two recipes, one of them lp-ft, is trained twice."""
    block = (Block(("an",), ("fspl",)),)
    recipes = {
        "first": Recipe("", "", block),
        "second": Recipe("", "", block, lp_ft=True),
        "third": Recipe("", "", block),
    }
    keys = {"backbone": "tiny", "image_size": 32, "pretrained": False, "workers": 0}
    keys |= {"linear_epochs": 2}
    protocol = Sweep((), (), (0,), (1e-3,), (16,), epochs=1)
    files = (str(photos), str(photos / "train.csv"), str(photos / "test.csv"))
    plan = Plan(PhotoData(*files, own_keys=keys), protocol, recipes)
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
    assert all(line.endswith(": lp-ft, 25 epochs linear + 5 full") for line in lines)
    assert last == "10 runs"
    assert not (tmp_path / "out").exists()


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "more", "expected"),
    [
        (".", ["--mode", "foo"], "'lp-ft' or 'auto', got 'foo'"),
        (".", ["--images", "nowhere"], "nowhere: no such image folder"),
        (".", ["--set", "expected_positives=11"], "11 per image, but there are only 10 classes"),
        ("train.csv", ["--test-labels", "nowhere.csv"], "nowhere.csv: no such label file"),
        ("train.csv", ["--test-labels", "TAGS"], "20 test images: no class has both"),
        ("train.csv", [], "train.csv: no test images; use --test-labels"),
        ("UNKNOWN", ["--test-labels", "TEST"], "'truth' needs a file with full labels"),
    ],
)
def test_a_mistake_is_reported_before_anything_is_written(
    photos, tmp_path, capsys, data, more, expected
):
    train, test = (photos / name for name in ("train.csv", "test.csv"))
    files = {"TEST": test, "TAGS": tmp_path / "tags.csv", "UNKNOWN": tmp_path / "unknown.csv"}
    files["TAGS"].write_text(test.read_text().replace(",0", ","))
    files["UNKNOWN"].write_text(train.read_text().replace(",0", ",", 30))
    flags = ["--epochs", "1", *(str(files.get(flag, flag)) for flag in more)]
    if "--images" not in flags:
        flags += ["--images", str(photos)]
    assert run("table1", files.get(data, photos / data), tmp_path / "out", *flags) == 2
    shown = capsys.readouterr().err
    assert len(shown.strip().splitlines()) == 1
    assert expected in shown
    assert not (tmp_path / "out").exists()
