"""The command line as a user meets it: exit codes, one-line errors, files."""

import json
import subprocess
import sys

import numpy as np
import pytest

from g2netpl.cli import main
from g2netpl.features import FeatureFolder, write_features
from g2netpl.labels import LabelTable


@pytest.fixture
def features(tmp_path):
    random = np.random.default_rng(0)
    parts = []
    for name, count in (("train", 120), ("test", 40)):
        values = random.normal(size=(count, 6)).astype(np.float32)
        labels = (values[:, :3] > 0.3).astype(np.int8)
        labels[0] = 1
        parts += [
            values,
            LabelTable(tuple(f"{name}{i}" for i in range(count)), tuple("abc"), labels),
        ]
    write_features(tmp_path / "features", FeatureFolder(*parts))
    return tmp_path / "features"


def compare(features, output, *more):
    fixed = ["--seeds", "0,1", "--epochs", "2", "--jobs", "1", "--learning-rates", "1e-2,1e-3"]
    return main(["compare", "--features", str(features), "--output", str(output), *fixed, *more])


def test_help_is_quick_and_does_not_import_torch():
    code = (
        "import sys\nfrom g2netpl.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "assert 'torch' not in sys.modules and 'sklearn' not in sys.modules"
    )
    for command in ([], ["train"], ["compare"], ["demo"], ["features"], ["methods"]):
        shown = subprocess.run(
            [sys.executable, "-c", code, *command, "--help"], capture_output=True, text=True
        )
        assert shown.returncode == 0, shown.stderr
        assert "examples:" in shown.stdout


def test_importing_the_package_imports_nothing_heavy():
    code = "import g2netpl, sys; assert 'torch' not in sys.modules; g2netpl.read_labels"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_python_dash_m_works():
    shown = subprocess.run(
        [sys.executable, "-m", "g2netpl", "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("g2netpl ")


def test_every_public_name_is_there():
    import g2netpl

    for name in g2netpl.__all__:
        assert getattr(g2netpl, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = g2netpl.nothing


def test_methods_are_listed_with_their_options(capsys):
    assert main(["methods"]) == 0
    assert "g2netpl-paper" in capsys.readouterr().out
    assert main(["methods", "g2netpl"]) == 0
    assert "step_growth" in capsys.readouterr().out


def test_compare_writes_rows_and_cells(features, tmp_path, capsys):
    assert compare(features, tmp_path / "out", "--methods", "an,g2netpl", "--settings", "fspl") == 0
    rows = json.loads((tmp_path / "out" / "results.json").read_text())
    cells = json.loads((tmp_path / "out" / "cells.json").read_text())
    assert len(rows) == 4
    assert len(cells) == 8
    assert set(rows[0]) == {
        "method",
        "setting",
        "seed",
        "learning_rate",
        "batch_size",
        "best_epoch",
        "validation_map",
        "test_map",
        "last_test_map",
        "pseudo_label_map",
        "undecided",
        "seconds",
    }
    for row in rows:  # chosen on validation, among the cells of the same method, setting and seed
        same = [c for c in cells if (c["method"], c["seed"]) == (row["method"], row["seed"])]
        best = max(same, key=lambda cell: cell["validation_map"])
        assert row["learning_rate"] == best["learning_rate"]
        assert row["test_map"] == best["test_map"]
        scores = [record["validation_map"] for record in best["history"]]
        assert row["best_epoch"] == 1 + int(np.argmax(scores))
        assert (row["pseudo_label_map"] is None) == (row["method"] == "an")
    assert "±" in capsys.readouterr().out


def test_compare_gives_the_same_figures_for_any_number_of_jobs(features, tmp_path):
    for jobs in ("1", "2"):
        arguments = ["--methods", "g2netpl", "--settings", "sspl:0.5", "--jobs", jobs]
        assert compare(features, tmp_path / jobs, *arguments) == 0
    one, two = (json.loads((tmp_path / jobs / "results.json").read_text()) for jobs in "12")
    for left, right in zip(one, two, strict=True):
        assert {**left, "seconds": 0} == {**right, "seconds": 0}


def test_options_can_be_changed_for_one_method(features, tmp_path):
    arguments = ["--methods", "epr,epr:regulariser=0.5", "--settings", "fspl"]
    assert compare(features, tmp_path / "a", *arguments) == 0
    assert (
        compare(
            features,
            tmp_path / "b",
            "--methods",
            "epr",
            "--settings",
            "fspl",
            "--set",
            "epr.regulariser=0.5",
        )
        == 0
    )
    variants = json.loads((tmp_path / "a" / "results.json").read_text())
    changed = json.loads((tmp_path / "b" / "results.json").read_text())
    assert changed[0]["method"] == "epr:regulariser=0.5"
    same = [row for row in variants if row["method"] == "epr:regulariser=0.5"]
    assert [row["test_map"] for row in changed] == [row["test_map"] for row in same]
    plain = [row for row in variants if row["method"] == "epr"]
    assert [row["test_map"] for row in plain] != [row["test_map"] for row in same]


def test_k_can_be_estimated_in_a_comparison(features, tmp_path):
    arguments = ["--methods", "epr", "--settings", "fspl", "--expected-positives", "estimate"]
    assert compare(features, tmp_path / "out", *arguments) == 0
    cells = json.loads((tmp_path / "out" / "cells.json").read_text())
    assert 1 <= cells[0]["expected_positives"] <= 1.5


def test_a_run_from_toml_with_flags_over_it(photos, tmp_path, capsys):
    config = tmp_path / "run.toml"
    config.write_text(
        f'labels = "{photos / "train.csv"}"\nimages = "{photos}"\nbackbone = "tiny"\n'
        'setting = "fspl"\nepochs = 9\nimage_size = 32\nworkers = 0\nexpected_positives = 2\n'
        "[options]\npenalty = 0.7\n"
    )
    run = str(tmp_path / "run")
    arguments = ["train", "--config", str(config), "--epochs", "1", "--output", run]
    assert main([*arguments, "--set", "gamma=0.5"]) == 0
    assert "written to" in capsys.readouterr().out
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert stored["epochs"] == 1
    assert stored["options"] == {"penalty": 0.7, "gamma": "0.5"}
    assert main(["train", "--resume", "--output", run]) == 0
    assert "finished already" in capsys.readouterr().out
    assert main(arguments) == 3
    assert "not empty" in capsys.readouterr().err
    assert main([*arguments, "--overwrite"]) == 0


def test_overwrite_touches_only_what_is_ours(photos, tmp_path, capsys):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    arguments = ["train", "--labels", str(photos / "train.csv"), "--images", str(photos)]
    arguments += ["--backbone", "tiny", "--expected-positives", "2", "--output", str(mine)]
    assert main([*arguments, "--overwrite"]) == 3
    assert "no run.json of ours" in capsys.readouterr().err
    assert (mine / "thesis.txt").read_text() == "years of work"


BAD = {
    "a negative learning rate": (["--learning-rate", "-1"], "learning_rate: .*greater than 0"),
    "no number": (["--learning-rate", "fast"], "learning_rate: .*got 'fast'"),
    "gamma above 1": (["--set", "gamma=1.5"], "gamma: .*less than or equal to 1"),
    "an unknown method": (["--method", "g2netp"], "did you mean 'g2netpl'"),
    "an unknown option": (["--set", "gamme=1"], "did you mean 'gamma'"),
    "an unknown flag": (["--learningrate", "1"], "unrecognized arguments"),
    "an unknown setting": (["--setting", "fsp"], "did you mean 'fspl'"),
    "an unknown backbone": (["--backbone", "resnet5o"], "did you mean 'resnet50'"),
    "a missing label file": (["--labels", "none.csv"], "none.csv: no such label file"),
    "a missing image folder": (["--images", "none"], "none: no such image folder"),
    "a missing config": (["--config", "none.toml"], "none.toml: cannot be read"),
    "a missing weights file": (["--weights", "none.safetensors"], "no such weights file"),
    "bce without full labels": (["--method", "bce"], "needs full labels"),
    "an expected number of 0": (["--expected-positives", "0"], "must be greater than 0"),
    "another method's option": (["--set", "role.regulariser=1", "--method", "an"], "is an"),
    "set without a value": (["--set", "gamma"], "expected method.key=value"),
    "zero epochs": (["--epochs", "0"], "epochs: .*greater than or equal to 1"),
    "an unknown mode": (["--mode", "quick"], "'end-to-end', 'linear' or 'linear-init'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(case, photos, tmp_path, capsys):
    import re

    more, message = BAD[case]
    arguments = ["train", "--labels", str(photos / "train.csv"), "--images", str(photos)]
    arguments += ["--backbone", "tiny", "--output", str(tmp_path / "run"), *more]
    try:
        code = main(arguments)
    except SystemExit as stopped:  # argparse
        code = stopped.code
    shown = capsys.readouterr()
    assert code == 2
    assert len(shown.err.strip().splitlines()) == 1, shown.err
    assert re.search(message, shown.err), shown.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("image,x\na.png,2\n", r"labels\.csv:2: class 'x': expected 1, 0"),
        ("image,x,x\na.png,1,0\n", r"labels\.csv:1: class 'x' is listed twice"),
    ],
)
def test_bad_label_files_are_named(content, message, tmp_path, capsys):
    import re

    (tmp_path / "labels.csv").write_text(content)
    arguments = ["train", "--labels", str(tmp_path / "labels.csv"), "--images", str(tmp_path)]
    assert main([*arguments, "--output", str(tmp_path / "run")]) == 2
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--methods", "bce", "--settings", "fspl"], "method bce needs full labels"),
        (["--methods", "an,an", "--settings", "fspl"], "names something twice"),
        (["--methods", "ann", "--settings", "fspl"], "did you mean 'an'"),
        (["--methods", "an", "--settings", "fspl", "--learning-rates", "0"], "greater than 0"),
        (["--methods", "an", "--settings", "fspl", "--batch-sizes", "x"], "list of ints"),
        (["--methods", "an", "--settings", "fspl", "--set", "wan.smoothing=0"], "compared methods"),
        (["--methods", "an", "--settings", "fspl", "--expected-positives", "x"], "truth, estimate"),
        (["--methods", "epr:regulariser", "--settings", "fspl"], "expected key=value"),
        (["--methods", "epr:regulariser=-1", "--settings", "fspl"], "greater than or equal to 0"),
    ],
)
def test_bad_comparisons_are_one_line(features, tmp_path, capsys, more, message):
    assert compare(features, tmp_path / "out", *more) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert len(shown.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_features_are_made_from_images(photos, tmp_path):
    output = tmp_path / "made"
    arguments = ["features", "--labels", str(photos / "train.csv"), "--images", str(photos)]
    arguments += ["--test-labels", str(photos / "test.csv"), "--backbone", "tiny", "--size", "32"]
    assert main([*arguments, "--workers", "0", "--output", str(output)]) == 0
    assert compare(output, tmp_path / "out", "--methods", "an", "--settings", "fspl") == 0
    assert main([*arguments, "--output", str(output)]) == 3
