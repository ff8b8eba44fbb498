"""Sweeps on features: what is trained and chosen, and how a sweep resumes."""

import csv
import json
import shutil

import numpy as np
import pytest
import torch
from feature_folders import write_folder

from g2netpl import LabelTable, experiments
from g2netpl.cli import main
from g2netpl.commands.flags import split_list
from g2netpl.core.methods import METHODS, find_method
from g2netpl.experiments import cells as training
from g2netpl.experiments import sweep as sweeps
from g2netpl.utils.errors import InputError


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("features"))


def compare(features, output, *more):
    fixed = ["--settings", "sspl:0.5", "--epochs", "2", "--jobs", "1"]
    fixed += ["--learning-rates", "1e-1,1e-2"]
    return main(["compare", "--features", str(features), "--output", str(output), *fixed, *more])


def cells_of(folder):
    return [json.loads(line) for line in (folder / "cells.jsonl").read_text().splitlines()]


def results_of(folder):
    """Without the time a run took."""
    return [row | {"seconds": 0} for row in json.loads((folder / "results.json").read_text())]


def key(row):
    names = ("method", "setting", "seed", "learning_rate", "batch_size", "weight")
    return tuple(row[name] for name in names)


def best(cells):
    """The first of the best, as a plain loop finds it."""
    first = cells[0]
    for cell in cells[1:]:
        if cell["validation_map"] > first["validation_map"]:
            first = cell
    return first


# --- fairness -----------------------------------------------------------------------------------


def made_up(rows=60):
    random = np.random.default_rng(0)
    names = tuple(f"{row}.png" for row in range(rows))
    table = LabelTable(names, ("a", "b", "c"), random.integers(0, 2, (rows, 3)).astype(np.int8))
    inputs = torch.from_numpy(random.normal(size=(rows, 4)).astype(np.float32))
    return experiments.ArrayData(inputs, table, inputs, table)


def test_all_methods_have_the_same_masks_splits_and_starts():
    """And other seeds have others."""
    data, methods = made_up(), ("an", "epr", "g2netpl:annotation=random")
    sweep = experiments.Sweep(methods, ("sspl:0.5",), (0, 1), (1e-12,), epochs=1)
    seen = {}
    for cell in sweep.cells():
        trainer = training.trainer_of(sweep, cell, data)
        trainer.fit()  # with a step that moves no weight
        weights = np.concatenate([p.detach().ravel().numpy() for p in trainer.model.parameters()])
        parts = (trainer.data.training, trainer.data.held_out, trainer.data.visible.values, weights)
        seen.setdefault(cell.seed, []).append(parts)
    for runs in seen.values():
        assert len(runs) == 3
        for parts in zip(*runs, strict=True):
            assert all(part == pytest.approx(parts[0], abs=1e-9) for part in parts)
    assert (seen[0][0][2] != seen[1][0][2]).any()
    assert not np.allclose(seen[0][0][3], seen[1][0][3])


def test_the_choice_does_not_depend_on_the_test():
    """With the test labels inverted, the same runs are chosen."""
    data = made_up()
    other = LabelTable(data.test.images, data.test.classes, 1 - data.test.values)
    sweep = experiments.Sweep(("an", "epr"), ("fspl",), (0,), (1e-1, 1e-2), epochs=2)
    chosen = []
    for test in (data.test, other):
        arrays = experiments.ArrayData(data.train_inputs, data.train, data.test_inputs, test)
        sweep.check(arrays)
        rows = list(experiments.run_cells(sweep, arrays, sweep.cells()))
        chosen.append(experiments.choose(rows))
    assert [key(row) for row in chosen[0]] == [key(row) for row in chosen[1]]
    assert [row["test_map"] for row in chosen[0]] != [row["test_map"] for row in chosen[1]]


def test_every_method_gets_all_epochs(features, tmp_path):
    """Also one that `g2netpl train` would stop at equilibrium."""
    still = "g2netpl:response=best_response"
    more = ["--learning-rates", "1e-9", "--epochs", "7", "--seeds", "0"]  # nothing moves
    assert compare(features, tmp_path / "out", "--methods", f"an,{still}", *more) == 0
    an, ours = cells_of(tmp_path / "out")
    assert len(an["history"]) == len(ours["history"]) == 7
    at_rest = [r["regret"] < 1e-3 and r["movement"] < 1e-3 for r in ours["history"]]
    assert at_rest[1:] == [True] * 6  # three such epochs are enough for a stop elsewhere


@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if row.grid])
def test_a_main_weight_has_three_values(method):
    name, values = METHODS[method].grid
    assert len(set(values)) == len(values) == 3
    for value in values:
        assert getattr(find_method(method).options({name: str(value)}), name) == value
    default = getattr(find_method(method).options({}), name)
    if default is not None and None not in values:
        assert min(values) <= default <= max(values)


# --- what is trained and chosen -----------------------------------------------------------------


def test_weights_are_searched_and_chosen_on_validation(features, tmp_path, trained):
    methods = "an,iu,epr,epr:regulariser=0.1"
    arguments = ["--methods", methods, "--seeds", "0,1", "--search-weights"]
    assert compare(features, tmp_path / "out", *arguments) == 0
    cells, rows = cells_of(tmp_path / "out"), results_of(tmp_path / "out")
    weights = {
        "an": ["unobserved_weight=0.3", "unobserved_weight=1.0", "unobserved_weight=3.0"],
        "iu": [""],
        "epr": ["regulariser=0.3", "regulariser=1.0", "regulariser=3.0"],
        "epr:regulariser=0.1": [""],
    }
    expected = [
        (method, "sspl:0.5", seed, rate, 64, weight)
        for seed in (0, 1)
        for method in methods.split(",")
        for rate in (0.1, 0.01)
        for weight in weights[method]
    ]
    assert [key(cell) for cell in cells] == expected
    assert len(trained) == len(expected)
    assert len(rows) == 2 * 4
    for row in rows:
        same = [c for c in cells if (c["method"], c["seed"]) == (row["method"], row["seed"])]
        assert key(row) == key(best(same))
        assert row["test_map"] == best(same)["test_map"]
    assert len({row["weight"] for row in rows}) > 3  # not always the first


def test_other_seeds_are_trained_with_what_the_first_chose(features, tmp_path, trained):
    arguments = ["--methods", "an,epr", "--seeds", "1,0,2", "--search-weights"]
    assert compare(features, tmp_path / "once", *arguments, "--choose-once") == 0
    assert len(trained) == 2 * 6 + 2 * 2
    cells, rows = cells_of(tmp_path / "once"), results_of(tmp_path / "once")
    assert [(row["seed"], row["method"]) for row in rows] == [
        (seed, method) for seed in (1, 0, 2) for method in ("an", "epr")
    ]
    for method in ("an", "epr"):
        first = best([c for c in cells if (c["method"], c["seed"]) == (method, 1)])
        for row in rows:
            if row["method"] == method:
                assert key(row) == key(first | {"seed": row["seed"]})


def test_of_equal_runs_the_first_is_chosen():
    row = {"method": "an", "setting": "fspl", "seed": 0}
    scores = (0.5, 0.7, 0.6, 0.7)
    rows = [row | {"weight": str(n), "validation_map": s} for n, s in enumerate(scores)]
    assert [chosen["weight"] for chosen in sweeps.choose(rows)] == ["1"]
    nothing = [each | {"validation_map": None} for each in rows]
    assert [chosen["weight"] for chosen in sweeps.choose(nothing)] == ["0"]
    rows[1]["diverged"] = "nan"
    assert [chosen["weight"] for chosen in sweeps.choose(rows)] == ["3"]


def test_processes_change_nothing(features, tmp_path):
    for jobs in ("1", "2"):
        more = ["--methods", "an,epr", "--seeds", "0", "--jobs", jobs]
        assert compare(features, tmp_path / jobs, *more) == 0
    timeless = [
        [{**cell, "seconds": 0, "history": 0} for cell in cells_of(tmp_path / jobs)]
        for jobs in ("1", "2")
    ]
    assert timeless[0] == timeless[1]


# --- files --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three(features, tmp_path_factory):
    """Three methods on two seeds."""
    folder = tmp_path_factory.mktemp("three") / "out"
    assert compare(features, folder, "--methods", "an,epr,g2netpl", "--seeds", "0,1") == 0
    return folder


def test_tables_have_mean_and_deviation_of_the_chosen_runs(three):
    rows = results_of(three)
    with (three / "results.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [line["method"] for line in lines] == ["an", "epr", "g2netpl"]
    columns = {"test_map": ("best epoch", "± best"), "last_test_map": ("last epoch", "± last")}
    columns |= {"cf1": ("CF1", "± CF1"), "of1": ("OF1", "± OF1")}
    for line in lines:
        runs = [row for row in rows if row["method"] == line["method"]]
        assert line["seeds"] == "2" == str(len(runs))
        for name, (mean, deviation) in columns.items():
            values = [100 * row[name] for row in runs]
            assert float(line[mean]) == pytest.approx(np.mean(values), abs=0.0051)
            assert float(line[deviation]) == pytest.approx(np.std(values, ddof=1), abs=0.0051)
        assert (line["unresolved %"] == "") == (line["method"] != "g2netpl")


def test_differences_are_those_of_the_chosen_runs(three, capsys):
    rows = results_of(three)
    with (three / "differences.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 3 * 2
    for line in lines:
        first, second = (
            np.mean([row["test_map"] for row in rows if row["method"] == line[name]])
            for name in ("method", "minus")
        )
        gap = float(line["difference"])
        assert gap == pytest.approx(100 * (first - second), abs=0.0051)
        assert float(line["low"]) < float(line["high"])
        assert float(line["low"]) - 5 < gap < float(line["high"]) + 5
    assert "95 % interval" in (three / "report.html").read_text()


# --- resuming -----------------------------------------------------------------------------------

ARGUMENTS = ["--methods", "an,g2netpl", "--seeds", "0,1", "--search-weights", "--choose-once"]
CELLS = 2 * 6 + 2


@pytest.fixture(scope="module")
def whole(features, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "out"
    assert compare(features, folder, *ARGUMENTS) == 0
    return folder


@pytest.fixture
def copied(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "out")
    return tmp_path / "out"


def test_an_interrupted_comparison_resumes(features, whole, tmp_path, trained):
    folder, kept = tmp_path / "out", 12
    trained.stop_after = kept
    assert compare(features, folder, *ARGUMENTS) == 130
    assert len(cells_of(folder)) == kept
    assert not (folder / "results.json").exists()
    done = list(trained)
    trained.clear()
    trained.stop_after = None
    assert compare(features, folder, *ARGUMENTS) == 0
    assert len(trained) == CELLS - kept
    assert not set(done) & set(trained)
    assert results_of(folder) == results_of(whole)
    assert [key(cell) for cell in cells_of(folder)] == [key(cell) for cell in cells_of(whole)]


@pytest.mark.parametrize("left", [40, -1])
def test_missing_lines_and_half_a_last_line_are_trained_again(
    features, whole, copied, trained, left
):
    path = copied / "cells.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    lost = lines.pop(3)
    path.write_text("".join(lines[:-1]) + lines[-1][:left])  # −1: all but the end of the line
    assert compare(features, copied, *ARGUMENTS) == 0
    assert [key(vars(cell)) for cell in trained] == [key(json.loads(x)) for x in (lost, lines[-1])]
    after = path.read_text().splitlines(keepends=True)
    assert after[:-2] == lines[:-1]
    assert results_of(copied) == results_of(whole)


@pytest.mark.parametrize(
    ("more", "name"),
    [
        (["--epochs", "3", "--seeds", "4"], "seeds, epochs"),
        (["--set", "hidden=4"], "hidden"),
        (["--methods", "an,epr"], "methods"),
        (["--seeds", "1,0"], "seeds"),
    ],
)
def test_other_flags_than_it_began_with_are_rejected(features, copied, trained, capsys, more, name):
    before = {path.name: path.read_bytes() for path in copied.iterdir()}
    assert compare(features, copied, *ARGUMENTS, *more) == 2
    shown = capsys.readouterr().err
    assert f"out: was started with other {name};" in shown
    assert len(shown.strip().splitlines()) == 1
    assert trained == []
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == before


def test_more_methods_and_seeds_may_be_added(features, whole, copied, trained):
    flags = [*ARGUMENTS[4:], "--methods", "an,g2netpl,epr", "--seeds", "0,1,5"]
    assert compare(features, copied, *flags) == 0
    assert not {key(cell) for cell in cells_of(whole)} & {key(vars(cell)) for cell in trained}
    rows = results_of(copied)
    assert len(rows) == 3 * 3
    assert all(row in rows for row in results_of(whole))


DAMAGE = {
    "no JSON": lambda row: b"nonsense",
    "a text for mAP": lambda row: json.dumps(row | {"validation_map": "x"}).encode(),
    "numbers for epochs": lambda row: json.dumps(row | {"history": [1, 2]}).encode(),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_line_is_named(features, copied, trained, capsys, case):
    path = copied / "cells.jsonl"
    lines = path.read_bytes().splitlines()
    lines[4] = DAMAGE[case](json.loads(lines[4]))
    path.write_bytes(b"\n".join(lines) + b"\n")
    before = path.read_bytes()
    assert compare(features, copied, *ARGUMENTS) == 2
    shown = capsys.readouterr().err
    assert len(shown.strip().splitlines()) == 1
    assert f"{path}: line 5: not a run of a comparison" in shown
    assert (path.read_bytes(), trained) == (before, [])


# --- lists of methods ---------------------------------------------------------------------------


def test_brackets_protect_a_comma_of_a_list():
    text, parts = "an,gr:slope=[0,2]:offset=(-2,-1), epr", ("an", "gr:slope=[0,2]:offset=(-2,-1)")
    assert split_list("--methods", text, str) == (*parts, "epr")


def test_a_wrong_optimizer_is_found_before_anything_is_trained():
    odd = experiments.Sweep(("an",), ("fspl",), (0,), optimizer="Adamm")
    with pytest.raises(InputError, match="unknown optimizer 'Adamm'"):
        odd.check(made_up())
