"""A run whose loss is no longer finite: reported, never chosen, not trained again."""

import json

import pytest
from feature_folders import write_folder

from g2netpl.cli import main

HUGE = "3e37"  # the sum of costs of such a size is no number of 32 bits
REASON = "use a smaller --learning-rate"


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("data") / "features")


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def compare(features, output, methods, rates, *more):
    fixed = ["--features", str(features), "--settings", "sspl:0.5", "--epochs", "2"]
    fixed += ["--learning-rates", rates, "--output", str(output), "--methods", methods]
    return main(["compare", *fixed, "--seeds", "0,1", "--jobs", "1", *more])


def without_times(folder):
    rows = json.loads((folder / "results.json").read_text())
    return [{**row, "seconds": 0} for row in rows]


@pytest.mark.parametrize("more", [[], ["--choose-once"]])
def test_a_diverging_rate_changes_no_result(features, tmp_path, more, trained, capsys):
    """The rows are those of a comparison that never tried it."""
    assert compare(features, tmp_path / "out", "an,an-ls", f"{HUGE},1e-2", *more) == 0
    assert compare(features, tmp_path / "plain", "an,an-ls", "1e-2", *more) == 0
    assert without_times(tmp_path / "out") == without_times(tmp_path / "plain")
    cells = lines_of(tmp_path / "out" / "cells.jsonl")
    lost = [cell for cell in cells if cell["learning_rate"] == 3e37]
    assert len(lost) == (2 if "--choose-once" in more else 4)
    assert all(REASON in cell["diverged"] for cell in lost)
    assert all("diverged" not in cell for cell in cells if cell not in lost)
    assert "lr 3e+37 batch 64: diverged (epoch 2" in capsys.readouterr().out
    trained.clear()
    assert compare(features, tmp_path / "out", "an,an-ls", f"{HUGE},1e-2", *more) == 0
    assert trained == []
    assert lines_of(tmp_path / "out" / "cells.jsonl") == cells
