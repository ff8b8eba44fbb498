"""A comparison that searches weights, chooses once, is broken off and goes on."""

import json
import shutil

import numpy as np
import pytest
from feature_folders import write_folder

from g2netpl.cli import main
from g2netpl.core.methods import METHODS, find_method
from g2netpl.experiments import cells as comparison
from g2netpl.images.features import FeatureFolder, write_features
from g2netpl.labels.table import LabelTable
from g2netpl.utils.locks import locked
from g2netpl.utils.progress import Work


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("features"))


def compare(features, output, *more):
    fixed = ["--settings", "sspl:0.5", "--epochs", "2", "--jobs", "1"]
    fixed += ["--learning-rates", "1e-1,1e-2"]
    return main(["compare", "--features", str(features), "--output", str(output), *fixed, *more])


def cells_of(folder):
    lines = (folder / "cells.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def results_of(folder):
    """Without the time a training took."""
    return [row | {"seconds": 0} for row in json.loads((folder / "results.json").read_text())]


def key(row):
    names = ("method", "setting", "seed", "learning_rate", "batch_size", "weight")
    return tuple(row[name] for name in names)


def best(cells):
    """The first of the best, as a plain loop finds it."""
    found = cells[0]
    for cell in cells[1:]:
        if cell["validation_map"] > found["validation_map"]:
            found = cell
    return found


# --- all epochs ---------------------------------------------------------------------------------


def test_labels_at_rest_do_not_end_a_training(features, tmp_path):
    """Every method gets all epochs, also one that `g2netpl train` would stop at equilibrium."""
    still = "g2netpl:response=best_response"
    more = ["--learning-rates", "1e-9", "--epochs", "7", "--seeds", "0"]  # nobody moves
    assert compare(features, tmp_path / "out", "--methods", f"an,{still}", *more) == 0
    an, ours = cells_of(tmp_path / "out")
    assert len(an["history"]) == len(ours["history"]) == 7
    at_rest = [r["regret"] < 1e-3 and r["movement"] < 1e-3 for r in ours["history"]]
    assert at_rest[1:] == [True] * 6  # three such epochs are enough for a stop elsewhere


# --- without a test ------------------------------------------------------------------------------


def test_without_test_features_validation_map_is_reported(features, tmp_path, capsys):
    """The trainings and the choice are the same as with a test."""
    more = ["--methods", "an,g2netpl", "--seeds", "0,1"]
    assert compare(features, tmp_path / "with", *more) == 0
    assert "test mAP × 100" in capsys.readouterr().out
    shutil.copytree(features, tmp_path / "features")
    (tmp_path / "features" / "test.npz").unlink()
    assert compare(tmp_path / "features", tmp_path / "out", *more) == 0
    said = capsys.readouterr().out
    assert "validation mAP × 100, on which epoch and run were chosen" in said
    assert "test mAP" not in said
    none = {"test_map": None, "last_test_map": None}
    assert results_of(tmp_path / "out") == [row | none for row in results_of(tmp_path / "with")]
    assert "Test mAP" not in (tmp_path / "out" / "report.html").read_text()
    assert compare(tmp_path / "features", tmp_path / "out", *more, "--resume") == 0
    assert compare(features, tmp_path / "out", *more, "--resume") == 2  # a test that was not there
    assert main(["reproduce", "table1", "--data", str(tmp_path / "features"), "--output", "x"]) == 2
    assert "features: no test images; give --test-labels" in capsys.readouterr().err


# --- every method's main weight -----------------------------------------------------------------


@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if row.grid])
def test_a_grid_has_three_values_that_the_method_takes(method):
    name, values = METHODS[method].grid
    assert name in METHODS[method].method.Options.model_fields
    assert len(set(values)) == len(values) == 3
    for value in values:
        for given in (value, str(value)):  # as it is, and as a command has it
            assert getattr(find_method(method).options({name: given}), name) == value
    default = getattr(find_method(method).options({}), name)
    if name != "unobserved_weight" or default is not None:
        numbers = [value for value in values if value is not None]
        assert numbers == sorted(numbers)
        assert numbers[0] <= default <= numbers[-1]  # what is usual lies among them


def test_methods_without_a_grid_have_no_weight():
    assert {name for name, row in METHODS.items() if row.grid is None} == {"bce", "iu", "sampled"}


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
    assert len(trained) == len(expected) == 2 * 2 * (3 + 1 + 3 + 1)
    assert len(rows) == 2 * 4
    for row in rows:
        same = [c for c in cells if (c["method"], c["seed"]) == (row["method"], row["seed"])]
        chosen = best(same)
        assert key(row) == key(chosen)
        assert row["test_map"] == chosen["test_map"]
    # the choice is one: not always the first weight, nor always the first learning rate
    assert len({row["weight"] for row in rows}) > 3


def test_a_weight_set_for_a_method_is_not_searched(features, tmp_path):
    more = ["--methods", "epr,an", "--seeds", "0", "--search-weights", "--set", "epr.regulariser=2"]
    assert compare(features, tmp_path / "out", *more) == 0
    weights = {(cell["method"], cell["weight"]) for cell in cells_of(tmp_path / "out")}
    searched = {("an", f"unobserved_weight={value}") for value in (0.3, 1.0, 3.0)}
    assert weights == {("epr", ""), *searched}


def test_other_seeds_are_trained_with_what_the_first_chose(features, tmp_path, trained):
    arguments = ["--methods", "an,epr", "--seeds", "1,0,2", "--search-weights"]
    assert compare(features, tmp_path / "once", *arguments, "--choose-once") == 0
    assert len(trained) == 2 * 6 + 2 * 2
    cells, rows = cells_of(tmp_path / "once"), results_of(tmp_path / "once")
    assert len(cells) == 2 * 6 + 2 * 2
    assert [(row["seed"], row["method"]) for row in rows] == [
        (seed, method) for seed in (1, 0, 2) for method in ("an", "epr")
    ]
    for method in ("an", "epr"):
        first = best([c for c in cells if (c["method"], c["seed"]) == (method, 1)])
        for row in rows:
            if row["method"] == method:
                assert key(row) == key(first | {"seed": row["seed"]})
    # the figures of a seed are those of a comparison that trains all its cells
    assert compare(features, tmp_path / "all", *arguments) == 0
    everything = {key(cell): cell for cell in cells_of(tmp_path / "all")}
    assert len(everything) == 3 * 2 * 6
    for cell in cells:
        assert cell["test_map"] == everything[key(cell)]["test_map"]


def test_of_equal_cells_the_first_is_chosen():
    row = dict.fromkeys(comparison.RESULT_KEYS) | {"method": "an", "setting": "fspl", "seed": 0}
    scores = (0.5, 0.7, 0.6, 0.7)
    rows = [row | {"weight": str(n), "validation_map": s} for n, s in enumerate(scores)]
    assert [chosen["weight"] for chosen in comparison.choose(rows)] == ["1"]
    nothing = [each | {"validation_map": None} for each in rows]
    assert [chosen["weight"] for chosen in comparison.choose(nothing)] == ["0"]


# --- what was broken off ------------------------------------------------------------------------

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


@pytest.mark.parametrize("kept", [1, 12])
def test_a_comparison_broken_off_goes_on(features, whole, tmp_path, trained, kept, capsys):
    folder = tmp_path / "out"
    trained.stop_after = kept
    assert compare(features, folder, *ARGUMENTS) == 130
    assert len(cells_of(folder)) == kept
    advice = f"{kept} training{'' if kept == 1 else 's'} finished and kept; go on with the same"
    assert f"{advice} command and --resume" in capsys.readouterr().out
    assert not (folder / "results.json").exists()
    done = list(trained)
    trained.clear()
    trained.stop_after = None
    assert compare(features, folder, *ARGUMENTS, "--resume") == 0
    assert len(trained) == CELLS - kept
    assert not set(done) & set(trained)
    assert results_of(folder) == results_of(whole)
    assert [key(cell) for cell in cells_of(folder)] == [key(cell) for cell in cells_of(whole)]
    trained.clear()
    assert compare(features, folder, *ARGUMENTS, "--resume", "--jobs", "2") == 0  # all is there
    assert trained == []
    assert results_of(folder) == results_of(whole)
    capsys.readouterr()


def test_only_what_is_missing_is_trained(features, whole, copied, trained):
    lost = [3, 7, 13]
    path = copied / "cells.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == CELLS
    path.write_text("".join(line for number, line in enumerate(lines) if number not in lost))
    (copied / "results.json").unlink()
    assert compare(features, copied, *ARGUMENTS, "--resume") == 0
    missing = [key(json.loads(lines[number])) for number in lost]
    assert [key(vars(cell)) for cell in trained] == missing
    assert results_of(copied) == results_of(whole)
    assert sorted(map(key, cells_of(copied))) == sorted(map(key, cells_of(whole)))


@pytest.mark.parametrize("left", [40, -1])
def test_a_torn_last_line_is_trained_again(features, whole, copied, trained, left):
    path = copied / "cells.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]) + lines[-1][:left])  # −1: all but the end of the line
    assert compare(features, copied, *ARGUMENTS, "--resume") == 0
    assert [key(vars(cell)) for cell in trained] == [key(json.loads(lines[-1]))]
    after = path.read_text().splitlines(keepends=True)
    assert after[:-1] == lines[:-1]
    assert key(json.loads(after[-1])) == key(json.loads(lines[-1]))
    assert after[-1].endswith("\n")
    assert results_of(copied) == results_of(whole)


@pytest.mark.parametrize(
    ("more", "flag"),
    [
        (["--epochs", "3"], "--epochs"),
        (["--set", "an.smoothing=0.1"], "--set"),
        (["--epochs", "3", "--seeds", "4"], "--seeds, --epochs"),
    ],
)
def test_other_flags_than_it_began_with_are_refused(features, copied, trained, capsys, more, flag):
    before = {path.name: path.read_bytes() for path in copied.iterdir()}
    assert compare(features, copied, *ARGUMENTS, *more, "--resume") == 2
    shown = capsys.readouterr().err
    assert f"out: other {flag} than it began with" in shown
    assert len(shown.strip().splitlines()) == 1
    assert trained == []
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == before


def test_more_methods_settings_and_seeds_may_be_added(features, whole, copied, trained, capsys):
    def asked(methods, seeds, settings):
        flags = [*ARGUMENTS[4:], "--methods", methods, "--seeds", seeds, "--settings", settings]
        return compare(features, copied, *flags, "--resume")

    assert asked("an,g2netpl,epr", "0,1,5", "sspl:0.5,fspl") == 0
    old = {key(cell) for cell in cells_of(whole)}
    assert not old & set(trained)
    rows = results_of(copied)
    places = [(row["setting"], row["method"], row["seed"]) for row in rows]
    assert sorted(places) == sorted(
        (setting, method, seed)
        for setting in ("sspl:0.5", "fspl")
        for method in ("an", "g2netpl", "epr")
        for seed in (0, 1, 5)
    )
    for row in results_of(whole):
        assert row in rows
    assert json.loads((copied / "run.json").read_text())["seeds"] == "0,1,5"
    assert f"{len(cells_of(copied))} runs" in (copied / "report.html").read_text()
    trained.clear()
    assert asked("an,g2netpl,epr", "0,1,5", "sspl:0.5,fspl") == 0
    assert trained == []
    capsys.readouterr()
    for changed, flag in (
        (("an,epr", "0,1,5", "sspl:0.5,fspl"), "--methods"),
        (("an,g2netpl,epr", "1,0,5", "sspl:0.5,fspl"), "--seeds"),
        (("an,g2netpl,epr", "0,1,55", "sspl:0.5,fspl"), "--seeds"),
        (("an,g2netpl,epr", "0,1,5", "fspl"), "--settings"),
    ):
        assert asked(*changed) == 2
        expected = f"other {flag} than it began with (more may be added behind)"
        assert expected in capsys.readouterr().err
    assert trained == []


def test_more_seeds_of_other_data_are_refused(tmp_path, trained, capsys):
    random = np.random.default_rng(5)
    tables = [
        LabelTable(
            tuple(f"{name}{i}" for i in range(60)),
            tuple("abc"),
            (random.normal(size=(60, 3)) > 0).astype(np.int8),
        )
        for name in ("train", "test")
    ]
    for number in range(2):
        values = random.normal(size=(2, 60, 6)).astype(np.float32)
        folder = tmp_path / f"data{number}"
        write_features(folder, FeatureFolder(values[0], tables[0], values[1], tables[1]))
    data, other = tmp_path / "data0", tmp_path / "data1"
    assert compare(data, tmp_path / "out", "--methods", "an", "--seeds", "0") == 0
    shutil.rmtree(data)
    other.rename(data)  # the same labels of other features
    trained.clear()
    grown = ["--methods", "an", "--seeds", "0,1", "--resume"]
    assert compare(data, tmp_path / "out", *grown) == 2
    assert "out: other content of the data than it began with;" in capsys.readouterr().err
    assert trained == []


def test_the_page_shows_what_the_comparison_chose(features, copied):
    """Also where cells of another grid lie beside, as after an update."""
    (first, *_) = [cell for cell in cells_of(copied) if cell["seed"] == 1]
    better = {**first, "weight": "unobserved_weight=77.0", "validation_map": 1.0}
    with (copied / "cells.jsonl").open("a") as file:
        file.write(json.dumps(better) + "\n")
    assert main(["report", str(copied)]) == 0
    page = (copied / "report.html").read_text()
    chosen, others = page.split(" runs not chosen")
    assert "unobserved_weight=77.0" not in chosen
    assert "unobserved_weight=77.0" in others


def test_the_page_shows_all_trainings_and_how_they_were_chosen(whole):
    page = (whole / "report.html").read_text()
    assert f"{CELLS - 4} runs not chosen" in page
    assert "validation images of the first seed" in page
    assert "(mean of the hidden truth)" in page


def test_other_switches_than_it_began_with_are_refused(features, copied, capsys):
    assert compare(features, copied, *ARGUMENTS[:-1], "--resume") == 2
    assert "--choose-once" in capsys.readouterr().err
    assert compare(features, copied, *ARGUMENTS[:-2], "--choose-once", "--resume") == 2
    assert "--search-weights" in capsys.readouterr().err
    assert compare(features, copied, *ARGUMENTS) == 2
    assert "holds a finished run of 'g2netpl compare'" in capsys.readouterr().err


def test_there_must_be_a_comparison_to_go_on_with(features, tmp_path, copied, capsys):
    assert compare(features, tmp_path / "none", *ARGUMENTS, "--resume") == 2
    assert "run.json is missing" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    run = json.loads((copied / "run.json").read_text())
    (copied / "run.json").write_text(json.dumps(run | {"command": "train"}))
    assert compare(features, copied, *ARGUMENTS, "--resume") == 2
    assert "was written by 'g2netpl train', not by compare" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        compare(features, copied, *ARGUMENTS, "--resume", "--overwrite")
    assert stopped.value.code == 2
    capsys.readouterr()


DAMAGE = {
    "no JSON": lambda row: b"nonsense",
    "a list": lambda row: b"[1, 2]",
    "no UTF-8": lambda row: json.dumps(row).encode().replace(b"sspl", b"ss\xffl"),
    "a text for mAP": lambda row: json.dumps(row | {"validation_map": "x"}).encode(),
    "numbers for epochs": lambda row: json.dumps(row | {"history": [1, 2]}).encode(),
    "endless brackets": lambda row: b"[" * 100_000,
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_line_is_named(features, copied, trained, capsys, case):
    path = copied / "cells.jsonl"
    lines = path.read_bytes().splitlines()
    lines[4] = DAMAGE[case](json.loads(lines[4]))
    path.write_bytes(b"\n".join(lines) + b"\n")
    before = path.read_bytes()
    assert compare(features, copied, *ARGUMENTS, "--resume") == 2
    shown = capsys.readouterr().err
    assert len(shown.strip().splitlines()) == 1
    assert f"{path}: line 5: not a training of a comparison" in shown
    assert path.read_bytes() == before
    assert trained == []


@pytest.mark.parametrize("jobs", ["0", "many"])
def test_a_number_of_jobs_is_one_at_least(tmp_path, capsys, jobs):
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--output", str(tmp_path / "out"), "--jobs", jobs])
    assert ended.value.code == 2
    assert f"argument --jobs: expected a whole number of 1 or more, 512 at most, got '{jobs}'" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("content", ['[{"method', '[{"method": "an"}]'])
def test_without_results_that_can_be_read_the_page_chooses_itself(copied, capsys, content):
    page = (copied / "report.html").read_bytes()
    (copied / "report.html").unlink()
    (copied / "results.json").write_text(content, encoding="latin-1")
    assert main(["report", str(copied)]) == 0
    assert (copied / "report.html").read_bytes() == page
    capsys.readouterr()


def test_what_run_json_says_of_a_comparison_is_checked(copied, capsys):
    about = json.loads((copied / "run.json").read_text())
    (copied / "run.json").write_text(json.dumps(about | {"features": 5}))
    assert main(["report", str(copied)]) == 2
    said = capsys.readouterr().err
    assert (said.count("\n"), f"{copied / 'run.json'}: features: " in said) == (1, True)


def test_one_comparison_at_a_time(features, copied, trained, capsys):
    with (copied / "cells.jsonl").open("ab") as file:
        file.write(b'{"half": "a li')  # the other is writing it
    before = {path: path.read_bytes() for path in copied.iterdir()}
    with locked(copied):
        assert compare(features, copied, *ARGUMENTS, "--resume") == 2
    assert "another process is training there" in capsys.readouterr().err
    assert trained == []
    assert {path: path.read_bytes() for path in copied.iterdir()} == before


def test_sigterm_is_told_and_gone_on_from(features, whole, tmp_path, trained, sigterm, capsys):
    folder = tmp_path / "out"

    def stop(bar, note, real=Work.finished):
        real(bar, note)
        if len(trained) == 3:
            sigterm()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Work, "finished", stop)
        assert compare(features, folder, *ARGUMENTS) == 75
    said = capsys.readouterr()
    assert said.err == "g2netpl: stopped; go on with the same command and --resume\n"
    assert "2 trainings finished and kept" in said.out
    assert compare(features, folder, *ARGUMENTS, "--resume") == 0
    assert results_of(folder) == results_of(whole)
