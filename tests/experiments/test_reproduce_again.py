"""`g2netpl reproduce` again, broken off, as a dry run, and with mistakes in its flags."""

import json
import shutil

import pytest
from feature_folders import write_folder
from test_reproduce import (
    cells_of,
    chosen,
    csv_of,
    page_of,
    reproduce,
    texts,
    words_of,
)

from g2netpl.core.methods import METHODS, Entry, parse_method
from g2netpl.core.methods.fixed import FixedLabels
from g2netpl.experiments import cells as comparison
from g2netpl.experiments.paper import OURS, RECIPES, SSPL, with_methods

WHAT, CELLS = "labels", 2 * 2 * 2  # methods, seeds, learning rates


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("data") / "features")


@pytest.fixture(scope="module")
def whole(features, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "out"
    assert reproduce(features, folder, WHAT) == 0
    return folder


@pytest.fixture
def copied(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "out")
    return tmp_path / "out"


# --- again, and broken off ------------------------------------------------------------------------


def test_the_same_command_trains_nothing_again(features, whole, copied, trained):
    before = (copied / "cells.jsonl").read_bytes()
    for path in (*copied.glob("*.csv"), *copied.glob("*.png"), copied / "index.html"):
        path.unlink()
    assert reproduce(features, copied, WHAT) == 0
    assert trained == []
    assert (copied / "cells.jsonl").read_bytes() == before
    assert texts(copied) == texts(whole)
    assert page_of(copied) == page_of(whole)


@pytest.mark.parametrize("kept", [1])
def test_what_was_broken_off_goes_on(features, whole, tmp_path, trained, kept, capsys):
    folder = tmp_path / "out"
    trained.stop_after = kept
    assert reproduce(features, folder, WHAT) == 130
    assert len(cells_of(folder)) == kept
    assert not (folder / "index.html").exists()
    assert "interrupted" in capsys.readouterr().err
    done = list(trained)
    trained.clear()
    trained.stop_after = None
    assert reproduce(features, folder, WHAT) == 0
    assert len(trained) == CELLS - kept
    assert not set(done) & set(trained)
    assert texts(folder) == texts(whole)


@pytest.mark.parametrize(
    ("more", "flag"),
    [
        (["--epochs", "3"], "--epochs"),
        (["--choose-once"], "--choose-once"),
        (["--published", "VOC"], "--published"),
    ],
)
def test_other_flags_than_it_began_with_are_refused(features, copied, trained, capsys, more, flag):
    before = {path.name: path.read_bytes() for path in copied.iterdir()}
    assert reproduce(features, copied, WHAT, *more) == 2
    shown = capsys.readouterr().err
    assert len(shown.strip().splitlines()) == 1
    assert f"other {flag} than it began with" in shown
    assert trained == []
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == before


def test_another_recipe_in_the_same_folder_is_refused(features, copied, capsys):
    assert reproduce(features, copied, "table1") == 2
    assert "other WHAT than it began with" in capsys.readouterr().err
    other = write_folder(copied.parent / "other", seed=1)
    assert reproduce(other, copied, WHAT) == 2
    assert "--data than it began with" in capsys.readouterr().err


def test_seeds_and_methods_may_be_added(features, whole, copied, trained, capsys):
    assert reproduce(features, copied, WHAT, "--seeds", "0,1,4") == 0
    assert len(trained) == CELLS // 2  # of the new seed alone
    assert {cell["seed"] for cell in cells_of(copied)} == {0, 1, 4}
    assert {line["seeds"] for line in csv_of(copied / f"{WHAT}.csv")} == {"3"}
    assert json.loads((copied / "run.json").read_text())["seeds"] == "0,1,4"
    assert reproduce(features, copied, WHAT, "--seeds", "4,0,1") == 2
    err = capsys.readouterr().err
    assert "other --seeds than it began with (more may be added behind)" in err


@pytest.mark.parametrize("what", ["a file", "a folder of mine", "a training"])
def test_a_foreign_output_is_not_touched(features, tmp_path, trained, capsys, what):
    out = tmp_path / "out"
    if what == "a file":
        out.write_text("mine")
    else:
        out.mkdir()
        content = '{"format": 3, "command": "train"}'
        (out / ("run.json" if what == "a training" else "mine.txt")).write_text(content)
    assert reproduce(features, out, "convergence") == (2 if what == "a training" else 3)
    shown = capsys.readouterr().err
    assert len(shown.strip().splitlines()) == 1
    assert "overwrite" not in shown  # there is no such flag
    assert trained == []
    assert out.is_file() or len(list(out.iterdir())) == 1


# --- more methods -------------------------------------------------------------------------------


@pytest.fixture
def mine(monkeypatch):
    """A method that the package does not have."""
    own = Entry("mine", FixedLabels, "of a user", "here", defaults={"unobserved_weight": 0.2})
    monkeypatch.setitem(METHODS, "mine", own)


ONE = ["--seeds", "0", "--learning-rates", "1e-2", "--epochs", "1"]


def test_own_methods_stand_in_the_table(features, tmp_path, trained, mine, capsys):
    out, variant = tmp_path / "out", "epr:regulariser=0.3"
    more = [*ONE, "--methods", f"mine, {variant},wan", "--published", "COCO"]
    assert reproduce(features, out, "table1", *more) == 0
    added = {("mine", "fspl"), (variant, "fspl")}  # wan is there
    assert {(cell.method, cell.setting) for cell in trained[-2:]} == added
    lines = csv_of(out / "table1.csv")
    assert len(lines) == 12 == len(trained)
    assert {(line["method"], line["setting"]) for line in lines[-2:]} == added
    for line in lines:
        assert line["seeds"] == "1"
        (own,) = [cell for cell in cells_of(out) if cell["method"] == line["method"]]
        assert float(line["best epoch"]) == pytest.approx(100 * own["test_map"], abs=0.0051)
        assert (line["published"] == "") == (line["method"] in ("mine", variant))
    assert f"Added here: mine, {variant}." in words_of(out)

    before = texts(out)
    trained.clear()
    assert reproduce(features, out, "table1", *more) == 0
    assert (trained, texts(out)) == ([], before)
    capsys.readouterr()
    for other in ([], ["--methods", "mine"]):
        assert reproduce(features, out, "table1", *ONE, "--published", "COCO", *other) == 2
        assert "other --methods than it began with" in capsys.readouterr().err
    assert (trained, texts(out)) == ([], before)


def test_tables_of_methods_take_more_of_them():
    """In the settings of G²NetPL; other recipes stay as they are."""
    more = with_methods(RECIPES, ("em", "ups"))
    added = {
        name: [(block.methods, block.settings) for block in more[name].blocks[len(old.blocks) :]]
        for name, old in RECIPES.items()
        if more[name] != old
    }
    assert added == {
        "table1": [(("em", "ups"), ("fspl",))],
        "table2": [(("em", "ups"), SSPL)],
        "semi-supervised": [(("em",), SSPL)],
    }
    for name, old in RECIPES.items():
        assert more[name].blocks[: len(old.blocks)] == old.blocks
    assert with_methods(RECIPES, ("role",))["table2"] is RECIPES["table2"]


def test_rows_of_the_paper_are_on_sigmoids():
    for recipe in RECIPES.values():
        for method in (method for block in recipe.blocks for method in block.methods):
            name, changes = parse_method(method)
            assert changes.get("annotation", METHODS[name].annotation) == "random"


# --- fewer trainings, and none --------------------------------------------------------------------


def test_choosing_once_trains_the_other_seed_once(features, tmp_path, trained):
    assert reproduce(features, tmp_path / "out", "convergence", "--choose-once") == 0
    assert [(cell.seed, cell.learning_rate) for cell in trained[:2]] == [(0, 0.1), (0, 0.01)]
    (first,) = chosen([c for c in cells_of(tmp_path / "out") if c["seed"] == 0], OURS, "fspl")
    assert [(c.seed, c.learning_rate) for c in trained[2:]] == [(1, first["learning_rate"])]
    assert "on the first seed" in words_of(tmp_path / "out")


def test_a_dry_run_counts_what_is_trained(features, tmp_path, trained, capsys):
    more = ["table1", "--choose-once", "--search-weights", "--epochs", "1"]
    assert reproduce(features, tmp_path / "out", *more, "--dry-run") == 0
    assert trained == []
    shown = capsys.readouterr().out.strip().splitlines()
    assert reproduce(features, tmp_path / "out", *more) == 0
    assert shown[-1] == f"{len(trained)} trainings"
    assert len(shown) == len(trained) + 1


def test_parameters_need_no_training_and_use_the_defaults(tmp_path, features, trained, capsys):
    assert reproduce(features, tmp_path / "out", "parameters") == 0
    assert trained == []
    assert "0 trainings" in capsys.readouterr().out
    lines = csv_of(tmp_path / "out" / "figure-parameters.csv")
    middle = [
        float(line["y"])
        for line in lines
        if (line["curve"], line["parameter"], line["x"]) == ("scheduler", "0.0", "0.5")
    ]
    assert middle == [pytest.approx(0.8 * 0.7 / 1.3, abs=1e-6)]  # β = 0.8, γ = 0.3
    assert not (tmp_path / "out" / "parameters.csv").exists()


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["tabel1"], "unknown recipe 'tabel1' (did you mean 'table1'?)"),
        (["table1", "--seeds", "x"], "--seeds: expected a comma-separated list of ints"),
        (["table1", "--seeds", "0,0"], "names something twice"),
        (["table1", "--seeds", "-1"], "seed: input should be greater than or equal to 0"),
        (["table1", "--epochs", "0"], "epochs: input should be greater than or equal to 1"),
        (["table1", "--learning-rates", "0"], "learning_rate: input should be greater than 0"),
        (["table1", "--learning-rates", "inf"], "learning_rate: input should be a finite number"),
        (["table1", "--batch-sizes", "1.5"], "--batch-sizes: expected"),
        (["table1", "--set", "hidden=-1"], "hidden: input should be greater than or equal to 0"),
        (["table1", "--published", "MNIST"], "--published: known: COCO, NUS-WIDE, VOC"),
        (
            ["table1", "--expected-positives", "many"],
            "expected_positives: input should be a valid number",
        ),
        (["table1", "--expected-positives", "4"], "4 per image, but there are only 3 classes"),
        (["table1", "--methods", "en"], "unknown method 'en'"),
        (["table1", "--methods", "em,em"], "--methods: 'em,em' names something twice"),
        (["table1", "--methods", "em:x=1"], "method em: "),
        (
            ["table1", "--methods", "em:annotation=x"],
            "annotation: input should be 'auto'",
        ),
        (["table1", "--methods", "bce"], "method bce needs full labels"),
        (["ablation", "--methods", "em"], "--methods: ablation is no table of methods; it goes"),
        (["parameters", "--methods", "em"], "with table1, table2, semi-supervised or all"),
        (["table1", "--mode", "linear"], "--mode: for images"),
        (["table1", "--mode", "foo"], "got 'foo'"),
    ],
)
def test_a_mistake_is_told_in_one_line(features, tmp_path, trained, capsys, arguments, expected):
    assert reproduce(features, tmp_path / "out", *arguments) == 2
    shown = capsys.readouterr().err
    assert len(shown.strip().splitlines()) == 1
    assert expected in shown
    assert not (tmp_path / "out").exists()
    assert trained == []


def test_unknown_labels_are_told_before_anything_is_written(tmp_path, trained, capsys):
    folder = write_folder(tmp_path / "partial", unknown=30)
    assert reproduce(folder, tmp_path / "out", "convergence") == 2
    assert "'truth' needs a file with full labels" in capsys.readouterr().err
    more = ["--expected-positives", "1.2"]
    assert reproduce(folder, tmp_path / "out", "table1", *more) == 2
    shown = capsys.readouterr().err
    assert "setting full: every label must be known" in shown
    assert len(shown.strip().splitlines()) == 1
    assert trained == []
    assert not (tmp_path / "out").exists()
    assert reproduce(folder, tmp_path / "out", "convergence", *more) == 0  # no full labels needed


def test_sigterm_is_told(features, tmp_path, monkeypatch, sigterm, capsys):
    monkeypatch.setattr(comparison, "train_cell", lambda *_: sigterm())
    assert reproduce(features, tmp_path / "out", "convergence") == 75
    assert capsys.readouterr().err == "g2netpl: stopped; go on with the same command\n"
